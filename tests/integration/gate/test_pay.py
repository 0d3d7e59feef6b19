"""utter-pay as people run it: one signature a call, limits that hold, outcomes told apart."""
import glob
import json
import os
import stat

import pytest

import market

pytestmark = pytest.mark.once


@pytest.fixture
def bin_dir(request):
    return os.path.join(os.path.abspath(request.config.getoption("--build")), "bin")


@pytest.fixture
def buyer(bin_dir, tmp_path):
    return market.Buyer(bin_dir, str(tmp_path / "home"))


@pytest.fixture
def sell():
    made = []

    def make(*answers, v2=True, v1=False, terms=None):
        seller = market.Seller(v2=[terms or market.requirements(2)] if v2 else None,
                               v1=[terms or market.requirements(1)] if v1 else None,
                               answers=list(answers) or None)
        made.append(seller)
        return seller

    yield make
    for seller in made:
        seller.stop()


def test_pays_and_prints(buyer, sell):
    seller = sell()
    done = buyer.run("--max", "0.01", seller.url)
    assert (done.returncode, done.stdout) == (0, b"the answer\n")
    assert b"price 0.01 USDC on Base Sepolia (testnet)" in done.stderr
    assert b"paid 0.01 USDC, transaction 0xabab" in done.stderr
    [one] = seller.payments
    assert len(one["resume"]) == 64 and one["payment"]["x402Version"] == 2


@pytest.mark.parametrize("v2,v1,option,version", [
    (True, True, None, 2), (True, True, "--v1", 1), (False, True, None, 1), (True, False, "--v2", 2)])
def test_versions(buyer, sell, v2, v1, option, version):
    seller = sell(v2=v2, v1=v1)
    done = buyer.run("--yes", *([option] if option else []), seller.url)
    assert done.returncode == 0, done.stderr
    assert seller.payments[0]["payment"]["x402Version"] == version


def test_version_that_is_not_offered(buyer, sell):
    assert buyer.run("--yes", "--v2", sell(v2=False, v1=True).url).returncode == 7


def test_max_is_a_limit(buyer, sell):
    seller = sell()
    for extra in ([], ["--yes"]):
        done = buyer.run("--max", "0.009999", *extra, seller.url)
        assert done.returncode == 3 and b"above --max" in done.stderr
    assert seller.payments == []


def test_asks_and_has_nobody_to_ask(buyer, sell):
    seller = sell()
    done = buyer.run(seller.url)
    assert done.returncode == 3 and b"no terminal" in done.stderr
    assert seller.payments == []


@pytest.mark.parametrize("answer,code", [(b"y\n", 0), (b"n\n", 3), (b"\n", 3)])
def test_asks_on_the_terminal(buyer, sell, answer, code):
    import pty
    seller = sell()
    pid, fd = pty.fork()
    if pid == 0:
        os.environ["HOME"] = buyer.home
        os.execv(buyer.program, [buyer.program, seller.url])
    shown = b""
    try:
        while True:
            try:
                part = os.read(fd, 4096)
            except OSError:
                break
            if not part:
                break
            shown += part
            if b"[y/N]" in shown and answer:
                os.write(fd, answer)
                answer = b""
    finally:
        os.close(fd)
    _, status = os.waitpid(pid, 0)
    assert b"Pay 0.01 USDC on Base Sepolia (testnet) to " + market.PAYEE.encode() in shown
    assert os.waitstatus_to_exitcode(status) == code
    assert len(seller.payments) == (1 if code == 0 else 0)


def test_503_repeats_the_same_payment(buyer, sell):
    wait = market.status(503, Retry_After="1")
    seller = sell(wait, wait, market.paid())
    done = buyer.run("--yes", seller.url)
    assert (done.returncode, done.stdout) == (0, b"the answer\n")
    assert len(seller.payments) == 3
    assert len({p["value"] for p in seller.payments}) == 1
    assert len({p["resume"] for p in seller.payments}) == 1


def test_cut_connection_repeats_the_same_payment(buyer, sell):
    seller = sell(market.drop(), market.paid())
    done = buyer.run("--yes", seller.url)
    assert done.returncode == 0
    assert len(seller.payments) == 2 and len({p["value"] for p in seller.payments}) == 1


def test_unknown_outcome_is_kept_and_resumed(buyer, sell):
    seller = sell(market.status(503, Retry_After="1"))
    done = buyer.run("--yes", "--retry-for", "1", seller.url)
    assert done.returncode == 5 and b"--resume" in done.stderr
    [ticket] = glob.glob(buyer.home + "/.local/state/utter/pay-*.json")
    assert stat.S_IMODE(os.stat(ticket).st_mode) == 0o600
    seller.answers = [market.paid()]
    other = buyer.run("--resume", ticket, seller.url + "y")
    assert other.returncode == 2
    done = buyer.run("--resume", ticket, seller.url)
    assert (done.returncode, done.stdout) == (0, b"the answer\n")
    assert len({p["value"] for p in seller.payments}) == 1
    assert len({p["resume"] for p in seller.payments}) == 1
    assert not os.path.exists(ticket)


