"""A hostile handler (and an upstream that helps it) against the data proxy: for a credential, an extra call, a byte out elsewhere."""
import base64
import concurrent.futures
import html
import json
import quopri
import re
import socket
import time
import urllib.parse

import pytest

from proxyrig import SECRET
from rawupstream import Raw, plain

pytestmark = pytest.mark.once
KEY = SECRET.encode()
HEADER = b"Bearer " + KEY


def all_of(template, text=KEY):
    return b"".join(template % c for c in text)


def wrapped(text, width, end):
    return end.join(text[i:i + width] for i in range(0, len(text), width))


# What programs make of a credential that they reflect in a page.
REFLECTED = {
    "raw": KEY, "upper case": KEY.upper(), "lower case": KEY.lower(), "in a word": b"x" + KEY + b"x",
    "html": html.escape(HEADER.decode()).encode(), "html numbers": all_of(b"&#%d;"), "html hex": all_of(b"&#x%x;"),
    "html twice": html.escape(html.escape('"' + SECRET)).encode() + b"&amp;#43;", "go html": KEY.replace(b"+", b"&#43;"),
    "owasp html": KEY.replace(b"/", b"&#x2F;"), "json": json.dumps({"h": HEADER.decode()}).encode(),
    "php json": KEY.replace(b"/", b"\\/"), ".net json": KEY.replace(b"+", b"\\u002B"), "gson": KEY.replace(b"=", b"\\u003d"),
    "json escapes": all_of(b"\\u%04x"), "json in json": json.dumps(json.dumps(HEADER.decode() + '"')).encode(),
    "percent": urllib.parse.quote(KEY, safe="").encode(), "percent lower": urllib.parse.quote(KEY, safe="").lower().encode(),
    "percent all": all_of(b"%%%02X"), "percent twice": urllib.parse.quote(urllib.parse.quote(KEY, safe="")).encode(),
    "hex": KEY.hex().encode(), "HEX": KEY.hex().upper().encode(), "Hex": KEY.hex().title().encode(), "c hex": all_of(b"\\x%02x"),
    "octal": all_of(b"\\%03o"), "base64": base64.b64encode(KEY), "base64 of the field": base64.b64encode(b"Authorization: " + HEADER),
    "base64url": base64.urlsafe_b64encode(b"abc" + KEY), "base64 in lines": wrapped(base64.b64encode(HEADER), 20, b"\r\n"),
    "base64 in a JSON of lines": wrapped(base64.b64encode(HEADER), 16, b"\\r\\n"), "base64 in a URL": urllib.parse.quote(base64.b64encode(KEY), safe="").encode(),
    "quoted-printable": quopri.encodestring(b"k=" + KEY * 3), "folded": wrapped(KEY, 9, b"\r\n "),
}


def leaks(answer):
    text = answer.replace(b"\r\n ", b"").replace(b"\r\n", b"")
    plain_text = urllib.parse.unquote_to_bytes(urllib.parse.unquote_to_bytes(text.replace(b"+", b"%2B")))
    return KEY.lower() in text.lower() or KEY in plain_text or KEY in html.unescape(text.decode("latin1")).encode("latin1")


def to(raw):
    return lambda config: config["upstreams"][0].update(url="http://127.0.0.1:%d/" % raw.port)


def answers(make_proxy, answer, change=lambda config: None, close=True):
    raw = Raw(answer, close)

    def both(config):
        to(raw)(config)
        change(config)

    proxy = make_proxy(both)
    proxy.raw = raw
    proxy.session = proxy.gate()
    proxy.session.open("r1", calls=10000, bytes=1 << 30, ms=600000)
    proxy.minted = proxy.token("r1", calls=10000, exp=int(time.time()) + 600)
    return proxy


def whole(proxy, head, token=None, wait=8):
    """All bytes of the answer to a raw request; what the wire says, not what a library makes of it."""
    with socket.create_connection(("127.0.0.1", proxy.port)) as s:
        s.settimeout(wait)
        token = token or getattr(proxy, "minted", None) or proxy.token("r1")
        s.sendall(head.replace(b"TOKEN", token.encode()))
        got = b""
        try:
            while piece := s.recv(65536):
                got += piece
        except OSError:
            got += b"<reset>"
        return got


