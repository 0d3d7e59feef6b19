"""The gate in front of a handler: sold, not charged, refused. Real gate, real facilitator, real signatures."""
import os
import subprocess

import pytest

from rig import PAY_TO, fetch, ok, raw

pytestmark = [pytest.mark.once, pytest.mark.timeout(40)]


def test_unpaid_gets_one_challenge_for_both_versions(rig):
    answer = fetch(rig.port, "/a")
    assert answer.status == 402
    assert answer.get("Cache-Control") == "no-store"
    v1, v2 = answer.json(), rig.challenge("/a")
    assert v1["x402Version"] == 1 and v2["x402Version"] == 2
    assert v1["accepts"][0]["maxAmountRequired"] == v2["accepts"][0]["amount"] == "10000"
    assert v2["resource"]["url"] == v1["accepts"][0]["resource"] == "https://shop.test/a"
    assert rig.handler.runs == []


@pytest.mark.parametrize("version", [1, 2])
def test_a_paid_call_is_sold(rig, version):
    answer = rig.buy(version=version)
    assert (answer.status, answer.body) == (200, b'{"answer":42}')
    receipt = answer.receipt()
    assert receipt["success"] is True and receipt["transaction"].startswith("0x")
    assert answer.get("PAYMENT-RESPONSE" if version == 2 else "X-PAYMENT-RESPONSE")
    assert receipt["network"] == ("eip155:84532" if version == 2 else "base-sepolia")
    assert answer.get("Cache-Control") == "private, no-store"
    assert rig.stats()["transfers"] == 1 and len(rig.handler.runs) == 1


@pytest.mark.parametrize("version", [1, 2])
def test_utter_pay_buys(rig, version, tmp_path):
    key = str(tmp_path / "key")
    subprocess.run([rig.bin + "/utter-pay", "key", "new", key], check=True, capture_output=True)
    done = subprocess.run([rig.bin + "/utter-pay", "--v%d" % version, "--max", "0.01", "--key", key,
                           "-H", "Host: shop.test", "http://127.0.0.1:%d/a" % rig.port], capture_output=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == b'{"answer":42}' and b"transaction 0x" in done.stderr


@pytest.mark.parametrize("scheme,charge", [("exact", None), ("upto", None), ("upto", "2500")])
def test_utter_pay_buys_by_permit2(cold, scheme, charge, tmp_path):
    """The price of upto is a ceiling, and the receipt says what was charged."""
    cold.start_facilitator()
    cold.start_gate(pay=[{"network": "base-sepolia", "asset": "USDC", "to": PAY_TO, "scheme": scheme, "method": "permit2"}],
                    routes=[{"path": "/a", "price": "0.01", **({"upto": {"handler_charge": True}} if scheme == "upto" else {})}])
    cold.handler.answer = lambda request: ok(b"got it", extra='Settlement-Overrides: {"amount":"%s"}\r\n' % charge if charge else "")
    key = str(tmp_path / "key")
    subprocess.run([cold.bin + "/utter-pay", "key", "new", key], check=True, capture_output=True)
    pay = [cold.bin + "/utter-pay", "--key", key, "-H", "Host: shop.test", "http://127.0.0.1:%d/a" % cold.port]
    assert subprocess.run(pay + ["--max", "0.009"], capture_output=True).returncode != 0
    done = subprocess.run(pay + ["--max", "0.01"], capture_output=True)
    assert done.returncode == 0 and done.stdout == b"got it", done.stderr
    assert (b"price at most 0.01 USDC" if scheme == "upto" else b"price 0.01 USDC") in done.stderr
    assert (b"paid 0.0025 USDC" if charge else b"paid 0.01 USDC") in done.stderr, done.stderr
    [transfer] = cold.book()["transfers"]
    assert transfer["value"] == (charge or "10000") and "/permit2/" in transfer["key"]


def test_a_handler_error_is_not_charged(rig):
    rig.handler.answer = lambda request: ok(b"stack trace", "500 Oops")
    answer = rig.buy()
    assert answer.status == 502 and answer.receipt() is None
    assert answer.json()["error"] == "handler_error" and b"stack" not in answer.body
    assert rig.stats()["settle"] == 0 and rig.stats()["transfers"] == 0


@pytest.mark.parametrize("extra,status", [(0, 200), (1, 502)])
def test_b14_an_answer_over_one_mebibyte_is_not_charged(rig, extra, status):
    rig.handler.answer = lambda request: ok(b"x" * ((1 << 20) + extra))
    answer = rig.buy()
    assert answer.status == status
    assert rig.stats()["transfers"] == (0 if extra else 1)
    if not extra:
        assert len(answer.body) == 1 << 20


@pytest.mark.parametrize("extra,status", [(0, 200), (1, 413)])
def test_b14_a_request_over_one_mebibyte_is_refused_before_anything_runs(rig, extra, status):
    answer = rig.buy(method="POST", body=b"y" * ((1 << 20) + extra))
    assert answer.status == status
    assert rig.stats()["verify"] == (0 if extra else 1) and len(rig.handler.runs) == (0 if extra else 1)


def test_b14_a_chunked_request_is_cut_at_the_cap(rig):
    paid = rig.payment()
    head = ("POST /a HTTP/1.1\r\nHost: shop.test\r\nTransfer-Encoding: chunked\r\n"
            "PAYMENT-SIGNATURE: %s\r\n\r\n" % paid["PAYMENT-SIGNATURE"]).encode()
    chunk = b"8000\r\n" + b"z" * 0x8000 + b"\r\n"
    out, closed = raw(rig.port, head + chunk * 33 + b"0\r\n\r\n")
    assert out.startswith(b"HTTP/1.1 413 ") and closed
    assert rig.stats()["verify"] == 0 and rig.handler.runs == []


def test_unmatched_is_not_found_and_never_free(rig):
    for path in ("/", "/nothing", "/a/b", "/A", "/a/", "/x/", "/x/1/2"):
        assert fetch(rig.port, path).status == 404, path
    assert fetch(rig.port, "/free").status == 200
    assert len(rig.handler.runs) == 1


def test_a_host_that_is_not_ours_is_misdirected(rig):
    for host in ("evil.test", "shop.test.evil", "shop.test:81"):
        assert fetch(rig.port, "/free", headers={"Host": host}).status == 421
    assert fetch(rig.port, "/free", headers={"Host": "Shop.Test:443"}).status == 200
    assert len(rig.handler.runs) == 1


def test_alive_says_which_gate_and_nothing_about_the_handler(rig):
    rig.handler.close()
    answer = fetch(rig.port, "/.well-known/utter/alive")
    assert answer.status == 200
    assert answer.json() == {"instance": rig.readyz()["instance"], "ledger": "open"}


def test_a_handler_that_is_down_is_answered_by_the_gate(rig):
    rig.handler.close()
    answer = rig.buy()
    assert answer.status == 502 and answer.json()["error"] == "handler_unreachable"
    assert rig.stats()["settle"] == 0


def test_sigterm_ends_with_nothing_left(rig):
    assert rig.buy().status == 200
    assert rig.stop_gate() == 0
    assert os.path.exists(rig.config["ledger"]["path"])
