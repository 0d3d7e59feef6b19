"""An endpoint with an upstream: handler, gate and data proxy as deployed; the handler never holds the credential."""
import json
import os
import sqlite3
import time

import pytest

SECRET = "sk-upstream-0123456789"
HANDLER = '''
import http.server, json, socket, urllib.error, urllib.request
KEPT = []
def ask(path, token, host="data"):
    request = urllib.request.Request("http://" + host + path)
    if token:
        request.add_header("Utter-Data-Token", token)
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return "%d %s" % (answer.status, answer.read().decode())
    except urllib.error.HTTPError as e:
        return "%d %s" % (e.code, e.read().decode()[:60])
    except OSError as e:
        return "failed %s" % e
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        token = self.headers.get("Utter-Data-Token")
        say = {"token": bool(token), "none": ask("/api/fine", None), "other": ask("/elsewhere/x", token),
               "around": ask("/", token, "198.19.128.1:9000"), "old": [ask("/api/fine", old) for old in KEPT]}
        say["during"] = ask("/api/fine", token)
        if token:
            KEPT.append(token)
        body = json.dumps(say).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *a):
        pass
http.server.ThreadingHTTPServer(("0.0.0.0", 8080), H).serve_forever()
'''
UPSTREAM = '''
import http.server
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        ok = self.headers.get("X-Api-Key") == "%s"
        body = b"weather is fine" if ok else b"no key"
        self.send_response(200 if ok else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer(("198.19.128.1", 9000), H).serve_forever()
''' % SECRET
UPSTREAMS = """upstreams:
  - name: api
    url: "http://198.19.128.1:9000/v1"
    internal: true
    allow: [{methods: [GET], path: /fine}]
    inject: {header: {name: X-Api-Key, file: %s}}
"""


@pytest.fixture(scope="module")
def shop(rig):
    rig.ok("image", "data", rig.bin + "/utter-dataproxy")
    rig.write("wired/api.key", SECRET + "\n")
    os.chmod(rig.path("wired/api.key"), 0o600)
    before = rig.left()
    file = rig.endpoint("wired", payee=77, extra=UPSTREAMS % "api.key")
    rig.write("wired/handler/main.py", HANDLER)
    out = rig.ok("up", file)
    assert "wired.data listens at http://data/ for 1 upstreams" in out
    if not rig.facilitator:
        rig.start_facilitator()
    rig.write("upstream.py", UPSTREAM)
    rig.spawn("upstream.log", "/usr/bin/python3", rig.path("upstream.py"))
    rig.until(lambda: rig.run("curl", "-s", "http://198.19.128.1:9000/").stdout == "no key")
    yield {"file": file, "before": before}
    if os.path.exists(rig.path("var/wired/plan.json")):
        rig.deploy("down", "--purge", "wired")


def paid(rig):
    got = rig.pay("wired", edge=rig.edge("wired"))
    assert got.returncode == 0, got.stderr + rig.ok("logs", "wired", "gate")
    return json.loads(got.stdout)


def test_works_during_the_paid_call_only(rig, shop):
    first = paid(rig)
    assert first["during"] == "200 weather is fine" and first["token"] is True
    assert first["none"].startswith("401 utter-dataproxy: no token")
    assert first["other"].startswith("404 ")
    assert first["around"].startswith("failed")
    second = paid(rig)
    assert second["old"][0].startswith("403 utter-dataproxy: the request is not open")
    assert second["during"] == "200 weather is fine"


def test_the_credential_is_nowhere_but_in_the_proxys_tmpfs(rig, shop):
    ctr = ["ctr", "-a", rig.sock, "-n", "utter", "container", "info"]
    for name in ("wired.h1", "wired.gate", "wired.data"):
        assert SECRET not in rig.run(*ctr, name).stdout
    found = rig.run("grep", "-rl", SECRET, "/run/utter/wired").stdout.split()
    assert found == ["/run/utter/wired/secrets/api"]
    assert rig.run("stat", "-c", "%a %u", found[0]).stdout.strip() == "400 %d" % rig.plan("wired")["dataUid"]
    assert SECRET not in json.dumps(rig.plan("wired"))


def test_the_record_shares_the_request_id(rig, shop):
    paid(rig)
    time.sleep(0.6)
    rows = sqlite3.connect(rig.path("var/wired/egress/egress.db")).execute(
        "SELECT request_id, upstream, status FROM egress WHERE outcome = 'ok'").fetchall()
    assert rows and rows[-1][1:] == ("api", 200)
    assert rows[-1][0] in rig.ok("logs", "wired", "gate")


def test_up_again_changes_nothing_and_audit_is_clean(rig, shop):
    assert "unchanged wired" in rig.ok("up", shop["file"])
    assert "0 drifts" in rig.ok("audit", "wired")
    assert "wired.data" in rig.ok("status", "wired", "--json")
    status = rig.ok("status", "wired")
    assert "upstream  api: " in status and "bytes down" in status
    counted = json.loads(rig.ok("status", "wired", "--json"))["dataMetrics"]
    assert counted['calls_total{outcome="ok"}'] > 0 and counted["gates"] == 1


