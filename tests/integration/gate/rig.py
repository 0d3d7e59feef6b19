"""A gate with its real facilitator, and a scripted handler whose every byte the test decides."""
import http.client
import json
import os
import signal
import socket
import subprocess
import threading
import time

from evm import Key, authorization, b64, unb64

USER = "nobody"  # what the gate becomes when the tests run as root
PAY_TO = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"


class Handler:
    """Answers with whatever `answer(request)` returns: bytes, or a list of bytes and pauses in seconds."""

    def __init__(self):
        self.runs = []
        self.answer = lambda request: ok(b'{"answer":42}')
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self.socket.getsockname()[1]
        self.lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                peer, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer):
        try:
            request = Request(peer)
            with self.lock:
                self.runs.append(request)
            answer = self.answer(request)
            for piece in [answer] if isinstance(answer, bytes) else answer:
                if isinstance(piece, bytes):
                    peer.sendall(piece)
                else:
                    time.sleep(piece)
            peer.shutdown(socket.SHUT_WR)
            peer.recv(1)
        except OSError:
            pass
        finally:
            peer.close()

    def close(self):
        if self.socket.fileno() >= 0:
            self.socket.shutdown(socket.SHUT_RDWR)
            self.socket.close()


class Request:
    def __init__(self, peer):
        data = b""
        while b"\r\n\r\n" not in data:
            more = peer.recv(65536)
            if not more:
                raise OSError("cut")
            data += more
        self.head, self.body = data.split(b"\r\n\r\n", 1)
        lines = self.head.decode("latin-1").split("\r\n")
        self.line = lines[0]
        self.method, self.target, _ = lines[0].split(" ")
        self.fields = [line.split(": ", 1) for line in lines[1:]]
        want = int(self.get("Content-Length") or 0)
        while len(self.body) < want:
            self.body += peer.recv(65536)

    def all(self, name):
        return [v for k, v in self.fields if k.lower() == name.lower()]

    def get(self, name):
        return (self.all(name) or [None])[0]


def ok(body, status="200 OK", extra=""):
    return ("HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n" % (status, extra, len(body))).encode() + body


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def get(self, name):
        for k, v in self.headers:
            if k.lower() == name.lower():
                return v
        return None

    def json(self):
        return json.loads(self.body)

    def receipt(self):
        value = self.get("PAYMENT-RESPONSE") or self.get("X-PAYMENT-RESPONSE")
        return unb64(value) if value else None


def fetch(port, path="/a", method="GET", headers=None, body=None, timeout=30):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    headers = list((headers or {}).items()) if isinstance(headers, dict) or headers is None else headers
    if not any(k.lower() == "host" for k, _ in headers):
        headers = [("Host", "shop.test")] + headers
    if body is not None and not any(k.lower() in ("content-length", "transfer-encoding") for k, _ in headers):
        headers = headers + [("Content-Length", str(len(body)))]
    for k, v in headers:
        connection.putheader(k, v)
    connection.endheaders(body)
    answer = connection.getresponse()
    out = Answer(answer.status, answer.getheaders(), answer.read())
    connection.close()
    return out


def raw(port, data, timeout=3.0, until_close=True):
    """Sends bytes, returns all that comes until the peer closes or is silent; and whether it closed."""
    out, closed = b"", False
    with socket.create_connection(("127.0.0.1", port)) as s:
        s.settimeout(timeout)
        s.sendall(data)
        try:
            while True:
                more = s.recv(65536)
                if not more:
                    closed = True
                    break
                out += more
                if not until_close:
                    break
        except (socket.timeout, ConnectionResetError):
            pass
    return out, closed


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


