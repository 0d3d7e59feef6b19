"""The data proxy, end to end on real sockets: who is served, what passes, what never does."""
import base64
import concurrent.futures
import json
import os
import pwd
import shutil
import signal
import socket
import sqlite3
import subprocess
import threading
import time
import urllib.parse
import urllib.request

import pytest

from proxyrig import SECRET

pytestmark = pytest.mark.once


@pytest.fixture
def gate(proxy):
    made = proxy.gate()
    made.open("r1")
    yield made
    made.close()


def test_paid_call_reaches_the_upstream_with_the_credential(proxy, gate, upstream):
    status, body, headers = proxy.ask("/api/fine?q=1", proxy.token("r1"), headers=[("X-Custom", "yes"), ("Cookie", "no"),
                                                                                  ("X-Forwarded-For", "1.2.3.4")])
    assert (status, body) == (200, b"fine")
    seen = upstream.seen[0]
    assert seen["path"] == "/fine?q=1"
    names = {name.lower(): value for name, value in seen["headers"].items()}
    assert names["authorization"] == "Bearer " + SECRET
    assert names["x-custom"] == "yes"
    assert names["accept-encoding"] == "identity"
    assert not {"cookie", "utter-data-token", "x-forwarded-for"} & set(names)
    assert headers["etag"] == '"1"'
    assert not {"set-cookie", "x-internal"} & set(headers)
    ended = gate.end("r1")
    assert (ended["op"], ended["calls"], ended["bytes"], ended["tainted"]) == ("ended", 1, 4, False)


def test_body_goes_up_and_is_capped(proxy, gate, upstream):
    assert proxy.ask("/api/fine", proxy.token("r1"), "POST", b"a" * 1000)[0] == 200
    assert upstream.seen[0]["body"] == b"a" * 1000
    status, body, _ = proxy.ask("/api/fine", proxy.token("r1"), "POST", b"a" * 1001)
    assert status == 413 and len(upstream.seen) == 1
    assert b"larger" in body


TOKENS = {
    "none": lambda p: None,
    "garbage": lambda p: "a.b.c",
    "expired": lambda p: p.token("r1", iat=1000, exp=1060),
    "not yet": lambda p: p.token("r1", iat=int(time.time()) + 600, exp=int(time.time()) + 660),
    "too long": lambda p: p.token("r1", exp=int(time.time()) + 100000),
    "other slug": lambda p: p.token("r1", sub="other"),
    "other audience": lambda p: p.token("r1", aud="gate"),
    "other issuer": lambda p: p.token("r1", iss="handler"),
    "alg none": lambda p: p.token("r1", header={"alg": "none"}),
    "alg HS256": lambda p: p.token("r1", header={"alg": "HS256"}),
    "alg RS256": lambda p: p.token("r1", header={"alg": "RS256"}),
    "unknown key": lambda p: p.token("r1", header={"kid": "0" * 16}),
    "header member": lambda p: p.token("r1", header={"jku": "http://127.0.0.1/"}),
    "extra claim": lambda p: p.token("r1", admin=True),
    "altered": lambda p: p.token("r1")[:-4] + "AAAA",
    "unsigned": lambda p: p.token("r1").rsplit(".", 1)[0] + ".",
}


@pytest.mark.parametrize("case", TOKENS)
def test_token_matrix(proxy, gate, upstream, case):
    status, body, _ = proxy.ask("/api/fine", TOKENS[case](proxy))
    assert status == 401 and body.startswith(b"utter-dataproxy: ")
    assert upstream.seen == []


