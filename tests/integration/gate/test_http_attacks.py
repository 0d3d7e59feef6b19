"""The catalogue of attacks on the HTTP layer, one test per number. Real gate, raw sockets."""
import gzip
import json
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time

import pytest

from evm import Key, b64, unb64
from rig import Request, fetch, free_port, ok, raw

pytestmark = [pytest.mark.once, pytest.mark.timeout(60)]
H = "Host: shop.test\r\n"


def status(out):
    return int(out.split(b" ", 2)[1]) if out.startswith(b"HTTP/1.1 ") else 0


def get(port, target, extra=""):
    out, _ = raw(port, ("GET %s HTTP/1.1\r\n%s%sConnection: close\r\n\r\n" % (target, H, extra)).encode("latin-1"))
    return status(out)


B1_PATHS = [
    ("/a", 402), ("/%61", 402), ("/a?x", 402), ("/a/", 404), ("//a", 400), ("/A", 404), ("/a%2f", 400), ("/a%2F..", 400),
    ("/a%3f", 404), ("/a#x", 400), ("/a;x", 404), ("/./a", 400), ("/x/../a", 400), ("/%2e/a", 400), ("/x/%2e%2e/a", 400),
    ("/x/.%2E/a", 400), ("/a%00", 400), ("/a%20", 404), ("/a%5c", 400), ("/a\\", 400), ("/%", 400), ("/%6", 400),
    ("/%zz", 400), ("/a%0d%0a", 400), ("/x/%ff", 400), ("/x/%c0%af", 400), ("/x/%ed%a0%80", 400), ("/free/../a", 400),
    ("/free%2f..%2fa", 400), ("http://shop.test/a", 402), ("http://evil.test/a", 400), ("/x/a%7Eb", 402),
]


def test_b1_no_spelling_of_a_path_gets_around_the_price(rig):
    for target, want in B1_PATHS:
        assert get(rig.port, target) == want, target
    assert rig.handler.runs == []


def test_b1_the_handler_sees_the_path_the_gate_judged(rig):
    for sent, seen in (("/x/%7eb", "/x/~b"), ("/x/a%c3%a9", "/x/a%C3%A9"), ("/x/q?a=%2f..%00&b", "/x/q?a=%2f..%00&b")):
        paid = rig.payment("/x/seed")
        out, _ = raw(rig.port, ("GET %s HTTP/1.1\r\n%sPAYMENT-SIGNATURE: %s\r\nConnection: close\r\n\r\n" % (
            sent, H, paid["PAYMENT-SIGNATURE"])).encode())
        assert status(out) == 200 and rig.handler.runs[-1].target == seen


B2 = [
    "POST /free HTTP/1.1\r\n" + H + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST /free HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
    "POST /free HTTP/1.1\r\n" + H + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "POST /free HTTP/1.1\r\n" + H + "Content-Length: +3\r\n\r\nabc",
    "POST /free HTTP/1.1\r\n" + H + "Content-Length : 3\r\n\r\nabc",
    "POST /free HTTP/1.1\r\n" + H + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "POST /free HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "POST /free HTTP/1.1\r\n" + H + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "POST /free HTTP/1.0\r\n" + H + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "GET /free HTTP/1.1\n" + H + "\n",
    "GET /free HTTP/1.1\r\n" + H + "X: a\r\n b\r\n\r\n",
    "GET /free HTTP/1.1\r\n" + H + "X: a\rb\r\n\r\n",
    "GET /free HTTP/1.1\r\n" + H + H + "\r\n",
    "GET /free HTTP/1.1\r\n\r\n",
    "POST /free HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n",
    "POST /free HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n",
    "POST /free HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
    "POST /free HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked\r\n\r\n1;" + "e" * 300 + "\r\na\r\n0\r\n\r\n",
]


@pytest.mark.parametrize("head", B2)
def test_b2_smuggling_is_refused_and_nothing_follows(rig, head):
    out, closed = raw(rig.port, (head + "GET /free HTTP/1.1\r\n" + H + "\r\n").encode("latin-1"))
    assert status(out) == 400 and closed and out.count(b"HTTP/1.1 ") == 1
    assert rig.handler.runs == []