ASK = b"GET /api/%s HTTP/1.1\r\nHost: data\r\nUtter-Data-Token: TOKEN\r\nConnection: close\r\n\r\n"


def test_no_reflected_form_comes_back(make_proxy):
    """Each form as a page, as an error page, as its last bytes, one byte a chunk and behind 30 kB: a refusal, or cut before it; and the request is tainted."""
    def answer(head):
        name, how = urllib.parse.unquote(head.split(b" ")[1].decode().lstrip("/")).split("!")
        body = b"before " + REFLECTED[name] + b" after, so that the last byte is decided"
        if how == "page":
            return [plain(body)]
        if how == "error":
            return [plain(body, b"500 Oops")]
        if how == "end":
            return [plain(body.split(b" after")[0])]
        if how == "late":
            return [b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + b"y" * 30000, 0.05, body[:20], 0.05, body[20:]]
        return [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + all_of(b"1;a=b\r\n%c\r\n", body) + b"0\r\n\r\n"]

    proxy = answers(make_proxy, answer)
    hits = {}
    for name in REFLECTED:
        for how in ("page", "error", "end", "late", "bytes"):
            got = whole(proxy, ASK % (urllib.parse.quote(name) + "!" + how).encode())
            refused = b"HTTP/1.1 502 " in got and b"holds its credential" in got
            if leaks(got) or not (refused or (b"HTTP/1.1 200 " in got and got.endswith(b"<reset>"))):
                hits[name, how] = got[-120:]
            if b"after, so" in got and b"before " in got:
                hits[name, how] = got[-160:]
    assert hits == {}
    assert proxy.session.end("r1")["tainted"] is True


HEADS = {
    "status line": b"HTTP/1.1 200 " + KEY + b"\r\nContent-Length: 4\r\n\r\nfine",
    "early hints": b"HTTP/1.1 103 Early Hints\r\nLink: <" + KEY + b">\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine",
    "continue": b"HTTP/1.1 100 " + KEY + b"\r\nX: " + KEY + b"\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine",
    "trailer": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: ETag\r\n\r\n4\r\nfine\r\n0\r\nETag: " + KEY + b"\r\n\r\n",
    "chunk extension": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;x=" + KEY + b"\r\nfine\r\n0\r\n\r\n",
    "etag": b"HTTP/1.1 200 OK\r\nETag: \"" + KEY + b"\"\r\nContent-Length: 4\r\n\r\nfine",
    "etag in case": b"HTTP/1.1 200 OK\r\neTaG: " + KEY + b"\r\nLINK: x" + all_of(b"%%%02x") + b"\r\nContent-Length: 4\r\n\r\nfine",
    "content type": b"HTTP/1.1 200 OK\r\nContent-Type: text/" + KEY + b"\r\nContent-Length: 4\r\n\r\nfine",
    "unknown": b"HTTP/1.1 200 OK\r\nX-Debug: " + KEY + b"\r\nSet-Cookie: a=" + KEY + b"\r\nServer: " + KEY + b"\r\nContent-Length: 4\r\n\r\nfine",
    "field name": b"HTTP/1.1 200 OK\r\nX-" + KEY.replace(b"/", b"-").replace(b"=", b"") + b": 1\r\nContent-Length: 4\r\n\r\nfine",
    "fold": b"HTTP/1.1 200 OK\r\nETag: a\r\n " + KEY + b"\r\nContent-Length: 4\r\n\r\nfine",
    "location": b"HTTP/1.1 302 Found\r\nLocation: http://x/" + KEY + b"\r\nContent-Length: 0\r\n\r\n",
    "created": b"HTTP/1.1 201 Created\r\nLocation: http://x/" + KEY + b"\r\nContent-Length: 4\r\n\r\nfine",
    "challenge": b"HTTP/1.1 401 No\r\nWWW-Authenticate: Bearer realm=\"" + KEY + b"\"\r\nContent-Length: 4\r\n\r\nfine",
    "switch": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n" + KEY,
    "no HTTP": KEY + b"\r\n", "HTTP/0.9": b"<html>" + KEY, "bare LF": b"HTTP/1.1 200 OK\nETag: " + KEY + b"\n\n" + KEY,
    "gzip": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 28\r\n\r\n" + KEY,
    "x-gzip": b"HTTP/1.1 200 OK\r\ncontent-encoding: identity, x-gzip\r\nContent-Length: 28\r\n\r\n" + KEY,
    "transfer gzip": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n1c\r\n" + KEY + b"\r\n0\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 32\r\n\r\nfine" + KEY,
    "length and chunked": b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n1c\r\n" + KEY + b"\r\n0\r\n\r\n",
    "beyond the length": b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine" + KEY,
    "no content": b"HTTP/1.1 204 No Content\r\nContent-Length: 28\r\n\r\n" + KEY,
    "not modified": b"HTTP/1.1 304 Not Modified\r\nETag: " + KEY + b"\r\n\r\n" + KEY,
    "cut": b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nfine" + KEY, "until close": b"HTTP/1.1 200 OK\r\n\r\n" + KEY,
    "partial": b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-27/28 " + KEY + b"\r\nContent-Length: 28\r\n\r\n" + KEY,
}


