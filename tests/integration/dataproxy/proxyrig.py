"""A real utter-dataproxy, a scripted gate on its socket, scripted upstreams on loopback."""
import base64
import http.client
import json
import os
import shutil
import socket
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cryptography.hazmat.primitives.serialization import load_pem_private_key

SECRET = "sk-live-0123456789/abc+DEF=="
USER = "nobody"
OPEN = {"scope": ["api"], "calls": 10, "bytes": 1 << 20, "ms": 60000}


def b64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Upstream(ThreadingHTTPServer):
    """Answers by the path's first segment; remembers what it was asked."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen = []
        self.release = threading.Event()
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def port(self):
        return self.server_address[1]

    def done(self):
        self.release.set()
        self.shutdown()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def any(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        self.server.seen.append({"method": self.command, "path": self.path, "body": body,
                                 "headers": dict(self.headers.items())})
        what = self.path.lstrip("/").split("/")[0].split("?")[0]
        getattr(self, "do_" + what.replace("-", "_"), self.do_fine)()

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_PATCH = any

    def do_fine(self):
        self.answer(200, b"fine", Content_Type="text/plain", X_Internal="no", Set_Cookie="a=b", ETag='"1"')

    def do_redirect(self):
        self.answer(302, b"", Location="http://127.0.0.1:1/")

    def do_gzip(self):
        self.answer(200, b"\x1f\x8b", Content_Encoding="gzip")

    def do_big(self):
        self.answer(200, b"x" * 70000)

    def do_body_leak(self):
        self.answer(200, b"your key is " + SECRET.encode() + b", keep it")

    def do_b64_leak(self):
        self.answer(200, base64.b64encode(b"Authorization: Bearer " + SECRET.encode()))

    def do_header_leak(self):
        self.answer(200, b"fine", ETag='"%s"' % SECRET, Link="<http://x/%s>" % SECRET)

    def do_error_leak(self):
        self.answer(500, json.dumps({"headers": dict(self.headers.items())}).encode())

    def do_late_leak(self):
        self.answer(200, b"y" * 30000 + SECRET.encode() + b"y" * 30000)

    def do_hang(self):
        self.server.release.wait(20)
        self.answer(200, b"late")

    def do_drip(self):
        self.send_response(200)
        self.send_header("Content-Length", "1000000")
        self.end_headers()
        try:
            while not self.server.release.wait(0.01):
                self.wfile.write(b"z" * 100)
        except OSError:
            pass
        self.server.seen.append("cut")

    def do_cut(self):
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"half")
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True


class Proxy:
    def __init__(self, tmp, build, upstream, change=lambda config: None):
        self.dir = str(tmp)
        self.keys, self.private = self.dir + "/keys", self.dir + "/private"
        for folder in (self.keys, self.private):
            os.makedirs(folder)
        for folder in (self.dir, self.keys, self.private):
            shutil.chown(folder, USER)
        self.bin = os.path.join(build, "bin/utter-dataproxy")
        subprocess.run([self.bin, "keygen", self.private, self.keys], check=True, stdout=subprocess.DEVNULL)
        self.secret = self.file("secret", SECRET + "\n")
        self.config = {
            "slug": "weather", "listen": "127.0.0.1:0", "admin": "unix:" + self.dir + "/admin", "gate_uid": os.getuid(), "user": USER,
            "session": self.dir + "/gate", "keys": self.keys, "ledger": self.dir + "/egress.db", "upstreams": [{
                "name": "api", "url": "http://127.0.0.1:%d/" % upstream.port, "internal": True,
                "allow": [{"methods": ["GET", "POST", "HEAD"], "path": "/{any}"}, {"methods": ["GET"], "path": "/files/*"}],
                "headers": ["X-Custom"],
                "inject": {"header": {"name": "Authorization", "value": "Bearer {secret}", "file": self.secret}},
                "limits": {"response_body": 65536, "request_body": 1000, "timeout_ms": 1500}}]}
        change(self.config)
        self.start()

    def file(self, name, text, mode=0o400):
        path = os.path.join(self.dir, name)
        if os.path.exists(path):
            os.unlink(path)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, mode), "w") as f:
            f.write(text)
        shutil.chown(path, USER)
        return path

    def start(self):
        path = self.file("config.json", json.dumps(self.config), 0o600)
        self.log = open(self.dir + "/log", "ab")
        self.process = subprocess.Popen([self.bin, "serve", path], stdout=self.log, stderr=self.log)
        end = time.time() + 20
        while time.time() < end and self.process.poll() is None:
            for line in open(self.dir + "/log", "rb").read().splitlines():
                if b'"msg":"serving"' in line and os.path.exists(self.config["session"]):
                    self.port = json.loads(line)["port"]
                    return
            time.sleep(0.02)
        raise AssertionError(open(self.dir + "/log").read())

    def stop(self):
        self.process.terminate()
        assert self.process.wait(20) == 0
        self.log.close()

    def logged(self):
        return open(self.dir + "/log").read()

    def gate(self):
        return Gate(self.config["session"])

    def token(self, request, sign=None, header=None, **change):
        now = int(time.time())
        key = load_pem_private_key(open((sign or self.private) + "/data.key", "rb").read(), None)
        kid = subprocess.run(["openssl", "pkey", "-in", (sign or self.private) + "/data.key", "-pubout", "-outform", "DER"],
                             capture_output=True, check=True).stdout[-32:]
        import hashlib
        head = {"alg": "EdDSA", "kid": hashlib.sha256(kid).hexdigest()[:16], "typ": "JWT"}
        claims = {"iss": "gate", "aud": "dataproxy", "sub": "weather", "jti": request, "iat": now, "exp": now + 60,
                  "calls": 1000, "bytes": 1 << 30, "scope": ["api"]}
        claims.update(change)
        head.update(header or {})
        text = b64url(json.dumps(head, separators=(",", ":")).encode()) + "." + b64url(json.dumps(claims).encode())
        return text + "." + b64url(key.sign(text.encode()))

    def ask(self, path, token=None, method="GET", body=None, headers=(), host="data"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            connection.putheader("Host", path.split("/")[2].split("@")[-1] if "://" in path else host)
            if token:
                connection.putheader("Utter-Data-Token", token)
            for name, value in headers:
                connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, answer.read(), dict((k.lower(), v) for k, v in answer.getheaders())
        finally:
            connection.close()


class Gate:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(10)
        self.socket.connect(path)

    def say(self, **message):
        self.socket.send(json.dumps(message).encode())
        return json.loads(self.socket.recv(5000))

    def open(self, request, **change):
        answer = self.say(op="open", id=request, **{**OPEN, **change})
        assert answer["op"] == "opened", answer

    def end(self, request):
        return self.say(op="end", id=request)

    def close(self):
        self.socket.close()
