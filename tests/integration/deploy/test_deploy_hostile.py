"""From inside a real gVisor handler that attacks: no credential, no extra call, no byte out elsewhere, nothing reached but its proxy."""
import json
import os
import time

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
SECRET = "sk-upstream/abc+DEF==0123456789"
UPSTREAM = '''
import base64, html, http.server, sys, threading, urllib.parse
SECRET = "%s"
COUNT = {"fine": 0, "elsewhere": 0}
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def any(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        how = self.path.rsplit("/", 1)[1].split("?")[0]
        key = (self.headers.get("Authorization") or "").encode()
        ok = key == b"Bearer " + SECRET.encode()
        if how == "count":
            body = repr(COUNT).encode()
        elif "/echo/" not in self.path:
            COUNT["fine" if ok else "elsewhere"] += 1
            body = b"fine" if ok else b"no key"
        else:
            body = b"field: " + {"html": lambda k: html.escape(k.decode()).replace("+", "&#43;").encode(), "json": lambda k: k.replace(b"+", b"\\\\u002b"),
                "percent": lambda k: urllib.parse.quote(k).encode().lower(), "b64": base64.b64encode, "b64lines": lambda k: base64.encodebytes(k * 3), "hex": lambda k: k.hex().encode(),
                "upper": bytes.upper}.get(how, bytes)(key)
        if how in ("header", "status", "hints", "trailer", "redirect", "gzip", "chunked", "half"):
            body = b"fine" if how not in ("gzip", "chunked", "half") else body
        if how == "hints":
            self.wfile.write(b"HTTP/1.1 103 Early Hints\\r\\nLink: <" + key + b">\\r\\n\\r\\n")
        self.send_response({"error": 500, "redirect": 302}.get(how, 200), key.decode() if how == "status" else None)
        if how in ("header", "redirect"):
            for name in ("ETag", "Location", "Link", "X-Request-Id", "WWW-Authenticate"):
                self.send_header(name, key.decode())
        if how == "gzip":
            self.send_header("Content-Encoding", "gzip")
        if how in ("trailer", "chunked"):
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for i in range(len(body)):
                self.wfile.write(b"1\\r\\n" + body[i:i + 1] + b"\\r\\n")
            self.wfile.write(b"0\\r\\n" + (b"ETag: " + key + b"\\r\\n" if how == "trailer" else b"") + b"\\r\\n")
            return
        if how == "late":
            body = b"y" * 50000 + body
        begin, end = 0, len(body)
        if self.headers.get("Range"):
            begin, end = (int(n) for n in self.headers["Range"].split("=")[1].split("-"))
            end += 1
        self.send_header("Content-Length", str(len(body[begin:end]) + (100 if how == "half" else 0)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[begin:end])
        self.close_connection = how == "half"
    do_GET = do_POST = do_HEAD = any
    def log_message(self, *a):
        pass
for port in (9000, 9001):
    threading.Thread(target=http.server.ThreadingHTTPServer(("198.19.128.1", port), H).serve_forever).start()
''' % SECRET
EXTRA = """upstreams:
  - name: api
    url: "http://198.19.128.1:9000/v1"
    internal: true
    allow: [{methods: [GET, POST, HEAD], path: /fine}, {methods: [GET, HEAD], path: "/echo/{how}"}]
    inject: {header: {name: Authorization, value: "Bearer {secret}", file: api.key}}
timeouts: {handler: 60s}
limits: {pids: 256}
"""


@pytest.fixture(scope="module")
def shop(rig):
    rig.ok("image", "data", rig.bin + "/utter-dataproxy")
    rig.write("hostile/api.key", SECRET + "\n")
    os.chmod(rig.path("hostile/api.key"), 0o600)
    file = rig.endpoint("hostile", payee=78, extra=EXTRA)
    with open(os.path.join(HERE, "hostile_handler.py")) as f:
        rig.write("hostile/handler/main.py", f.read())
    rig.ok("up", file)
    if not rig.facilitator:
        rig.start_facilitator()
    rig.write("hostile_upstream.py", UPSTREAM)
    rig.spawn("hostile_upstream.log", "/usr/bin/python3", rig.path("hostile_upstream.py"))
    rig.until(lambda: rig.run("curl", "-s", "http://198.19.128.1:9001/count").stdout)
    yield rig
    if os.path.exists(rig.path("var/hostile/plan.json")):
        rig.deploy("down", "--purge", "hostile")