@pytest.mark.parametrize("case", HEADS)
def test_no_part_of_an_answer_carries_it(make_proxy, case):
    proxy = answers(make_proxy, lambda head: [HEADS[case]])
    for version in (b"1.1", b"1.0"):
        got = whole(proxy, (ASK % b"x").replace(b"HTTP/1.1", b"HTTP/" + version))
        assert not leaks(got) and KEY[3:20] not in got, got
        assert got.startswith(b"HTTP/1.1 ") or got == b"<reset>"
    log = proxy.logged()
    assert SECRET not in log and SECRET[3:20] not in log


def test_basic_credentials_encoded_once_more(make_proxy):
    """What is sent is base64 already: an echo that encodes the field again reveals it as well."""
    def basic(config):
        config["upstreams"][0]["inject"] = {"basic": {"user": "me", "file": config["upstreams"][0]["inject"]["header"]["file"]}}

    def answer(head):
        field = [line for line in head.split(b"\r\n") if line.lower().startswith(b"authorization:")][0]
        made = {b"raw": field, b"b64": base64.b64encode(b"x" + field), b"hex": field.hex().encode(), b"html": html.escape(field.decode()).encode()}
        return [plain(b"headers: " + made[head.split(b" ")[1].strip(b"/")])]

    proxy = answers(make_proxy, answer, basic)
    for how in (b"raw", b"b64", b"hex", b"html"):
        assert b"holds its credential" in whole(proxy, ASK % how)


def test_an_upstream_is_not_asked_for_pieces(make_proxy):
    """Pieces of an answer pass the scan one by one: Range goes only where the operator lists it or where there is nothing to find."""
    proxy = answers(make_proxy, lambda head: [plain(b"fine")])
    fields = b"Range: bytes=0-9\r\nIf-Range: \"a\"\r\nRANGE: bytes=1-2\r\nX-Range: 1\r\n"
    whole(proxy, (ASK % b"x").replace(b"Connection:", fields + b"Connection:"))
    assert b"range" not in proxy.raw.seen[-1].lower()


HOSTILE_FIELDS = [
    "Authorization: Bearer mine", "authorization: x", "Authorization : x", "Cookie: a=b", "Proxy-Authorization: Basic eDp5", "Connection: authorization",
    "Connection: close, X-Custom", "Keep-Alive: 5", "TE: trailers", "Trailer: X", "Upgrade: websocket", "Upgrade: h2c", "HTTP2-Settings: AAA", "Expect: 200-ok",
    "Forwarded: for=1", "X-Forwarded-For: 1", "X-Real-IP: 1", "X-Forwarded-Host: evil", "X-HTTP-Method-Override: DELETE", "X-Original-URL: /admin",
    "X-Rewrite-URL: /admin", "Via: 1.1 x", "Max-Forwards: 0", "Accept-Encoding: gzip", "Content-Encoding: gzip", "Utter_Data_Token: x", "Utter-Payment-Id: x",
    "User-Agent: evil", "Origin: http://evil", "Referer: http://evil", "Sec-WebSocket-Key: x", "Host: evil", "Transfer-Encoding: identity",
]