@pytest.mark.parametrize("status,code", [(402, 4), (400, 4), (412, 4), (404, 6), (502, 6), (504, 6),
                                         (500, 5), (503, 5), (409, 5)])
def test_final_answers(buyer, sell, status, code):
    seller = sell(market.status(status, b"no"))
    done = buyer.run("--yes", seller.url)
    assert done.returncode == code
    assert len(seller.payments) == 1


def test_refusal_names_its_reason(buyer, sell):
    headers, body = market.challenge([market.requirements()], error="insufficient_funds")
    seller = sell(lambda handler, payment: handler.reply(402, body, headers))
    done = buyer.run("--yes", seller.url)
    assert done.returncode == 4 and b"reason: insufficient_funds" in done.stderr
    assert len(seller.payments) == 1  # never a second signature


@pytest.mark.parametrize("receipt", [{"success": "true"}, {"transaction": ""},
                                     {"network": "eip155:1"}, {"payer": "0x" + "11" * 20}])
def test_false_receipts_are_named(buyer, sell, receipt):
    done = buyer.run("--yes", sell(market.paid(**receipt)).url)
    assert b"warning: the receipt" in done.stderr


@pytest.mark.parametrize("change", [
    {"scheme": "upto"}, {"network": "solana:x"}, {"asset": "USD"}, {"payTo": "merchant"},
    {"amount": "1.5"}, {"amount": "-1"}, {"maxTimeoutSeconds": 86401}, {"maxTimeoutSeconds": 0},
    {"extra": {}}, {"extra": {"name": "USD Coin", "version": "2"}},
    {"extra": {"name": "USDC", "version": "2", "assetTransferMethod": "erc7710"}}])
def test_offers_that_are_not_paid(buyer, sell, change):
    seller = sell(terms=market.requirements(2, **change))
    done = buyer.run("--yes", seller.url)
    assert done.returncode == 7 and b"cannot pay" in done.stderr
    assert seller.payments == []


def test_unknown_token_needs_yes(buyer, sell):
    terms = market.requirements(2, asset="0x" + "11" * 20)
    assert buyer.run("--max", "100", sell(terms=terms).url).returncode == 3
    assert buyer.run("--yes", sell(terms=terms).url).returncode == 0


def test_network_choice(buyer, sell):
    seller = sell()
    assert buyer.run("--yes", "--network", "base", seller.url).returncode == 7
    assert buyer.run("--yes", "--network", "base-sepolia", seller.url).returncode == 0


def test_request_as_curl_would(buyer, sell, tmp_path):
    seller = sell()
    data = tmp_path / "data"
    data.write_bytes(b"\x00\x01binary")
    out = tmp_path / "out"
    done = buyer.run("--yes", "-X", "PUT", "-H", "X-One: 1", "-d", "@%s" % data, "-o", str(out),
                     seller.url + "?q=1")
    assert done.returncode == 0, done.stderr
    assert out.read_bytes() == b"the answer\n" and done.stdout == b""
    [one] = seller.payments
    assert (one["method"], one["body"], one["path"]) == ("PUT", b"\x00\x01binary", "/x?q=1")


def test_free_answers_are_passed_on(buyer, bin_dir):
    import http.server
    import threading

    class Free(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(404 if "404" in self.path else 200)
            self.end_headers()
            self.wfile.write(b"free")

        def log_message(self, *args):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Free)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = "http://127.0.0.1:%d/" % server.server_address[1]
    assert (buyer.run(url).returncode, buyer.run(url).stdout) == (0, b"free")
    assert buyer.run(url + "404").returncode == 6
    server.shutdown()
    server.server_close()


def test_keys(buyer, tmp_path):
    key = buyer.home + "/.config/utter/pay.key"
    assert stat.S_IMODE(os.stat(key).st_mode) == 0o600
    before = open(key).read()
    assert buyer.run("key", "new").returncode == 1 and open(key).read() == before
    assert buyer.run("key", "show").stdout.decode().strip() == buyer.address
    os.chmod(key, 0o644)
    done = buyer.run("key", "show")
    assert done.returncode == 1 and b"can be read by others" in done.stderr


def test_unreachable_seller(buyer):
    done = buyer.run("--yes", "http://127.0.0.1:1/")
    assert done.returncode == 1


def test_usage(buyer):
    for args in ([], ["--bogus", "http://x/"], ["a", "b"], ["-H", "none", "http://x/"],
                 ["--timeout", "0", "http://x/"], ["key"], ["key", "old"]):
        assert buyer.run(*args).returncode == 2


def test_no_proxy_of_the_environment(buyer, sell):
    seller = sell()
    done = buyer.run("--yes", seller.url, env={"http_proxy": "http://127.0.0.1:1",
                                               "ALL_PROXY": "http://127.0.0.1:1"})
    assert done.returncode == 0, done.stderr