def test_b2_upgrades_are_not_passed_on(rig):
    out, _ = raw(rig.port, ("GET /free HTTP/1.1\r\n" + H + "Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\n"
                            "HTTP2-Settings: AAA\r\n\r\n").encode())
    assert status(out) == 200
    seen = rig.handler.runs[0]
    assert not seen.all("Upgrade") and not seen.all("HTTP2-Settings") and seen.all("Connection") == ["close"]


def test_b2_a_body_is_rebuilt_with_one_length(rig):
    out, _ = raw(rig.port, ("POST /free HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
                            "3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nX-Trailer: 1\r\n\r\n").encode())
    assert status(out) == 200
    seen = rig.handler.runs[0]
    assert seen.body == b"abcde" and seen.all("Content-Length") == ["5"]
    assert not seen.all("Transfer-Encoding") and not seen.all("X-Trailer")


B3 = {
    "two answers": ok(b"one") + ok(b"two"),
    "longer": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabc",
    "shorter": b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc",
    "no last chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    "both framings": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "close-delimited": b"HTTP/1.1 200 OK\r\n\r\nabc",
    "1xx flood": b"HTTP/1.1 100 Continue\r\n\r\n" * 50 + ok(b"x"),
    "CR in value": b"HTTP/1.1 200 OK\r\nX: a\rb\r\nContent-Length: 1\r\n\r\nx",
    "NUL in value": b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 1\r\n\r\nx",
    "101": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
    "fold": b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 1\r\n\r\nx",
    "garbage": b"\x16\x03\x01\x02\x00",
    "huge head": b"HTTP/1.1 200 OK\r\nX: " + b"h" * 40000 + b"\r\nContent-Length: 1\r\n\r\nx",
    "nothing": b"",
}


