"""A handler that attacks: what it tries is the path, what came of it the answer. Runs inside gVisor, by Python's standard library alone."""
import concurrent.futures
import http.server
import json
import os
import socket
import threading
import time
import urllib.parse

OLD, LATE = [], []
WORD = "sk-" + "upstream"  # not as one string: this file is searched too


def talk(data, where=("data", 80), wait=5.0, most=1 << 20):
    try:
        with socket.create_connection(where, timeout=wait) as s:
            s.settimeout(wait)
            s.sendall(data)
            got = b""
            while len(got) < most:
                piece = s.recv(65536)
                if not piece:
                    break
                got += piece
            return got
    except OSError as e:
        return b"<" + type(e).__name__.encode() + b">"


def ask(token, path, method="GET", more="", body=b""):
    return talk(("%s %s HTTP/1.1\r\nHost: data\r\nUtter-Data-Token: %s\r\nConnection: close\r\n%s\r\n" % (method, path, token, more)).encode("latin1") + body)


def status(answer):
    return answer[9:12].decode("latin1") if answer.startswith(b"HTTP/1.") else answer.decode("latin1")[:40]


def reachable(family, kind, address, port, data=None):
    try:
        with socket.socket(family, kind) as s:
            s.settimeout(0.5)
            s.connect((address, port))
            if data is None:
                return True
            s.send(data)
            return bool(s.recv(2000))
    except OSError:
        return False


def network(token, hosts):
    """Every host by TCP, UDP and ICMP; IPv6 in every scope; raw sockets and packet sockets; names."""
    dns = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x03com\x00\x00\x01\x00\x01"
    jobs = []
    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        for host in hosts:
            for port in (22, 53, 80, 443, 2375, 3128, 8080, 8081, 8402, 8403, 8404, 9000, 9090, 9091, 10250):
                jobs.append(("tcp %s:%d" % (host, port), pool.submit(reachable, socket.AF_INET, socket.SOCK_STREAM, host, port)))
            for port in (53, 67, 123, 5353):
                jobs.append(("udp %s:%d" % (host, port), pool.submit(reachable, socket.AF_INET, socket.SOCK_DGRAM, host, port, dns)))
        for host in ("fe80::1", "ff02::1", "ff02::2", "2606:4700:4700::1111", "fd00:ec2::254", "::ffff:198.19.128.1", "64:ff9b::808:808"):
            for port in (53, 80, 9000):
                jobs.append(("tcp6 %s:%d" % (host, port), pool.submit(reachable, socket.AF_INET6, socket.SOCK_STREAM, host, port)))
                jobs.append(("udp6 %s:%d" % (host, port), pool.submit(reachable, socket.AF_INET6, socket.SOCK_DGRAM, host, port, dns)))
    found = sorted(name for name, job in jobs if job.result())
    raw = {}
    for name, args in {"icmp": (socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP), "ip": (socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW),
                       "packet": (socket.AF_PACKET, socket.SOCK_RAW, 0x0300), "ping": (socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)}.items():
        try:
            socket.socket(*args).close()
            raw[name] = "opened"
        except OSError as e:
            raw[name] = e.strerror
    names = {}
    for name in ("example.com", "metadata.google.internal", "host.docker.internal", "gateway", "localhost", "data"):
        try:
            names[name] = sorted({info[4][0] for info in socket.getaddrinfo(name, 80, proto=socket.IPPROTO_TCP)})
        except OSError:
            names[name] = []
    return {"reached": found, "raw": raw, "names": names}


def files(token):
    """Sockets, environments and files that hold the credential or a way to the outside."""
    sockets, holds = [], []
    for top in ("/run", "/tmp", "/var", "/etc", "/dev", "/proc/self", "/proc/1", "/srv", "/app", "/home", "/root", "/mnt", "/handler"):
        for folder, _, entries in os.walk(top):
            for entry in entries:
                path = os.path.join(folder, entry)
                try:
                    mode = os.lstat(path).st_mode
                    if (mode & 0o170000) == 0o140000:
                        sockets.append(path)
                    if (mode & 0o170000) == 0o100000:
                        with open(path, "rb") as f:
                            if WORD.encode() in f.read(1 << 16):
                                holds.append(path)
                except OSError:
                    pass
    return {"sockets": sockets, "holds": holds, "environment": [name for name, value in os.environ.items() if WORD in value]}