def test_token_of_a_key_that_is_not_ours(proxy, gate, upstream, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    subprocess.run([proxy.bin, "keygen", str(tmp_path / "a"), str(tmp_path / "b")], check=True, stdout=subprocess.DEVNULL)
    assert proxy.ask("/api/fine", proxy.token("r1", sign=str(tmp_path / "a")))[0] == 401
    assert upstream.seen == []


def test_only_open_requests_are_served(proxy, gate, upstream):
    assert proxy.ask("/api/fine", proxy.token("never-opened"))[0] == 403
    assert proxy.ask("/api/fine", proxy.token("r1"))[0] == 200
    gate.end("r1")
    status, body, _ = proxy.ask("/api/fine", proxy.token("r1"))
    assert status == 403 and b"not open" in body
    assert gate.say(op="open", id="r1", scope=["api"], calls=1, bytes=1, ms=1000)["op"] == "refused"
    assert len(upstream.seen) == 1


def test_scope(make_proxy, upstream):
    def two(config):
        other = json.loads(json.dumps(config["upstreams"][0]))
        other["name"] = "other"
        config["upstreams"].append(other)

    proxy = make_proxy(two)
    gate = proxy.gate()
    gate.open("r1")
    assert proxy.ask("/other/fine", proxy.token("r1"))[0] == 403
    assert proxy.ask("/other/fine", proxy.token("r1", scope=["api", "other"]))[0] == 403
    assert proxy.ask("/api/fine", proxy.token("r1", scope=["other"]))[0] == 403
    assert upstream.seen == []


def test_budget_of_ten_under_a_hundred_parallel_calls(proxy, upstream):
    gate = proxy.gate()
    gate.open("r1")
    token = proxy.token("r1")
    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        statuses = list(pool.map(lambda _: proxy.ask("/api/fine", token)[0], range(100)))
    assert statuses.count(200) == 10 and statuses.count(429) == 90
    assert len(upstream.seen) == 10
    assert gate.end("r1")["calls"] == 10


def test_byte_budget_cuts(proxy, upstream):
    gate = proxy.gate()
    gate.open("r1", bytes=20000)
    with pytest.raises(Exception):
        status, body, _ = proxy.ask("/api/late-leak2", proxy.token("r1"))
        assert (status, body) == (200, b"fine")
        proxy.ask("/api/drip", proxy.token("r1"))
    assert gate.end("r1")["bytes"] <= 20000


@pytest.mark.parametrize("method,path,status", [
    ("GET", "/api/files/a/b", 200), ("POST", "/api/files/a", 403), ("GET", "/api/a/b", 403), ("GET", "/api/", 403),
    ("GET", "/api", 403), ("DELETE", "/api/fine", 403), ("OPTIONS", "/api/fine", 405), ("TRACE", "/api/fine", 405),
    ("PURGE", "/api/fine", 405), ("GET", "/nope/fine", 404), ("GET", "/", 404), ("GET", "/api/../api/fine", 400),
    ("GET", "/api/%2e%2e/fine", 400), ("GET", "/api/a%2fb", 400), ("GET", "/api//fine", 400), ("GET", "/api/a%00", 400),
    ("GET", "/api/a%0d%0aHost:x", 400), ("GET", "/api/a%5cb", 400), ("GET", "/api/%zz", 400), ("GET", "/api/a%252e", 400),
])
def test_methods_and_paths(proxy, gate, upstream, method, path, status):
    assert proxy.ask(path, proxy.token("r1"), method)[0] == status
    assert len(upstream.seen) == (status == 200)


def test_connect_gets_the_line_that_helps(proxy, gate):
    with socket.create_connection(("127.0.0.1", proxy.port)) as s:
        s.sendall(b"CONNECT api.example:443 HTTP/1.1\r\nHost: api.example:443\r\n\r\n")
        answer = s.recv(4096)
    assert b" 405 " in answer.split(b"\r\n")[0] and b"http://data/<upstream>/" in answer


def test_absolute_form_as_an_ordinary_proxy(proxy, gate, upstream):
    token = proxy.token("r1")
    target = "http://127.0.0.1:%d/fine" % upstream.port
    assert proxy.ask(target, None, headers=[("Proxy-Authorization", "Bearer " + token)])[0] == 200
    basic = base64.b64encode(("x:" + token).encode()).decode()
    assert proxy.ask(target, None, headers=[("Proxy-Authorization", "Basic " + basic)])[0] == 200
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": "http://x:%s@127.0.0.1:%d" % (token, proxy.port)}))
    assert opener.open(target, timeout=10).read() == b"fine"
    assert proxy.ask("http://data/api/fine", token)[0] == 200
    assert proxy.ask("http://evil.example/fine", token)[0] == 404
    assert proxy.ask("http://user@127.0.0.1:%d/fine" % upstream.port, token)[0] in (400, 404)
    assert proxy.ask(target, token, headers=[("Proxy-Authorization", "Bearer other")])[0] == 401
    for seen in upstream.seen:
        assert "proxy-authorization" not in {name.lower() for name in seen["headers"]}


@pytest.mark.parametrize("path", ["body-leak", "b64-leak", "error-leak", "late-leak"])
def test_credential_never_comes_back(proxy, upstream, path):
    gate = proxy.gate()
    gate.open("r1")
    try:
        status, body, _ = proxy.ask("/api/" + path, proxy.token("r1"))
        assert status == 502
    except Exception as cut:
        body = getattr(cut, "partial", b"")
    assert SECRET.encode() not in body and base64.b64encode(SECRET.encode())[:20] not in body
    assert gate.end("r1")["tainted"] is True


def test_credential_in_a_header_is_dropped(proxy, gate):
    status, body, headers = proxy.ask("/api/header-leak", proxy.token("r1"))
    assert (status, body) == (200, b"fine") and "etag" not in headers and "link" not in headers


@pytest.mark.parametrize("path,status,line", [("redirect", 502, b"redirects"), ("gzip", 502, b"encodes"),
                                              ("hang", 504, b"in time")])
def test_upstream_faults(proxy, gate, path, status, line):
    answer = proxy.ask("/api/" + path, proxy.token("r1"))
    assert answer[0] == status and line in answer[1]


@pytest.mark.parametrize("path", ["big", "cut", "drip"])
def test_broken_answers_are_cut_not_completed(proxy, gate, path):
    with pytest.raises(Exception):
        proxy.ask("/api/" + path, proxy.token("r1"))


def test_ending_aborts_a_call_under_way(proxy, upstream):
    gate = proxy.gate()
    gate.open("r1")
    with socket.create_connection(("127.0.0.1", proxy.port)) as s:
        s.sendall(("GET /api/drip HTTP/1.1\r\nHost: data\r\nUtter-Data-Token: %s\r\n\r\n" % proxy.token("r1")).encode())
        assert b" 200 " in s.recv(1000)
        assert gate.end("r1")["op"] == "ended"
        s.settimeout(5)
        with pytest.raises(ConnectionError):
            while s.recv(65536):
                pass
            raise AssertionError("ended without a reset")
    end = time.time() + 5
    while "cut" not in upstream.seen and time.time() < end:
        time.sleep(0.05)
    assert "cut" in upstream.seen


def test_killed_gate_leaves_nothing_alive(proxy, upstream):
    gate = proxy.gate()
    gate.open("r1")
    token = proxy.token("r1")
    assert proxy.ask("/api/fine", token)[0] == 200
    gate.close()
    time.sleep(0.1)
    assert proxy.ask("/api/fine", token)[0] == 403


def test_killed_proxy_revives_nothing(proxy, upstream):
    gate = proxy.gate()
    gate.open("r1")
    token = proxy.token("r1")
    for _ in range(7):
        assert proxy.ask("/api/fine", token)[0] == 200
    proxy.process.send_signal(signal.SIGKILL)
    proxy.process.wait()
    proxy.log.close()
    os.truncate(proxy.dir + "/log", 0)
    proxy.start()
    again = proxy.gate()
    for _ in range(3):
        assert proxy.ask("/api/fine", token)[0] == 403
    assert len(upstream.seen) == 7
    again.close()


def test_foreign_uid_cannot_open(make_proxy, upstream):
    proxy = make_proxy(lambda config: config.update(gate_uid=4242))
    gate = proxy.gate()
    with pytest.raises(Exception):
        gate.open("r1")
    assert proxy.ask("/api/fine", proxy.token("r1"))[0] == 403


def test_only_the_handlers_address_is_served(make_proxy, upstream):
    proxy = make_proxy(lambda config: config.update(peer="198.18.0.4/31"))
    gate = proxy.gate()
    gate.open("r1")
    assert proxy.ask("/api/fine", proxy.token("r1"))[0] == 403
    assert upstream.seen == []


@pytest.mark.parametrize("url", ["http://127.0.0.1:%d", "http://[::1]:%d", "http://localhost:%d"])
def test_ssrf_private_addresses_need_internal(make_proxy, upstream, url):
    def public(config):
        up = config["upstreams"][0]
        up.update(url=(url % upstream.port).replace("http://", "https://"), internal=False)

    proxy = make_proxy(public)
    gate = proxy.gate()
    gate.open("r1")
    status, body, _ = proxy.ask("/api/fine", proxy.token("r1"))
    assert status == 502 and (b"address refused" in body or b"not resolved" in body)
    assert upstream.seen == []


@pytest.mark.parametrize("address", ["169.254.169.254", "[fd00:ec2::254]", "0.0.0.0", "224.0.0.1", "[::ffff:127.0.0.1]",
                                     "[64:ff9b::7f00:1]", "[fe80::1]", "192.0.2.1", "255.255.255.255"])
def test_ssrf_forbidden_even_when_internal(make_proxy, upstream, address):
    proxy = make_proxy(lambda config: config["upstreams"][0].update(url="http://%s:%d" % (address, upstream.port)))
    gate = proxy.gate()
    gate.open("r1")
    status, body, _ = proxy.ask("/api/fine", proxy.token("r1"))
    assert status == 502 and b"address refused" in body


@pytest.mark.parametrize("host", ["127.1", "0x7f000001", "2130706433", "0177.0.0.1", "user@127.0.0.1", "a..b", "a.example."])
def test_ssrf_odd_hosts_do_not_load(make_proxy, host):
    with pytest.raises(AssertionError, match="host must be|no user and password"):
        make_proxy(lambda config: config["upstreams"][0].update(url="http://%s/" % host))


def test_rotated_credential_is_picked_up_and_a_bad_one_is_not(proxy, gate, upstream):
    token = proxy.token("r1")
    proxy.file("secret", "the-second-credential")
    assert proxy.ask("/api/fine", token)[0] == 200
    assert upstream.seen[-1]["headers"]["Authorization"] == "Bearer the-second-credential"
    proxy.file("secret", "bad")
    assert proxy.ask("/api/fine", token)[0] == 200
    assert upstream.seen[-1]["headers"]["Authorization"] == "Bearer the-second-credential"
    assert "credential_kept" in proxy.logged()


@pytest.mark.parametrize("inject,check", [
    ({"query": {"name": "key"}}, lambda seen: seen["path"].endswith("?key=sk-live-0123456789%2Fabc%2BDEF%3D%3D")),
    ({"basic": {"user": "me"}},
     lambda seen: seen["headers"]["Authorization"] == "Basic " + base64.b64encode(("me:" + SECRET).encode()).decode()),
    ({"sigv4": {"user": "AKIDEXAMPLE", "region": "eu-west-1", "service": "execute-api"}},
     lambda seen: seen["headers"]["Authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")),
])
def test_injection_kinds(make_proxy, upstream, inject, check):
    def change(config):
        kind = next(iter(inject))
        inject[kind]["file"] = config["upstreams"][0]["inject"]["header"]["file"]
        config["upstreams"][0]["inject"] = inject

    proxy = make_proxy(change)
    gate = proxy.gate()
    gate.open("r1")
    assert proxy.ask("/api/fine", proxy.token("r1"))[0] == 200
    assert check(upstream.seen[-1]), upstream.seen[-1]


def test_rate_and_cache(make_proxy, upstream):
    proxy = make_proxy(lambda config: config["upstreams"][0]["limits"].update(rate_per_minute=6, rate_burst=2, cache_ms=60000))
    gate = proxy.gate()
    gate.open("r1")
    token = proxy.token("r1")
    assert proxy.ask("/api/fine?a", token)[0] == 200
    assert proxy.ask("/api/fine?a", token)[2].get("age") == "0"
    assert len(upstream.seen) == 1


def test_rate_limit(make_proxy, upstream):
    proxy = make_proxy(lambda config: config["upstreams"][0]["limits"].update(rate_per_minute=6, rate_burst=2))
    gate = proxy.gate()
    gate.open("r1")
    token = proxy.token("r1")
    assert [proxy.ask("/api/fine", token)[0] for _ in range(4)] == [200, 200, 429, 429]
    assert len(upstream.seen) == 2


@pytest.mark.parametrize("raw", [
    b"GET /api/fine HTTP/1.1\r\nHost: data\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n%s\r\n0\r\n\r\n",
    b"GET /api/fine HTTP/1.1\r\nHost: data\r\nContent-Length: 3\r\nContent-Length: 4\r\n%s\r\nabc",
    b"GET /api/fine HTTP/1.1\r\nHost: data\r\n%sX-A: 1\r\n b\r\n\r\n",
    b"GET /api/fine HTTP/1.1\r\nHost: data\r\nHost: data\r\n%s\r\n",
    b"GET /api/fine HTTP/1.1\nHost: data\n%s\n",
    b"GET /api/fine HTTP/1.1\r\nHost: data\r\nX : 1\r\n%s\r\n",
])
def test_smuggling_is_refused(proxy, gate, upstream, raw):
    field = b"Utter-Data-Token: " + proxy.token("r1").encode() + b"\r\n"
    with socket.create_connection(("127.0.0.1", proxy.port)) as s:
        s.settimeout(10)
        s.sendall(raw.replace(b"%s", field) + b"GET /api/files/second HTTP/1.1\r\nHost: data\r\n" + field + b"\r\n")
        answer = b""
        try:
            while chunk := s.recv(65536):
                answer += chunk
        except OSError:
            pass
    assert b" 400 " in answer.split(b"\r\n")[0] and answer.count(b"HTTP/1.1 ") == 1
    assert upstream.seen == []


def test_two_tokens_are_refused(proxy, gate, upstream):
    token = proxy.token("r1")
    assert proxy.ask("/api/fine", token, headers=[("Utter-Data-Token", token)])[0] == 401
    assert upstream.seen == []


def test_records_and_metrics(proxy, gate, upstream):
    assert proxy.ask("/api/fine?secret=path", proxy.token("r1"))[0] == 200
    assert proxy.ask("/api/fine")[0] == 401
    time.sleep(0.5)
    rows = sqlite3.connect(proxy.config["ledger"]).execute(
        "SELECT request_id, upstream, method, status, upstream_status, bytes_down, outcome FROM egress ORDER BY seq").fetchall()
    assert rows == [("r1", "api", "GET", 200, 200, 4, "ok"), ("", "api", "GET", 401, 0, 0, "no_token")]
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(proxy.dir + "/admin")
        s.sendall(b"GET /metrics HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n")
        page = b""
        while chunk := s.recv(65536):
            page += chunk
    assert b'utter_dataproxy_calls_total{outcome="ok"} 1' in page
    assert b'utter_dataproxy_calls_total{outcome="no_token"} 1' in page
    assert b"utter_dataproxy_gates 1" in page
    log = proxy.logged()
    assert SECRET not in log and "secret=path" not in log and "eyJ" not in log


def test_start_refuses_what_is_missing(make_proxy):
    with pytest.raises(AssertionError, match="chmod 0400"):
        def loose(config):
            os.chmod(config["upstreams"][0]["inject"]["header"]["file"], 0o444)
        make_proxy(loose)
    with pytest.raises(AssertionError, match="no \\*.pub key"):
        make_proxy(lambda config: os.unlink(config["keys"] + "/data.pub"))


class Resolver:
    """A DNS server whose A answers are told, one after the other; the last one stays."""

    def __init__(self, answers):
        self.answers, self.asked = list(answers), 0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                packet, peer = self.socket.recvfrom(1000)
            except OSError:
                return
            end = packet.index(b"\0", 12) + 5
            kind = packet[end - 4:end - 2]
            records = b""
            if kind == b"\0\1":
                address = self.answers[min(self.asked, len(self.answers) - 1)]
                self.asked += 1
                records = b"\xc0\x0c\0\1\0\1\0\0\0\0\0\4" + socket.inet_aton(address)
            self.socket.sendto(packet[:2] + b"\x84\0\0\1\0" + bytes([bool(records)]) + b"\0\0\0\0" + packet[12:end] + records, peer)


def named(upstream, resolver, internal):
    def change(config):
        config["resolver"] = "127.0.0.1:%d" % resolver.port
        scheme = "http" if internal else "https"
        config["upstreams"][0].update(url="%s://rebind.example:%d" % (scheme, upstream.port), internal=internal)
    return change


def test_rebinding_changes_nothing(make_proxy, upstream):
    """The first look-up is public, every later one is loopback: what is connected to is what was judged."""
    resolver = Resolver(["192.0.0.8", "127.0.0.1"])
    proxy = make_proxy(named(upstream, resolver, internal=False))
    gate = proxy.gate()
    gate.open("r1")
    for _ in range(3):
        status, body, _ = proxy.ask("/api/fine", proxy.token("r1"))
        assert status == 502 and b"address refused" in body
    assert resolver.asked == 3 and upstream.seen == []


def test_one_look_up_a_call(make_proxy, upstream):
    resolver = Resolver(["127.0.0.1"])
    proxy = make_proxy(named(upstream, resolver, internal=True))
    gate = proxy.gate()
    gate.open("r1")
    assert proxy.ask("/api/fine", proxy.token("r1"))[0] == 200
    assert resolver.asked == 1
    assert upstream.seen[0]["headers"]["Host"] == "rebind.example:%d" % upstream.port


def test_oauth2_fetches_once_caches_and_refreshes_after_401(make_proxy, upstream):
    grants = []

    def token(self):
        grants.append(dict(urllib.parse.parse_qsl(self.server.seen[-1]["body"].decode())))
        self.answer(200, json.dumps({"access_token": "access-token-%d" % len(grants), "token_type": "Bearer",
                                     "expires_in": 3600}).encode(), Content_Type="application/json")

    def guarded(self):
        fresh = self.headers["Authorization"] == "Bearer access-token-%d" % max(len(grants), self.server.least)
        self.answer(200 if fresh else 401, b"fine")

    def change(config):
        config["upstreams"][0]["inject"] = {"oauth2": {
            "user": "client", "scope": "read all", "token_url": "http://127.0.0.1:%d/token" % upstream.port,
            "file": config["upstreams"][0]["inject"]["header"]["file"]}}

    upstream.least = 0
    upstream.RequestHandlerClass.do_token, upstream.RequestHandlerClass.do_guarded = token, guarded
    proxy = make_proxy(change)
    gate = proxy.gate()
    gate.open("r1", calls=100)
    data = proxy.token("r1")
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        assert set(pool.map(lambda _: proxy.ask("/api/guarded", data)[0], range(10))) == {200}
    assert grants == [{"grant_type": "client_credentials", "client_id": "client", "client_secret": SECRET, "scope": "read all"}]
    upstream.least = 2
    assert proxy.ask("/api/guarded", data)[0] == 401
    assert proxy.ask("/api/guarded", data)[0] == 200
    assert len(grants) == 2


def test_oauth2_endpoint_down(make_proxy, upstream):
    def change(config):
        config["upstreams"][0]["inject"] = {"oauth2": {
            "user": "client", "token_url": "http://127.0.0.1:9/token",
            "file": config["upstreams"][0]["inject"]["header"]["file"]}}

    proxy = make_proxy(change)
    gate = proxy.gate()
    gate.open("r1")
    status, body, _ = proxy.ask("/api/fine", proxy.token("r1"))
    assert status == 502 and b"credential cannot be had" in body and upstream.seen == []


CLIENTS = {
    "curl": ["curl", "-sS", "--max-time", "10", "-H", "Utter-Data-Token: TOKEN", "--connect-to", "data:80:127.0.0.1:PORT",
             "http://data/api/fine"],
    "curl as a proxy": ["curl", "-sS", "--max-time", "10", "-x", "http://x:TOKEN@127.0.0.1:PORT", "http://127.0.0.1:UPSTREAM/fine"],
    "urllib": ["/usr/bin/python3", "-c", "import urllib.request as u; print(u.urlopen(u.Request('http://127.0.0.1:PORT/api/fine', "
               "headers={'Host': 'data', 'Utter-Data-Token': 'TOKEN'})).read().decode())"],
    "urllib as a proxy": ["/usr/bin/python3", "-c", "import urllib.request as u; print(u.build_opener(u.ProxyHandler({'http': 'http://x:TOKEN@127.0.0.1:PORT'}))"
                          ".open('http://127.0.0.1:UPSTREAM/fine').read().decode())"],
    "requests": ["/usr/bin/python3", "-c", "import requests as r; print(r.get('http://127.0.0.1:PORT/api/fine', headers={'Host': 'data', 'Utter-Data-Token': 'TOKEN'}, "
                 "timeout=10).text)"],
    "requests as a proxy": ["/usr/bin/python3", "-c", "import requests as r; print(r.get('http://127.0.0.1:UPSTREAM/fine', timeout=10, "
                            "proxies={'http': 'http://x:TOKEN@127.0.0.1:PORT'}).text)"],
    "go": ["./ask", "http://127.0.0.1:PORT/api/fine", "", "TOKEN"],
    "go as a proxy": ["./ask", "http://127.0.0.1:UPSTREAM/fine", "http://x:TOKEN@127.0.0.1:PORT", ""],
    "node fetch": ["node", "-e", "fetch('http://127.0.0.1:PORT/api/fine', {headers: {'Utter-Data-Token': 'TOKEN'}})"
                   ".then(r => r.text()).then(console.log)"],
}


GO = """package main

import ("fmt"; "io"; "net/http"; "net/url"; "os")

func main() {
	transport := &http.Transport{Proxy: func(*http.Request) (*url.URL, error) {
		if os.Args[2] == "" {
			return nil, nil
		}
		return url.Parse(os.Args[2])
	}}
	request, err := http.NewRequest("GET", os.Args[1], nil)
	if err != nil {
		panic(err)
	}
	if os.Args[3] != "" {
		request.Header.Set("Utter-Data-Token", os.Args[3])
	}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		panic(err)
	}
	body, _ := io.ReadAll(answer.Body)
	fmt.Println(string(body))
}
"""


@pytest.mark.parametrize("client", CLIENTS)
def test_ordinary_clients(proxy, gate, upstream, client, tmp_path):
    program = "go" if client.startswith("go") else CLIENTS[client][0]
    if not shutil.which(program):
        pytest.skip("%s is not on this machine" % program)
    if client.startswith("requests") and subprocess.run(["/usr/bin/python3", "-c", "import requests"], capture_output=True).returncode:
        pytest.skip("python3-requests is not on this machine")
    if program == "go":
        # Its library is compiled once; the cache is the machine's.
        (tmp_path / "ask.go").write_text(GO)
        cache = {"GOCACHE": os.environ.get("GOCACHE", "/tmp/utter-go-cache"), "GOFLAGS": "-p=2", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
        subprocess.run(["go", "build", "-o", "ask", "ask.go"], cwd=tmp_path, env=dict(os.environ, **cache), check=True, timeout=600)
    words = [word.replace("TOKEN", proxy.token("r1")).replace("PORT", str(proxy.port)).replace("UPSTREAM", str(upstream.port))
             for word in CLIENTS[client]]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.stdout.strip() == "fine", done


def test_it_keeps_no_rights(proxy):
    rows = dict(line.split(":\t", 1) for line in open("/proc/%d/status" % proxy.process.pid).read().splitlines() if ":\t" in line)
    assert rows["Uid"].split() == [str(pwd.getpwnam("nobody").pw_uid)] * 4
    assert rows["NoNewPrivs"] == "1" and rows["Seccomp"] == "2"
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(rows[name], 16) == 0, name
    assert open("/proc/%d/limits" % proxy.process.pid).read().split("Max core file size")[1].split()[0] == "0"


def test_root_without_a_user_is_refused(make_proxy):
    with pytest.raises(AssertionError, match="user"):
        make_proxy(lambda config: config.pop("user"))