@pytest.mark.parametrize("field", HOSTILE_FIELDS)
def test_hostile_fields_do_not_pass(make_proxy, field):
    proxy = answers(make_proxy, lambda head: [plain(b"fine")])
    got = whole(proxy, (ASK % b"x").replace(b"Connection: close", field.encode()).replace(b"\r\n\r\n", b"\r\nX-Custom: 1\r\n\r\n"), wait=0.7)
    name, value = (part.strip().lower() for part in field.split(":", 1))
    assert b" 200 " in got[:20] or b" 4" in got[:20] or b" 501 " in got[:20], got
    for head in proxy.raw.seen:
        fields = [tuple(part.strip().lower() for part in line.decode().split(":", 1)) for line in head.split(b"\r\n")[1:]]
        assert (name, value) not in fields, head
        names = [n for n, _ in fields]
        assert sorted(names) == sorted(set(names)) and set(names) <= {"host", "authorization", "accept-encoding", "user-agent", "x-custom", "accept"}, head
        assert ("authorization", HEADER.decode().lower()) in fields and ("host", "127.0.0.1:%d" % proxy.raw.port) in fields


TARGETS = [
    b"http://127.0.0.1:ELSE/", b"http://127.0.0.1:ELSE/x", b"http://localhost:ELSE/x", b"http://[::1]:ELSE/x", b"http://0.0.0.0:ELSE/x", b"http://127.1:ELSE/x",
    b"http://2130706433:ELSE/x", b"http://0x7f000001:ELSE/x", b"http://0177.0.0.1:ELSE/x", b"http://[::ffff:127.0.0.1]:ELSE/x", b"http://[::ffff:7f00:1]:ELSE/x",
    b"http://[64:ff9b::7f00:1]:ELSE/x", b"http://[2002:7f00:1::]:ELSE/x", b"http://[fe80::1%25lo]:ELSE/x", b"http://127.0.0.1.nip.example:ELSE/x",
    b"http://127.0.0.1:UP@127.0.0.1:ELSE/x", b"http://api@127.0.0.1:ELSE/x", b"http://127.0.0.1:ELSE#@127.0.0.1:UP/x", b"http://127.0.0.1:UP#@127.0.0.1:ELSE/x",
    b"http://127.0.0.1:ELSE?@127.0.0.1:UP/x", b"http://127.0.0.1:UP\\@127.0.0.1:ELSE/x", b"http://127.0.0.1%3aELSE/x", b"http://127.0.0.1:UP:ELSE/x",
    b"http://127.0.0.1.:UP/x", b"http://127.0.0.1:00UP/x", b"http://127.0.0.1:+UP/x", b"http://127.0.0.1:99999/x", b"http://127.0.0.1:0/x", b"http://127.0.0.1:/x",
    b"http://127.0.0.1/x", b"https://127.0.0.1:ELSE/x", b"ftp://127.0.0.1:ELSE/x", b"gopher://127.0.0.1:ELSE/x", b"file:///etc/passwd", b"unix:/run/x",
    b"http:///x", b"http://", b"http:/127.0.0.1:ELSE/x", b"http:127.0.0.1:ELSE/x", b"//127.0.0.1:ELSE/x", b"127.0.0.1:ELSE", b"*", b"x", b"",
    b"http://\xe2\x91\xa0\xe2\x91\xa1\xe2\x91\xa6.0.0.1:ELSE/x", b"http://xn--127-0.0.1:ELSE/x", b"http://169.254.169.254/latest/meta-data", b"http://metadata.google.internal/",
    b"http://[fd00:ec2::254]/", b"http://data.:80/api/x", b"http://data.evil/api/x", b"http://evil.data/api/x", b"http://user:pw@data/api/x", b"/api/http://127.0.0.1:ELSE/",
    b"/api@127.0.0.1:ELSE/x", b"/api:ELSE/x", b"/api/..//127.0.0.1:ELSE/", b"/api/.%2e/x", b"/api/%2e%2e/x", b"/api/..;/x", b"/api/x%00", b"/api/x%0d%0aHost:%20evil",
    b"/api/x%23", b"/api/x#y", b"/api/\\\\127.0.0.1:ELSE", b"/API/x", b"/api%2fx", b"/%61pi/x", b"//api/x", b"/./api/x", b"/api/a/../x", b"/api/x\tHTTP/1.1", b"/api/x HTTP/1.1 y",
    b"/api/%c0%ae%c0%ae/x", b"/api/%u002e%u002e/x", b"/api/x?\x00", b"/api/x?a=b#c", b"/api/x/", b"/api/x/y", b"/api//x", b"/api/%ff", b"/api/\xff",
]