def attack(rig, path):
    got = rig.pay("hostile", path=path, edge=rig.edge("hostile"))
    assert got.returncode == 0, got.stderr + rig.ok("logs", "hostile", "gate") + rig.ok("logs", "hostile", "data")[-3000:]
    said = json.loads(got.stdout)
    assert "failed" not in said, said
    assert SECRET not in got.stdout
    return said


def counted(rig):
    return eval(rig.run("curl", "-s", "http://198.19.128.1:9000/count").stdout)


def test_nothing_is_reachable_but_the_proxy(shop):
    plan = shop.plan("hostile")
    own = plan["data"]["address"].split("/")[0]
    first = own.rsplit(".", 1)[0]
    last = int(own.rsplit(".", 1)[1])
    hosts = ["%s.%d" % (first, last + i) for i in range(-3, 6)] + ["198.19.128.1", "198.19.0.1", plan["gate"]["edge"].split("/")[0], plan["data"]["edge"].split("/")[0],
                                                                  "169.254.169.254", "10.0.0.1", "172.17.0.1", "192.168.0.1", "198.18.0.4", "8.8.8.8", "1.1.1.1", "224.0.0.251", "255.255.255.255"]
    said = attack(shop, "/network?hosts=" + ",".join(hosts))
    mine = plan["handler"]["address"].split("/")[0]
    assert set(said["reached"]) - {"tcp %s:8080" % mine} == {"tcp %s:80" % own}
    assert said["names"].pop("data") == [own] and said["names"].pop("localhost")[-1:] in (["::1"], ["127.0.0.1"], [])
    assert set(map(str, said["names"].values())) == {"[]"}, said["names"]
    assert all(said["raw"][name] != "opened" for name in ("icmp", "ip", "packet")), said["raw"]


def test_no_socket_no_file_no_variable_holds_anything(shop):
    assert attack(shop, "/files") == {"sockets": [], "holds": [], "environment": []}


def test_no_way_of_saying_it_gets_through(shop):
    """A leak taints the request, so that the answer about it is not sold: what the handler saw is what it logs."""
    got = shop.pay("hostile", path="/credential", edge=shop.edge("hostile"), retry=1)
    assert got.returncode != 0 and SECRET not in got.stdout + got.stderr
    assert '"outcome":"leak"' in shop.ok("logs", "hostile", "data") and SECRET not in shop.ok("logs", "hostile", "data")


def test_no_target_leads_elsewhere(shop):
    before = counted(shop)
    said = attack(shop, "/elsewhere?other=198.19.128.1:9001")
    assert counted(shop)["elsewhere"] == before["elsewhere"]
    assert said.pop("/api/fine?next=http://198.19.128.1:9001/") == "200"
    assert all(code[0] == "4" for code in said.values()), said


def test_exactly_the_budget_and_only_this_token(shop):
    before = counted(shop)["fine"]
    said = attack(shop, "/race")
    assert said["said"] == {"200": 100, "429": 200}
    assert counted(shop)["fine"] - before == 100
    assert set(said["wrong"].values()) == {"401"}, said["wrong"]


def test_no_token_outlives_its_answer(shop):
    attack(shop, "/after")
    time.sleep(3)
    before = counted(shop)["fine"]
    said = attack(shop, "/after")
    assert said["old"] == ["403"] and said["late"] == ["403"] * 20
    time.sleep(2)
    assert counted(shop)["fine"] == before


def test_held_connections_cost_only_itself(shop):
    said = attack(shop, "/exhaust")
    assert said["held"] > 500 and said["afterwards"] == "200", said
    assert attack(shop, "/elsewhere?other=198.19.128.1:9001")
    status = json.loads(shop.ok("status", "hostile", "--json"))
    assert status["data"]["state"] == "running" and "0 drifts" in shop.ok("audit", "hostile")
