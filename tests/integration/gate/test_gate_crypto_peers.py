"""Our signatures and tokens against published libraries: eth-account, PyJWT, CDP's own."""
import base64
import http.server
import json
import os
import shutil
import subprocess
import threading
import time

import pytest

import market
from rig import fetch, free_port
from test_gate_official_clients import CACHE, HERE, installed, pypi  # noqa: F401

pytestmark = [pytest.mark.once, pytest.mark.timeout(400)]


def ask(python, what, **given):
    done = subprocess.run([python, os.path.join(HERE, "official/peers.py"), what],
                          input=json.dumps(given).encode(), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


@pytest.fixture(scope="session")
def cdp():
    import sys
    folder = installed(os.path.join(CACHE, "cdp-sdk-1.51.0"), ".complete", lambda fresh: [
        "sh", "-c", '"$0" -m venv "$1" && "$1/bin/pip" install -q cdp-sdk==1.51.0', sys.executable, fresh])
    return os.path.join(folder, "bin", "python3")


def test_eth_account_signs_and_we_check(cold, pypi):  # noqa: F811
    """200 payments over random domains and members; with one bit turned none is taken."""
    cold.start_facilitator("--credit", str(2**200))
    seed = int(time.time())
    print("seed", seed)
    made = ask(pypi, "sign", seed=seed, count=200, before=int(time.time()) + 3000)
    for i, one in enumerate(made):
        body = {"x402Version": 2, "paymentPayload": one["payment"], "paymentRequirements": one["terms"]}
        for turned in (False, True):
            if turned:
                signature = bytearray.fromhex(one["payment"]["payload"]["signature"][2:])
                signature[i % 64] ^= 1 << i % 8
                one["payment"]["payload"]["signature"] = "0x" + signature.hex()
            answer = fetch(cold.facilitator_port, "/verify", "POST", {},
                           json.dumps(body).encode()).json()
            assert answer["isValid"] is not turned, (one, answer)


def test_we_sign_and_eth_account_recovers(request, tmp_path, pypi):  # noqa: F811
    bin_dir = os.path.join(os.path.abspath(request.config.getoption("--build")), "bin")
    buyer = market.Buyer(bin_dir, str(tmp_path / "home"))
    for _ in range(5):
        assert ask(pypi, "recover", payment=buyer.sign()) == buyer.address


class Recorder:
    """Stands before the facilitator and keeps the headers of each call."""

    def __init__(self, port):
        calls = self.calls = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                calls.append((self.command, self.path, self.headers.get("Authorization"),
                              self.headers.get("Correlation-Context")))
                answer = fetch(port, self.path.removeprefix("/platform/v2/x402"), self.command, {},
                               body or None)
                self.send_response(answer.status)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            do_GET = do_POST = do

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()


@pytest.mark.parametrize("kind", ["EdDSA", "ES256"])
def test_cdp_token_is_what_cdps_library_makes(cold, cdp, kind):
    key, public = os.path.join(cold.folder, "cdp.key"), os.path.join(cold.folder, "cdp.pub")
    algorithm = ["-algorithm", "ed25519"] if kind == "EdDSA" else [
        "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]
    pem = subprocess.run(["openssl", "genpkey", *algorithm], stdout=subprocess.PIPE, check=True).stdout
    subprocess.run(["openssl", "pkey", "-pubout", "-out", public], input=pem, check=True)
    secret = pem.decode()
    if kind == "EdDSA":
        der = [subprocess.run(["openssl", "pkey", "-outform", "DER", *more], input=pem,
                              stdout=subprocess.PIPE, check=True).stdout for more in ([], ["-pubout"])]
        secret = base64.b64encode(der[0][-32:] + der[1][-32:]).decode()
    with open(key, "w") as f:
        f.write(secret)
    os.chmod(key, 0o600)
    shutil.chown(key, "nobody")
    cold.start_facilitator()
    recorder = Recorder(cold.facilitator_port)
    host = "127.0.0.1:%d" % recorder.port
    cold.facilitator_port = free_port()  # the gate's configuration names the recorder instead
    cold.start_gate(facilitator={"url": "http://%s/platform/v2/x402" % host, "auth": {
        "cdp": {"key_id": "organizations/1/k", "key_file": key}}})
    assert cold.buy().status == 200
    recorder.server.shutdown()
    recorder.server.server_close()
    seen = {path.rsplit("/", 1)[1] for _, path, _, _ in recorder.calls}
    assert seen == {"supported", "verify", "settle"}
    tokens = [authorization for _, _, authorization, _ in recorder.calls]
    assert len(set(tokens)) == len(tokens)  # one per call
    with open(public) as f:
        public = f.read()
    for method, path, authorization, correlation in recorder.calls:
        ours = ask(cdp, "jwt", token=authorization.removeprefix("Bearer "), public=public)
        theirs = ask(cdp, "jwt-model", secret=secret, host=host, path=path)
        assert set(theirs["header"]) == set(ours["header"])
        for name in ("alg", "kid", "typ"):
            assert ours["header"][name] == theirs["header"][name]
        assert ours["header"]["alg"] == kind
        assert {k for k, v in theirs["claims"].items() if v is not None} <= set(ours["claims"])
        for name in ("sub", "iss"):
            assert ours["claims"][name] == theirs["claims"][name]
        assert ours["claims"]["uris"] == ["%s %s%s" % (method, host, path)]
        assert ours["claims"]["exp"] - ours["claims"]["nbf"] == 120
        assert abs(ours["claims"]["nbf"] - theirs["claims"]["nbf"]) < 60
        assert "sdk_version=" in correlation