def test_nothing_goes_elsewhere(make_proxy):
    """Whatever the target, bytes reach the declared upstream with an allowed path, or nobody."""
    elsewhere = Raw(lambda head: [plain(b"elsewhere")])
    proxy = answers(make_proxy, lambda head: [plain(b"fine")])
    token = proxy.token("r1")
    for target in TARGETS:
        target = target.replace(b"ELSE", b"%d" % elsewhere.port).replace(b"UP", b"%d" % proxy.raw.port)
        for host in (b"data", b"127.0.0.1:%d" % elsewhere.port, b"127.0.0.1:%d" % proxy.raw.port, b"evil\r\nHost: data"):
            got = whole(proxy, b"GET " + target + b" HTTP/1.1\r\nHost: " + host + b"\r\nUtter-Data-Token: TOKEN\r\nConnection: close\r\n\r\n", token)
            assert b"elsewhere" not in got and not leaks(got), (target, got)
    assert elsewhere.seen == []
    allowed = re.compile(rb"GET /[^/?#\\ ]+(\?[^# ]*)? HTTP/1\.1$")
    for head in proxy.raw.seen:
        lines = head.split(b"\r\n")
        assert allowed.match(lines[0]) and b".." not in lines[0] and b"Host: 127.0.0.1:%d" % proxy.raw.port in lines, head


@pytest.mark.parametrize("raw", [
    b"GET /api/x\r\n", b"GET /api/x HTTP/0.9\r\n\r\n", b"GET /api/x HTTP/2.0\r\nHost: data\r\nUtter-Data-Token: TOKEN\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"CONNECT 127.0.0.1:ELSE HTTP/1.1\r\nHost: x\r\nUtter-Data-Token: TOKEN\r\n\r\n\x16\x03\x01",
    b"TRACE /api/x HTTP/1.1\r\nHost: data\r\nUtter-Data-Token: TOKEN\r\n\r\n", b"TRACE http://127.0.0.1:UP/x HTTP/1.1\r\nHost: data\r\nUtter-Data-Token: TOKEN\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: data\r\nUtter-Data-Token: TOKEN\r\n\r\n", b"get /api/x HTTP/1.1\r\nHost: data\r\nUtter-Data-Token: TOKEN\r\n\r\n",
    b"GET /api/x HTTP/1.1\r\nHost: data\r\nUtter-Data-Token: TOKEN\r\nUtter-Data-Token: TOKEN\r\n\r\n",
    b"GET /api/x HTTP/1.1\r\nHost: data\r\nUtter-Data-Token: TOK\r\n EN\r\n\r\n", b"GET /api/x HTTP/1.1\r\nHost: data\r\nUtter-Data-Token: TOKEN, x\r\n\r\n",
    b"GET /api/x HTTP/1.1\r\nHost: data\r\nUtter_Data_Token: TOKEN\r\n\r\n", b"GET /api/x?Utter-Data-Token=TOKEN HTTP/1.1\r\nHost: data\r\n\r\n",
    b"GET /api/x HTTP/1.1\r\nHost: data\r\nAuthorization: Bearer TOKEN\r\n\r\n", b"GET /api/x HTTP/1.1\r\nHost: data\r\nCookie: Utter-Data-Token=TOKEN\r\n\r\n",
    b"GET /api/x HTTP/1.1\r\nHost: data\r\nProxy-Authorization: Bearer TOKEN\r\n\r\n",
    b"POST /api/x HTTP/1.1\r\nHost: data\r\nUtter-Data-Token: TOKEN\r\nTransfer-Encoding: chunked\r\n\r\n5;\r\nhello\r\n-1\r\n\r\n",
    b"POST /api/x HTTP/1.1\r\nHost: data\r\nUtter-Data-Token: TOKEN\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    b"POST /api/x HTTP/1.1\r\nHost: data\r\nUtter-Data-Token: TOKEN\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    b"POST /api/x HTTP/1.1\r\nHost: data\r\nUtter-Data-Token: TOKEN\r\nContent-Length: +5\r\n\r\nhello", b"POST /api/x HTTP/1.1\r\nHost: data\r\nUtter-Data-Token: TOKEN\r\nContent-Length: 5, 5\r\n\r\nhello",
    b"POST /api/x HTTP/1.1\r\nHost: data\r\nUtter-Data-Token: TOKEN\r\nContent-Length: 99999999999999999999\r\n\r\nhello",
    b"POST /api/x HTTP/1.0\r\nHost: data\r\nUtter-Data-Token: TOKEN\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
])
def test_requests_that_are_none(make_proxy, raw):
    """Refused, closed or kept waiting; never a call."""
    elsewhere = Raw(lambda head: [plain(b"elsewhere")])
    proxy = answers(make_proxy, lambda head: [plain(b"fine")])
    raw = raw.replace(b"ELSE", b"%d" % elsewhere.port).replace(b"UP", b"%d" % proxy.raw.port)
    got = whole(proxy, raw, wait=0.7)
    assert got in (b"", b"<reset>") or re.match(rb"HTTP/1\.1 [45]", got), got
    assert proxy.raw.seen == [] and elsewhere.seen == []


