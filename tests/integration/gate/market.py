"""Processes and small servers for tests of money: a facilitator, a seller of our own, a buyer."""
import base64
import http.server
import json
import os
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request

USDC = "0x036CbD53842c5426634e7929541eC2318f3dCF7e"
PAYEE = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"


def requirements(version=2, **more):
    r = {"scheme": "exact", "asset": USDC, "payTo": PAYEE, "maxTimeoutSeconds": 120,
         "extra": {"name": "USDC", "version": "2"}}
    if version == 2:
        r.update(network="eip155:84532", amount="10000")
    else:
        r.update(network="base-sepolia", maxAmountRequired="10000", description="d",
                 mimeType="application/json", resource="http://127.0.0.1/x")
    r.update(more)
    return r


def fetch(url, data=None, headers=None, timeout=10, method=None):
    """(status, headers, body); an HTTP error is an answer like any other."""
    if data is not None and not isinstance(data, bytes):
        data = json.dumps(data).encode()
    request = urllib.request.Request(url, data, headers or {}, method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


class Facilitator:
    """utter-facilitator on a free port."""

    def __init__(self, bin_dir, work, *args, book="book.db"):
        self.log = open(os.path.join(work, "facilitator.log"), "ab")
        self.process = subprocess.Popen(
            [os.path.join(bin_dir, "utter-facilitator"), "--listen", "127.0.0.1:0", "--faults",
             "--book", os.path.join(work, book), *args],
            stdout=subprocess.PIPE, stderr=self.log)
        self.hello = self.process.stdout.readline().decode()
        self.port = int(self.hello.split(" port ")[1].split(":")[0])
        self.url = "http://127.0.0.1:%d" % self.port

    def call(self, operation, payment, terms, headers=None, timeout=10):
        body = {"x402Version": payment.get("x402Version"), "paymentPayload": payment,
                "paymentRequirements": terms}
        status, _, text = fetch(self.url + "/" + operation, body, headers, timeout)
        return status, json.loads(text)

    def script(self, **steps):
        status, _, text = fetch(self.url + "/script", steps)
        assert status == 200, text

    def fund(self, account, balance, network="eip155:84532", asset=USDC):
        status, _, text = fetch(self.url + "/fund", {"network": network, "asset": asset,
                                                     "account": account, "balance": str(balance)})
        assert status == 200, text

    def stats(self):
        return json.loads(fetch(self.url + "/stats")[2])

    def transfers(self, bodies=False):
        return json.loads(fetch(self.url + "/book" + ("?bodies=1" if bodies else ""))[2])["transfers"]

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.process.wait(10)
        self.process.stdout.close()
        self.log.close()


def challenge(v2=None, v1=None, error="Payment required"):
    """Headers and body of a 402."""
    headers = {}
    if v2:
        text = json.dumps({"x402Version": 2, "error": error,
                           "resource": {"url": "http://127.0.0.1/x"}, "accepts": v2})
        headers["PAYMENT-REQUIRED"] = base64.b64encode(text.encode()).decode()
    body = json.dumps({"x402Version": 1, "error": error, "accepts": v1} if v1 else {})
    return headers, body.encode()


class Seller:
    """A scripted seller: `answers` is a list of functions (handler, payment) for successive paid
    requests, the last one repeated. Every paid request is kept in `payments`."""

    def __init__(self, v2=None, v1=None, answers=None):
        self.payments = []
        self.unpaid = 0
        seller = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do(self):
                length = int(self.headers.get("Content-Length") or 0)
                self.body = self.rfile.read(length)
                value = self.headers.get("PAYMENT-SIGNATURE") or self.headers.get("X-PAYMENT")
                if value is None:
                    seller.unpaid += 1
                    headers, body = challenge(v2, v1)
                    self.reply(402, body, headers)
                    return
                payment = json.loads(base64.b64decode(value))
                index = min(len(seller.payments), len(seller.answers) - 1)
                seller.payments.append({"value": value, "payment": payment, "path": self.path,
                                        "method": self.command, "body": self.body,
                                        "resume": self.headers.get("Utter-Resume")})
                seller.answers[index](self, payment)

            do_GET = do_POST = do_PUT = do

            def reply(self, status, body=b"", headers=None):
                self.send_response(status)
                for name, text in (headers or {}).items():
                    self.send_header(name, text)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        self.answers = answers or [paid()]
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = "http://127.0.0.1:%d/x" % self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


def receipt_headers(payment, **more):
    v1 = payment["x402Version"] == 1
    receipt = {"success": True, "transaction": "0x" + "ab" * 32,
               "network": payment["network"] if v1 else payment["accepted"]["network"],
               "payer": payment["payload"]["authorization"]["from"]}
    receipt.update(more)
    return {"X-PAYMENT-RESPONSE" if v1 else "PAYMENT-RESPONSE":
            base64.b64encode(json.dumps(receipt).encode()).decode()}


def paid(body=b"the answer\n", **receipt):
    return lambda handler, payment: handler.reply(200, body, receipt_headers(payment, **receipt))


def status(code, body=b"", **headers):
    return lambda handler, payment: handler.reply(
        code, body, {name.replace("_", "-"): value for name, value in headers.items()})


def drop():
    """The connection is cut before a byte of the answer."""
    def cut(handler, payment):
        handler.close_connection = True
        handler.connection.shutdown(2)
    return cut


class Buyer:
    """utter-pay with a home and a key of its own."""

    def __init__(self, bin_dir, home):
        self.program = os.path.join(bin_dir, "utter-pay")
        self.home = home
        os.makedirs(home, exist_ok=True)
        done = self.run("key", "new")
        assert done.returncode == 0, done.stderr
        self.address = done.stdout.decode().strip()

    def run(self, *args, timeout=60, env=None, **more):
        return subprocess.run([self.program, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              stdin=subprocess.DEVNULL, env={"HOME": self.home, **(env or {})},
                              timeout=timeout, start_new_session=True, **more)

    def sign(self, version=2, terms=None):
        """One signed payment and its terms, made by utter-pay for a seller that keeps it."""
        terms = terms or requirements(version)
        seller = Seller(**{"v%d" % version: [terms]})
        try:
            done = self.run("--yes", seller.url)
            assert done.returncode == 0, done.stderr
            return seller.payments[0]["payment"]
        finally:
            seller.stop()


def until(what, seconds=10):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