@pytest.mark.parametrize("name", B3)
def test_b3_a_malformed_answer_is_not_charged(rig, name):
    rig.handler.answer = lambda r: B3[name]
    answer = rig.buy()
    assert answer.status == 502 and rig.stats()["settle"] == 0, (name, answer.status)


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
def test_a_handler_killed_in_the_middle_of_its_answer_settles_nothing(rig, framing):
    body = b"0123456789" * 20
    whole = {"length": ok(body), "close": b"HTTP/1.1 200 OK\r\n\r\n" + body,
             "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nc8\r\n" + body + b"\r\n0\r\n\r\n"}[framing]
    for tenth in range(10):
        rig.handler.answer = lambda r: whole[:max(1, len(whole) * tenth // 10)]
        assert rig.buy(key=Key()).status == 502
    assert rig.stats()["settle"] == 0


def test_b3_the_handlers_connection_is_never_used_again(rig):
    for _ in range(3):
        assert fetch(rig.port, "/free").status == 200
    assert all(r.get("Connection") == "close" for r in rig.handler.runs)


def test_b4_connection_cannot_name_away_what_the_gate_adds(rig):
    answer = rig.buy(headers={"Connection": "Utter-Payment-Id, Host, Utter-Attempt, X-Mine", "X-Mine": "1",
                              "Keep-Alive": "timeout=9", "Proxy-Authorization": "Basic eA==", "TE": "trailers"})
    assert answer.status == 200
    seen = rig.handler.runs[0]
    for name in ("Utter-Payment-Id", "Utter-Attempt", "Host", "Utter-Request-Id"):
        assert len(seen.all(name)) == 1, name
    for name in ("X-Mine", "Keep-Alive", "Proxy-Authorization", "TE"):
        assert seen.all(name) == [], name


def test_b5_b6_a_buyer_cannot_speak_for_the_gate_and_its_payment_stays_here(rig):
    spoofed = {"Utter-Data-Token": "t", "utter_data_token": "t", "Utter-Payment-Id": "f" * 64, "X-Forwarded-For": "1.2.3.4",
               "x_forwarded_for": "1.2.3.4", "Forwarded": "for=1.2.3.4", "X-Real-IP": "1.2.3.4",
               "X-Forwarded-Host": "evil", "Authorization": "Bearer x", "Cookie": "a=b", "SIGN-IN-WITH-X": "x",
               "Access-Control-Expose-Headers": "x", "payment_signature": "x", "Utter-Resume": "r" * 32}
    assert rig.buy(headers=spoofed).status == 200
    seen = rig.handler.runs[0]
    text = seen.head.decode().lower()
    for word in ("1.2.3.4", "evil", "data_token", "data-token", "bearer", "payment-signature", "payment_signature", "resume",
                 "sign-in", "expose", "cookie", "f" * 64):
        assert word not in text, word
    assert seen.all("X-Forwarded-For") == ["127.0.0.1"] and seen.all("X-Forwarded-Proto") == ["https"]
    assert seen.all("Accept-Encoding") == ["identity"]


def test_b5_forwarded_addresses_count_from_trusted_proxies_only(cold):
    cold.start_facilitator()
    cold.start_gate(trusted_proxies=["127.0.0.0/8"])
    for value, want in (("9.9.9.9", "9.9.9.9"), ("6.6.6.6, 9.9.9.9, 127.0.0.3", "9.9.9.9"), ("nonsense", "127.0.0.1")):
        fetch(cold.port, "/free", headers={"X-Forwarded-For": value})
        assert cold.handler.runs[-1].all("X-Forwarded-For") == [want]


def test_b7_the_handler_cannot_speak_about_money(rig):
    evil = ("PAYMENT-RESPONSE: x\r\nPAYMENT-REQUIRED: x\r\nX-PAYMENT-RESPONSE: x\r\nEXTENSION-RESPONSES: x\r\n"
            "Set-Cookie: a=b\r\nAlt-Svc: h3=\":1\"\r\nStrict-Transport-Security: max-age=1\r\nClear-Site-Data: \"*\"\r\n"
            "Server: evil\r\nVia: evil\r\nRefresh: 0\r\nWWW-Authenticate: L402 x\r\nUtter-Request-Id: evil\r\n"
            "Access-Control-Allow-Origin: https://evil\r\nLocation: https://evil/\r\nX-Fine: kept\r\npayment_response: x\r\n")
    rig.handler.answer = lambda r: ok(b"x", extra=evil)
    answer = rig.buy()
    assert answer.status == 200 and answer.receipt()["success"] is True and answer.get("X-Fine") == "kept"
    names = [k.lower() for k, _ in answer.headers]
    for name in ("set-cookie", "alt-svc", "strict-transport-security", "clear-site-data", "server", "via", "refresh",
                 "www-authenticate", "payment-required", "x-payment-response", "extension-responses", "location",
                 "payment_response"):
        assert name not in names, name
    assert names.count("payment-response") == 1 and names.count("utter-request-id") == 1
    assert "evil" not in str(answer.headers)
    rig.handler.answer = lambda r: ok(json.dumps({"accepts": []}).encode(), "402 Payment Required")
    assert rig.buy().status == 502


def test_b8_the_challenge_names_our_origin_only(rig):
    for headers in ({"Host": "evil.test"}, {"Host": "shop.test", "X-Forwarded-Host": "evil.test",
                                            "X-Forwarded-Proto": "http", "Forwarded": "host=evil.test"}):
        answer = fetch(rig.port, "/a", headers=headers)
        assert answer.status in (402, 421) and b"evil" not in answer.body
        if answer.status == 402:
            assert unb64(answer.get("PAYMENT-REQUIRED"))["resource"]["url"] == "https://shop.test/a"


def test_b9_duplicates_and_sizes_of_payment_headers(rig):
    value = rig.payment()["PAYMENT-SIGNATURE"]
    assert fetch(rig.port, "/a", headers=[("PAYMENT-SIGNATURE", value), ("payment-signature", value)]).status == 400
    assert fetch(rig.port, "/a", headers={"PAYMENT-SIGNATURE": value + ", " + value}).status == 400
    assert fetch(rig.port, "/a", headers={"PAYMENT-SIGNATURE": "A" * 17000}).status == 400
    assert fetch(rig.port, "/a", headers={"PAYMENT-SIGNATURE": ""}).status == 400
    assert fetch(rig.port, "/a", headers=[("X-%d" % i, "y") for i in range(200)]).status == 431
    assert fetch(rig.port, "/a", headers={"X": "y" * 40000}).status == 431
    assert fetch(rig.port, "/" + "a" * 9000).status == 414
    assert rig.handler.runs == [] and rig.stats()["verify"] == 0


def b10(good):
    text = json.dumps(good)
    yield text.replace('"payload"', '"payload": {}, "payload"', 1)
    yield text.replace('"value"', '"value": "1", "Value"', 1)
    yield text + "x"
    yield "\ufeff" + text
    yield text.replace('"2"', '"\\u0000"', 1)
    yield text.replace('"USDC"', '"\\ud800"')
    yield text[:-1] + ',"deep":' + "[" * 3000 + "]" * 3000 + "}"
    yield text[:-1] + ',"deep":' + "[" * 17 + "]" * 17 + "}"
    yield text[:-1] + ',"wide":[' + ",".join("1" * 600) + "]}"
    yield text[:-1] + ',"big":1e999}'
    yield "[]"
    yield "{}"
    yield "null"
    yield ""


def test_b10_json_that_two_readers_read_differently(rig):
    good = unb64(rig.payment()["PAYMENT-SIGNATURE"])
    for i, text in enumerate(b10(good)):
        answer = fetch(rig.port, "/a", headers={"PAYMENT-SIGNATURE": b64(text.encode("utf-8", "surrogatepass"))})
        assert answer.status == 400, (i, answer.status)
    bad_utf8 = json.dumps(good).encode().replace(b"USDC", b"US\xff\xfe")
    assert fetch(rig.port, "/a", headers={"PAYMENT-SIGNATURE": b64(bad_utf8)}).status == 400
    assert rig.stats()["verify"] == 0


def test_b11_base64_has_one_form(rig):
    value = rig.payment()["PAYMENT-SIGNATURE"]
    core = value.rstrip("=")
    bad = [core[:-1] + chr(ord(core[-1]) + 1) if len(core) % 4 else None, value[:20] + "=" + value[20:], value[:20] + "\t" + value[20:],
           value[:20] + " " + value[20:], '"%s"' % value, core.replace("e", "-", 1), value + "===", core[:-1] if len(core) % 4 == 2 else core + "A" * (5 - len(core) % 4)]
    for text in bad:
        if text is not None:
            assert fetch(rig.port, "/a", headers={"PAYMENT-SIGNATURE": text}).status == 400, text[-20:]
    assert rig.stats()["verify"] == 0
    assert fetch(rig.port, "/a", headers={"PAYMENT-SIGNATURE": core}).status == 200


def test_b12_encodings(rig):
    bomb = gzip.compress(b"\0" * (1 << 20))
    rig.handler.answer = lambda r: ok(bomb, extra="Content-Encoding: gzip\r\n")
    assert rig.buy(headers={"Accept-Encoding": "gzip, br"}).status == 502
    assert rig.handler.runs[0].all("Accept-Encoding") == ["identity"] and rig.stats()["settle"] == 0
    assert rig.buy(method="POST", body=bomb, headers={"Content-Encoding": "gzip"}).status == 415


def test_b13_slow_connections_cost_only_themselves(cold):
    cold.start_facilitator()
    cold.start_gate(deadlines={"header_ms": 1500})
    slow = []
    for i in range(1000):
        s = socket.create_connection(("127.0.0.1", cold.port))
        s.sendall(b"GET /a HTTP/1.1\r\nHost: sh" if i % 2 else b"POST /free HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 9\r\n\r\nx")
        slow.append(s)
    began = time.monotonic()
    for _ in range(5):
        assert cold.buy().status == 200
    assert time.monotonic() - began < 5
    time.sleep(2.0)
    for s in slow[1::2]:
        s.settimeout(0.5)
        assert s.recv(1) == b""  # their deadline passed
    for s in slow:
        s.close()


METHODS = [("HEAD", 402), ("OPTIONS", 204), ("TRACE", 405), ("CONNECT", 400), ("DELETE", 405), ("PUT", 405), ("BREW", 405), ("get", 405)]


def test_b15_methods(rig):
    for method, want in METHODS:
        out, _ = raw(rig.port, ("%s /a HTTP/1.1\r\n%sConnection: close\r\n\r\n" % (method, H)).encode())
        assert status(out) == want, method
        if method == "HEAD":
            assert b"PAYMENT-REQUIRED: " in out and out.endswith(b"\r\n\r\n")
        if want == 405 and method not in ("TRACE",):
            assert b"Allow: GET, POST" in out, method
    paid = rig.payment()
    out, _ = raw(rig.port, ("HEAD /a HTTP/1.1\r\n%sPAYMENT-SIGNATURE: %s\r\nConnection: close\r\n\r\n" % (
        H, paid["PAYMENT-SIGNATURE"])).encode())
    assert status(out) == 405
    assert rig.handler.runs == [] and rig.stats()["verify"] == 0


def test_b15_b17_cors(rig):
    preflight = {"Origin": "https://app.test", "Access-Control-Request-Method": "GET",
                 "Access-Control-Request-Headers": "payment-signature, access-control-expose-headers"}
    answer = fetch(rig.port, "/a", "OPTIONS", preflight)
    assert answer.status == 204 and answer.get("Access-Control-Allow-Origin") == "*"
    assert "payment-signature" in answer.get("Access-Control-Allow-Headers").lower()
    assert answer.get("Access-Control-Allow-Methods") == "GET, POST"
    rig.handler.answer = lambda r: ok(b"x", extra="Access-Control-Allow-Origin: https://evil\r\n")
    for answer in (fetch(rig.port, "/a", headers={"Origin": "https://app.test"}), rig.buy(headers={"Origin": "https://app.test"})):
        assert answer.get("Access-Control-Allow-Origin") == "*"
        for name in ("PAYMENT-REQUIRED", "PAYMENT-RESPONSE", "X-PAYMENT-RESPONSE"):
            assert name in answer.get("Access-Control-Expose-Headers")
    assert rig.stats()["verify"] == 1


@pytest.mark.skipif(not shutil.which("nginx"), reason="nginx is not installed")
def test_b16_a_shared_cache_keeps_nothing(rig):
    port = free_port()
    conf = os.path.join(rig.folder, "nginx.conf")
    with open(conf, "w") as f:
        f.write("""daemon off; pid %(d)s/nginx.pid; error_log %(d)s/nginx.err; events {}
http { access_log off; proxy_cache_path %(d)s/cache keys_zone=z:1m; client_body_temp_path %(d)s/b; proxy_temp_path %(d)s/p;
fastcgi_temp_path %(d)s/f; uwsgi_temp_path %(d)s/u; scgi_temp_path %(d)s/s;
server { listen 127.0.0.1:%(p)d; location / { proxy_pass http://127.0.0.1:%(g)d; proxy_set_header Host shop.test;
proxy_cache z; proxy_cache_valid 200 402 1m; proxy_cache_key $uri; add_header X-Cache $upstream_cache_status; } } }
""" % {"d": rig.folder, "p": port, "g": rig.port})
    rig._start(["nginx", "-c", conf, "-p", rig.folder], "nginx.log")
    rig._until(lambda: rig._answers(port, "/free"), "nginx")
    rig.handler.answer = lambda r: ok(b"paid", extra="Cache-Control: public, s-maxage=600\r\nExpires: Fri, 31 Dec 2100 00:00:00 GMT\r\n"
                                                     "Surrogate-Control: max-age=600\r\nCDN-Cache-Control: max-age=600\r\n")
    assert fetch(port, "/a").status == 402
    bought = fetch(port, "/a", headers=rig.payment())
    assert bought.status == 200 and bought.get("Expires") is None and bought.get("Surrogate-Control") is None
    for _ in range(3):
        again = fetch(port, "/a")
        assert again.status == 402 and again.get("X-Cache") != "HIT"


def test_b18_a_facilitators_words_are_filtered(rig):
    for reason in ("secret token=abc\r\nX-Evil: 1", "x" * 4096, "<script>", "insufficient_funds"):
        rig.script(verify=[{"mode": "refuse", "reason": reason}])
        answer = rig.buy(key=Key())
        assert answer.status in (402, 503)
        assert b"secret" not in answer.body and b"<script" not in answer.body and answer.get("X-Evil") is None
        if reason == "insufficient_funds":
            assert answer.json()["error"] == reason


def test_b19_redirects_and_floods_of_a_facilitator(cold):
    hits = []

    class Fake(threading.Thread):
        def __init__(self):
            super().__init__(daemon=True)
            self.socket = socket.create_server(("127.0.0.1", 0))
            self.port = self.socket.getsockname()[1]
            self.verify = b""

        def run(self):
            while True:
                peer, _ = self.socket.accept()
                threading.Thread(target=self.serve, args=(peer,), daemon=True).start()

        def serve(self, peer):
            try:
                request = Request(peer)
                hits.append(request.target)
                if request.target.endswith("/supported"):
                    peer.sendall(ok(json.dumps({"kinds": [
                        {"x402Version": 2, "scheme": "exact", "network": "eip155:84532"}]}).encode(),
                        extra="Connection: close\r\n"))
                else:
                    peer.sendall(self.verify)
                peer.close()
            except OSError:
                pass

    fake, other = Fake(), Fake()
    fake.start(), other.start()
    cold.facilitator_port = fake.port
    cold.start_gate()
    for code in (302, 308):
        fake.verify = ("HTTP/1.1 %d Go\r\nLocation: http://127.0.0.1:%d/verify\r\nContent-Length: 0\r\n\r\n" % (
            code, other.port)).encode()
        assert cold.buy().status == 503
    fake.verify = b"HTTP/1.1 200 OK\r\nContent-Length: 10485760\r\n\r\n" + b'{"isValid":true,"x":"' + b"y" * (1 << 20)
    assert cold.buy().status == 503
    assert hits.count("/verify") == 3 and cold.handler.runs == []


def test_b21_the_handler_cannot_write_into_the_challenge(rig):
    rig.handler.answer = lambda r: ok(b"x", "500 Oops", "X-Description: buy me\r\n")
    rig.buy()
    assert "buy me" not in json.dumps(rig.challenge())


def test_b22_logs_and_metrics_hold_against_outside_text(rig):
    lines = len(fetch(rig.admin_port, "/metrics").body.splitlines())
    for i in range(200):
        fetch(rig.port, "/n%d%%22%%7d" % i, headers={"User-Agent": "x\" \\ }"})
    assert len(fetch(rig.admin_port, "/metrics").body.splitlines()) == lines
    for line in rig.log().splitlines():
        if line.startswith("{"):
            json.loads(line)
    assert rig.buyer.address not in fetch(rig.admin_port, "/metrics").body.decode()


def test_the_paywall_page_is_for_browsers(rig):
    browser = {"Accept": "text/html,application/xhtml+xml", "User-Agent": "Mozilla/5.0 (X11)"}
    answer = fetch(rig.port, "/x/%3Cscript%3E?q='%3C", headers=browser)
    assert answer.status == 402 and answer.get("Content-Type").startswith("text/html")
    assert answer.get("PAYMENT-REQUIRED") and b"<script" not in answer.body
    assert b"utter-pay " in answer.body and b"0.01" in answer.body and b"USDC" in answer.body
    assert "default-src 'none'" in answer.get("Content-Security-Policy")
    assert fetch(rig.port, "/a", headers={"Accept": "text/html"}).get("Content-Type") == "application/json"


def test_admin_is_not_on_the_public_port(rig):
    for path in ("/healthz", "/readyz", "/metrics", "/ledger/resolve"):
        assert fetch(rig.port, path).status == 404
    assert fetch(rig.admin_port, "/healthz").body == b"ok\n"
    page = fetch(rig.admin_port, "/")
    assert page.status == 200 and b"<table>" in page.body


def test_the_gate_is_confined(rig):
    with open("/proc/%d/status" % rig.gate.pid) as f:
        seen = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
    assert seen["Seccomp"] == "2" and seen["NoNewPrivs"] == "1" and int(seen["CapEff"], 16) == 0
    assert int(seen["CapPrm"], 16) == 0 and (os.geteuid() != 0 or not seen["Uid"].startswith("0"))
    for task in os.listdir("/proc/%d/task" % rig.gate.pid):
        with open("/proc/%d/task/%s/status" % (rig.gate.pid, task)) as f:
            text = f.read()
        assert "Seccomp:\t2" in text and "CapEff:\t0000000000000000" in text


def test_a_root_gate_without_a_user_is_refused(cold):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    cold.start_facilitator()
    config = cold.make_config()
    del config["user"]
    process = cold._start([cold.bin + "/utter-gate", "serve", cold.write_config(config)], "gate.log")
    assert process.wait(10) == 1 and "root" in cold.log()