@pytest.mark.parametrize("query,status", [
    ("key=mine", 403), ("a=1&key=mine", 403), ("a=1;key=mine", 403), ("KEY=mine", 403), ("k%65y=mine", 403), ("key", 403), ("key[]=x", 403), ("key%5B%5D=x", 403),
    ("key%00=x", 403), ("a&key&b", 403), ("monkey=1", 200), ("key2=1", 200), ("a=key", 200), ("", 200), ("a=b%26key%3Dx", 200)])
def test_the_credentials_parameter_is_not_doubled(make_proxy, query, status):
    def in_query(config):
        config["upstreams"][0]["inject"] = {"query": {"name": "key", "file": config["upstreams"][0]["inject"]["header"]["file"]}}

    proxy = answers(make_proxy, lambda head: [plain(b"fine")], in_query)
    assert proxy.ask("/api/x?" + query, proxy.token("r1"))[0] == status
    if status == 200:
        target = proxy.raw.seen[-1].split(b" ")[1].decode()
        assert [v for k, v in urllib.parse.parse_qsl(target.split("?", 1)[1]) if k == "key"] == [SECRET]


def test_an_answer_too_many_is_nobodys(make_proxy):
    """An upstream (or one that smuggles through it) sends a second answer on a kept connection: the next call never gets it."""
    count = []

    def answer(head):
        count.append(1)
        return [plain(b"answer %d" % len(count)) + plain(b"smuggled", b"200 OK", b"X-Second: 1\r\n")]

    proxy = answers(make_proxy, answer, close=False)
    token = proxy.token("r1")
    for i in range(1, 8):
        status, body, _ = proxy.ask("/api/x", token)
        assert b"smuggled" not in body and (status, body) in ((200, b"answer %d" % len(count)), (502, body))
        time.sleep(0.02)


def test_the_cache_keeps_apart_what_the_upstream_can_tell_apart(make_proxy):
    count = []

    def answer(head):
        count.append(head)
        control = re.search(rb"control=([a-z%-]+)", head)
        return [plain(b"%d" % len(count), head=b"Cache-Control: %s\r\n" % control.group(1) if control else b"Vary: *\r\n" if b"vary" in head else b"")]

    proxy = answers(make_proxy, answer, lambda config: config["upstreams"][0]["limits"].update(cache_ms=60000))
    token = proxy.token("r1")

    def ask(path, *headers):
        return proxy.ask(path, token, headers=headers)[1]

    assert ask("/api/x") == ask("/api/x") == b"1"
    assert ask("/api/x", ("X-Custom", "a")) == b"2" and ask("/api/x", ("Accept-Language", "de")) == b"3" and ask("/api/x", ("Accept", "a/b")) == b"4"
    assert ask("/api/x", ("X-Custom", "a")) == b"2" and ask("/api/x?") == b"5" and ask("/api/x") == b"1"
    for path in ("/api/x?control=no-store", "/api/x?control=private", "/api/x?vary"):
        assert ask(path) != ask(path)
    proxy.session.open("r2", scope=["other"])
    assert proxy.ask("/api/x", proxy.token("r2"))[0] == 403
    proxy.session.open("r3")
    assert proxy.ask("/api/x", proxy.token("r3"))[1] == b"1"
    proxy.session.end("r3")
    assert proxy.ask("/api/x", proxy.token("r3"))[0] == 403