def credential(token):
    """Every way the upstream has to say it."""
    out = {}
    for how in ("raw", "html", "json", "percent", "b64", "b64lines", "hex", "upper", "error", "chunked", "header", "trailer", "hints", "gzip", "redirect", "half", "status", "late"):
        answer = ask(token, "/api/echo/" + how)
        out[how] = [status(answer), WORD.encode() in answer.lower(), len(answer)]
    pieces = b"".join(ask(token, "/api/echo/ranged", more="Range: bytes=%d-%d\r\n" % (i, i + 3)).split(b"\r\n\r\n", 1)[-1] for i in range(0, 40, 4))
    out["ranges"] = ["", WORD.encode() in pieces.lower(), len(pieces)]
    head = ask(token, "/api/echo/raw", "HEAD")
    out["head"] = [status(head), WORD.encode() in head.lower(), len(head)]
    return out


def elsewhere(token, other):
    """The forms of a target that some parser somewhere takes for another host."""
    out = {}
    for target in ("http://%s/v1/fine", "http://198.19.128.1:9000@%s/v1/fine", "http://%s#@198.19.128.1:9000/v1/fine", "//%s/v1/fine", "/api/@%s/", "/api/..//%s/", "/api/fine?next=http://%s/",
                   "http://198.19.128.1:9000\\@%s/v1/fine", "http://[::ffff:198.19.128.1]:9001/v1/fine%.0s", "http://3323166721:9001/v1/fine%.0s", "http://198.19.128.1.:9001/v1/fine%.0s"):
        target = target % other
        out[target] = status(talk(("GET %s HTTP/1.1\r\nHost: %s\r\nUtter-Data-Token: %s\r\nConnection: close\r\n\r\n" % (target, other, token)).encode()))
    for method in ("CONNECT", "TRACE", "OPTIONS"):
        out[method] = status(talk(("%s %s HTTP/1.1\r\nHost: x\r\nUtter-Data-Token: %s\r\nConnection: close\r\n\r\n" % (method, other, token)).encode()))
    smuggled = "GET http://%s/v1/fine HTTP/1.1\r\nHost: %s\r\nUtter-Data-Token: %s\r\n\r\n" % (other, other, token)
    for name, field in {"cl.te": "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "te.cl": "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", "te.te": "Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n",
                        "fold": "Transfer-Encoding:\r\n chunked\r\n", "two": "Content-Length: 0\r\nContent-Length: %d\r\n" % len(smuggled)}.items():
        out[name] = status(ask(token, "/api/fine", "POST", field, b"0\r\n\r\n" + smuggled.encode()))
    return out


def race(token):
    """300 calls at once, then every kind of token that is not this request's."""
    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        said = list(pool.map(lambda _: status(ask(token, "/api/fine")), range(300)))
    head, claims, signature = token.split(".")
    flip = "A" if signature[10] != "A" else "B"
    wrong = {"signature": ".".join((head, claims, signature[:10] + flip + signature[11:])), "none": "eyJhbGciOiJub25lIn0." + claims + ".", "no signature": head + "." + claims + ".",
             "empty": "", "padded": token + "=", "twice": token + "." + token, "claims": ".".join((head, claims[:-4] + "AAAA", signature))}
    return {"said": {s: said.count(s) for s in set(said)}, "wrong": {name: status(ask(t, "/api/fine")) for name, t in wrong.items()}}


def after(token):
    """Old tokens now; and this one from a thread that goes on when the answer is out."""
    said = {"old": sorted({status(ask(old, "/api/fine")) for old in OLD}), "late": list(LATE)}

    def later():
        time.sleep(1.5)
        for _ in range(20):
            LATE.append(status(ask(token, "/api/fine")))

    LATE.clear()
    threading.Thread(target=later, daemon=True).start()
    return said


def exhaust(token):
    """Half requests, unread answers and idle connections, held; then one honest call."""
    held = []
    for i in range(1500):
        try:
            s = socket.create_connection(("data", 80), timeout=2)
            s.setblocking(False)
            if i % 3 == 0:
                s.send(b"POST /api/fine HTTP/1.1\r\nHost: data\r\nUtter-Data-Token: %s\r\nContent-Length: 60000\r\n\r\n" % token.encode() + b"x" * 30000)
            elif i % 3 == 1:
                s.send(b"GET /api/fine HTTP/1.1\r\nHo")
            held.append(s)
        except OSError:
            pass
    during = status(ask(token, "/api/fine"))
    for s in held:
        s.close()
    time.sleep(0.5)
    return {"held": len(held), "during": during, "afterwards": status(ask(token, "/api/fine"))}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        query = urllib.parse.parse_qs(url.query)
        token = self.headers.get("Utter-Data-Token")
        what = url.path.strip("/")
        more = [query["hosts"][0].split(",")] if what == "network" else [query["other"][0]] if what == "elsewhere" else []
        try:
            said = globals()[what](token, *more)
        except Exception as e:
            said = {"failed": repr(e)}
        OLD.append(token)
        body = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    http.server.ThreadingHTTPServer(("0.0.0.0", 8080), Handler).serve_forever()