class Rig:
    def __init__(self, folder, binaries):
        self.folder, self.bin = str(folder), binaries
        self.processes = []
        self.handler = Handler()
        self.facilitator_port = self.port = self.admin_port = 0
        self.facilitator = self.gate = None
        self.buyer = Key()
        self.config = {}

    # ---- facilitator ----

    def start_facilitator(self, *args, book=None):
        self.facilitator_port = self.facilitator_port or free_port()
        argv = [self.bin + "/utter-facilitator", "--listen", "127.0.0.1:%d" % self.facilitator_port, "--faults"]
        if book:
            argv += ["--book", os.path.join(self.folder, book)]
        self.facilitator = self._start(argv + list(args), "facilitator.log")
        self._until(lambda: self._answers(self.facilitator_port, "/supported"), "facilitator")

    def script(self, **modes):
        return fetch(self.facilitator_port, "/script", "POST", {"Content-Type": "application/json"},
                     json.dumps(modes).encode())

    def stats(self):
        return fetch(self.facilitator_port, "/stats").json()

    def book(self):
        return fetch(self.facilitator_port, "/book").json()

    # ---- gate ----

    def make_config(self, **change):
        self.port, self.admin_port = self.port or free_port(), self.admin_port or free_port()
        config = {
            "origin": "https://shop.test", "listen": "127.0.0.1:%d" % self.port,
            "admin": "127.0.0.1:%d" % self.admin_port,
            "handler": {"url": "http://127.0.0.1:%d" % self.handler.port, "timeout_s": 5},
            "facilitator": {"url": "http://127.0.0.1:%d" % self.facilitator_port},
            "ledger": {"path": os.path.join(self.folder, "ledger.db"), "create": True, "any_filesystem": True},
            "pay": [{"network": "base-sepolia", "asset": "USDC", "to": PAY_TO}],
            "routes": [
                {"path": "/a", "price": "0.01", "description": "a", "methods": ["GET", "POST"]},
                {"path": "/b", "price": "0.01", "description": "b"},
                {"path": "/c", "price": "0.02", "description": "c"},
                {"path": "/free", "free": True, "methods": ["GET", "POST"]},
                {"path": "/x/{name}", "price": "0.01", "description": "x"},
            ],
            "limits": {"per_payer": 64}, "user": USER,
        }
        for key, value in change.items():
            if isinstance(value, dict) and isinstance(config.get(key), dict):
                config[key].update(value)
            else:
                config[key] = value
        self.config = config
        return config

    def write_config(self, config, name="gate.json"):
        path = os.path.join(self.folder, name)
        with open(path + ".new", "w") as f:
            json.dump(config, f)
        os.rename(path + ".new", path)
        return path

    def start_gate(self, *args, env=None, wait=True, **change):
        if change or not self.config:
            self.make_config(**change)
        path = self.write_config(self.config)
        self.gate = self._start([self.bin + "/utter-gate", "serve", *args, path], "gate.log", env)
        if wait:
            self._until(self.ready, "gate")
        return self.gate

    def ready(self):
        return self._answers(self.admin_port, "/readyz")

    def readyz(self):
        return fetch(self.admin_port, "/readyz").json()

    def metric(self, name):
        for line in fetch(self.admin_port, "/metrics").body.decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split(" ")[1])
        raise KeyError(name)

    def outcome(self, name):
        return self.metric('utter_gate_requests_total{outcome="%s"}' % name)

    def stop_gate(self, how=signal.SIGTERM):
        self.gate.send_signal(how)
        return self.gate.wait(40)

    def log(self, name="gate.log"):
        with open(os.path.join(self.folder, name), errors="replace") as f:
            return f.read()

    # ---- buying ----

    def challenge(self, path="/a", version=2, **kw):
        answer = fetch(self.port, path, **kw)
        assert answer.status == 402, (answer.status, answer.body)
        return unb64(answer.get("PAYMENT-REQUIRED")) if version == 2 else answer.json()

    def payment(self, path="/a", version=2, key=None, requirements=None, identifier=None, **change):
        """Header of one signed payment."""
        challenge = self.challenge(path, version)
        chosen = requirements or challenge["accepts"][0]
        payload = authorization(key or self.buyer, chosen, **change)
        return self.header(payload, chosen, challenge, version, identifier)

    @staticmethod
    def header(payload, chosen, challenge=None, version=2, identifier=None):
        if version == 1:
            return {"X-PAYMENT": b64({"x402Version": 1, "scheme": chosen["scheme"], "network": chosen["network"],
                                      "payload": payload})}
        body = {"x402Version": 2, "accepted": chosen, "payload": payload}
        if challenge:
            body["resource"] = challenge["resource"]
        if identifier:
            body["extensions"] = {"payment-identifier": {"info": {"required": False, "id": identifier}}}
        return {"PAYMENT-SIGNATURE": b64(body)}

    def buy(self, path="/a", version=2, headers=None, method="GET", body=None, **kw):
        paid = self.payment(path, version, **kw)
        paid.update(headers or {})
        return fetch(self.port, path, method, paid, body)

    # ---- processes ----

    def _start(self, argv, log, env=None):
        out = open(os.path.join(self.folder, log), "ab")
        p = subprocess.Popen(argv, stdout=out, stderr=out, env={**os.environ, **(env or {})})
        out.close()
        self.processes.append(p)
        return p

    @staticmethod
    def _answers(port, path):
        try:
            return fetch(port, path, timeout=2).status == 200
        except (OSError, http.client.HTTPException):
            return False

    def _until(self, what, name, seconds=10):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if what():
                return
            time.sleep(0.02)
        raise AssertionError("%s is not ready:\n%s" % (name, self.log("gate.log") if self.gate else ""))

    def close(self):
        for p in self.processes:
            if p.poll() is None:
                p.kill()
            p.wait()
        self.handler.close()