def test_the_slugs_own_network_is_no_upstream(make_proxy, upstream):
    """A name that leads back to the handler would hand it the credential, also where the upstream is internal."""
    proxy = make_proxy(lambda config: config.update(peer="127.0.0.1/32"))
    gate = proxy.gate()
    gate.open("r1")
    status, body, _ = proxy.ask("/api/fine", proxy.token("r1"))
    assert status == 502 and b"own network" in body and upstream.seen == []


def rss(proxy):
    return int(re.search(r"VmRSS:\s+(\d+)", open("/proc/%d/status" % proxy.process.pid).read()).group(1)) / 1024


def test_bodies_and_slow_readers_have_a_common_bound(make_proxy):
    """1,000 connections with half a body, and 100 that read nothing of an endless answer: memory stays below the bound, others are served."""
    def answer(head):
        if b"/endless" not in head:
            return [plain(b"fine")]
        return (b"HTTP/1.1 200 OK\r\n\r\n" if i == 0 else b"z" * 65536 for i in range(1000))

    def change(config):
        config["max_bytes"] = 32 << 20
        config["upstreams"][0]["limits"].update(request_body=8 << 20, response_body=16 << 20, timeout_ms=20000)

    proxy = answers(make_proxy, answer, change)
    token = proxy.token("r1").encode()
    idle, held, refused = rss(proxy), [], 0
    for i in range(1000):
        s = socket.create_connection(("127.0.0.1", proxy.port))
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.setblocking(False)
        if i % 10:
            s.sendall(b"POST /api/x HTTP/1.1\r\nHost: data\r\nUtter-Data-Token: %s\r\nContent-Length: 8000000\r\n\r\n" % token + b"b" * 50000)
        else:
            s.sendall(b"GET /api/endless HTTP/1.1\r\nHost: data\r\nUtter-Data-Token: %s\r\n\r\n" % token)
        held.append(s)
    time.sleep(2)
    for s in held:
        try:
            refused += b"too many" in s.recv(1000)
        except OSError:
            pass
    grown = rss(proxy) - idle
    assert refused > 800 and grown < 64, (refused, grown)
    for s in held:
        s.close()
    time.sleep(0.5)
    assert proxy.ask("/api/x", token.decode())[0] == 200


def test_idle_connections_do_not_lock_out(make_proxy):
    """More connections than descriptors: the longest idle make room."""
    proxy = answers(make_proxy, lambda head: [plain(b"fine")], lambda config: config.update(max_calls=50))
    held = [socket.create_connection(("127.0.0.1", proxy.port)) for _ in range(900)]
    half = socket.create_connection(("127.0.0.1", proxy.port))
    half.sendall(b"GET /api/x HTTP/1.1\r\nHost: d")
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        assert set(pool.map(lambda _: proxy.ask("/api/x", proxy.token("r1"))[0], range(40))) == {200}
    assert len(held) == 900


def test_an_endless_upstream_is_cut_by_time_and_size(make_proxy):
    def answer(head):
        if b"/heads" in head:
            return [b"HTTP/1.1 200 OK\r\n"] + [b"X-%d: y\r\n" % i for i in range(20000)]
        if b"/interim" in head:
            return (b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n" if i % 2 else 0.05 for i in range(1000))
        if b"/slow" in head:
            return (b"H" if i == 0 else 0.2 for i in range(100))
        return (b"HTTP/1.1 200 OK\r\n\r\n" if i == 0 else b"z" * 4000 for i in range(100000))

    proxy = answers(make_proxy, answer)
    for what in (b"heads", b"interim", b"slow", b"endless"):
        began = time.time()
        got = whole(proxy, ASK % what)
        assert time.time() - began < 5 and (b" 50" in got[:20] or b"<reset>" in got) and len(got) < 70000, (what, got[:100])


def test_an_ended_request_is_refused_before_its_body(make_proxy, upstream):
    proxy = make_proxy()
    gate = proxy.gate()
    gate.open("r1")
    gate.end("r1")
    got = whole(proxy, b"POST /api/nowhere/x HTTP/1.1\r\nHost: data\r\nUtter-Data-Token: TOKEN\r\nContent-Length: 900\r\nConnection: close\r\n\r\nhalf")
    assert got.startswith(b"HTTP/1.1 403 ") and b"not open" in got and upstream.seen == []