def test_status_and_logs_share_the_request_id(rig, shop):
    paid(rig)
    time.sleep(0.6)
    line = [line for line in rig.ok("status", "wired").splitlines() if line.startswith("call ") and " to api: 200 ok" in line][0]
    request = line.split()[1]
    assert '"request":"%s"' % request in rig.ok("logs", "wired", "data") and request in rig.ok("logs", "wired", "gate")


def test_rotated_keys_sign_the_next_call(rig, shop):
    before = json.loads(rig.ok("status", "wired", "--json"))["dataMetrics"]
    said = rig.ok("rotate", "wired")
    new, old = said.split(": ")[1].split()[0], said.split("now, ")[1].split()[0]
    counted = json.loads(rig.ok("status", "wired", "--json"))["dataMetrics"]
    assert {key for key in counted if key.startswith("key{")} == {'key{id="%s"}' % new, 'key{id="%s"}' % old}
    assert 'key{id="%s"}' % old in before and 'key{id="%s"}' % new not in before
    assert paid(rig)["during"] == "200 weather is fine"
    assert rig.run("stat", "-c", "%a %u", "/run/utter/wired/data-key/data.key").stdout.split() == ["400", str(rig.plan("wired")["uid"])]
    assert rig.run("ls", "/run/utter/wired/data-keys").stdout.split() == sorted(["data.pub", old + ".pub"])
    assert "0 drifts" in rig.ok("audit", "wired")


DRIFTS = {
    "mode": (["chmod", "0444", "/run/utter/wired/secrets/api"], ["chmod", "0400", "/run/utter/wired/secrets/api"], "secrets/api has mode 0444"),
    "owner": (["chown", "1", "/run/utter/wired/data-key/data.key"], ["sh", "-c", "chown $(stat -c %u /run/utter/wired/data-key) /run/utter/wired/data-key/data.key"],
              "data.key belongs to uid 1"),
    "pair": (["mv", "/run/utter/wired/data-keys/data.pub", "/run/utter/wired/data-keys/away"], ["mv", "/run/utter/wired/data-keys/away", "/run/utter/wired/data-keys/data.pub"],
             "does not hold the public half"),
    "configuration": (["sed", "-i.before", "s/fine/any/", "CONFIG"], ["mv", "CONFIG.before", "CONFIG"], "data.json is not the plan's"),
    "secret": (["mv", "/run/utter/wired/secrets/api", "/run/utter/wired/secrets/away"], ["mv", "/run/utter/wired/secrets/away", "/run/utter/wired/secrets/api"],
               "secrets/api is missing"),
}


@pytest.mark.parametrize("drift", DRIFTS)
def test_audit_names_drifts_of_the_data_proxy(rig, shop, drift):
    do, undo, line = DRIFTS[drift]
    config = rig.path("var/wired/data/data.json")
    done = rig.run(*[word.replace("CONFIG", config) for word in do])
    assert done.returncode == 0, done.stderr
    found = rig.deploy("audit", "wired")
    assert rig.run(*[word.replace("CONFIG", config) for word in undo]).returncode == 0
    assert found.returncode != 0 and line in found.stdout + found.stderr, found
    assert "0 drifts" in rig.ok("audit", "wired")


def test_a_dead_data_proxy_is_put_back(rig, shop):
    rig.run("ctr", "-a", rig.sock, "-n", "utter", "task", "kill", "-s", "KILL", "wired.data")
    rig.until(lambda: "STOPPED" in rig.run("ctr", "-a", rig.sock, "-n", "utter", "task", "ls").stdout)
    got = rig.pay("wired", edge=rig.edge("wired"), retry=1)
    assert got.returncode != 0 and got.stdout == ""
    assert "wired.data listens" in rig.ok("up", shop["file"])
    got = rig.pay("wired", edge=rig.edge("wired"), retry=20)
    assert got.returncode == 0, got.stderr + rig.ok("logs", "wired", "gate")


def test_watch_puts_a_dead_proxy_back(rig, shop):
    watch = rig.spawn("watch.log", rig.bin + "/utter-deploy", "watch")
    try:
        rig.until(lambda: "watch" in rig.ok("status", "wired") and "nothing will be restarted" not in rig.ok("status", "wired"))
        before = rig.run("ctr", "-a", rig.sock, "-n", "utter", "task", "ls").stdout
        rig.run("ctr", "-a", rig.sock, "-n", "utter", "task", "kill", "-s", "KILL", "wired.data")
        row = lambda text: [line.split() for line in text.splitlines() if line.startswith("wired.data ")]
        rig.until(lambda: (now := row(rig.run("ctr", "-a", rig.sock, "-n", "utter", "task", "ls").stdout)) and now[0][2] == "RUNNING" and now[0][1] != row(before)[0][1], 30)
        got = rig.pay("wired", edge=rig.edge("wired"), retry=20)
        assert got.returncode == 0 and json.loads(got.stdout)["during"] == "200 weather is fine", got.stderr
    finally:
        watch.terminate()
        watch.wait(30)
    assert "0 drifts" in rig.ok("audit", "wired")


def test_down_leaves_nothing(rig, shop):
    rig.ok("down", "--purge", "wired")
    after = rig.left()
    for what, lines in shop["before"].items():
        if what not in ("rules", "links"):
            assert after[what] <= lines | {""}, what
