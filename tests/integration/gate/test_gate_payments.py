"""Attacks on the money by what a buyer, a facilitator or a reload can send. Named after the attack class."""
import base64
import copy
import json
import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from evm import Key, authorization, b64, unb64
from rig import PAY_TO, fetch, ok

pytestmark = [pytest.mark.once, pytest.mark.timeout(90)]

ASSET = "0x036CbD53842c5426634e7929541eC2318f3dCF7e"


def shuffled(value):
    """The same JSON with keys the other way round."""
    if isinstance(value, dict):
        return {k: shuffled(value[k]) for k in reversed(list(value))}
    return value


def respell(payment, i):
    """One of many texts of the same v2 payment."""
    p = copy.deepcopy(payment)
    a = p["payload"]["authorization"]
    if i & 1:
        p = shuffled(p)
        a = p["payload"]["authorization"]
    if i & 2:
        a["from"] = "0x" + a["from"][2:].upper()
    if i & 4:
        a["nonce"] = "0x" + a["nonce"][2:].upper()
        p["accepted"]["asset"] = p["accepted"]["asset"].lower()
    if i & 8:
        a["junk%d" % i] = i
        p["payload"]["junk"] = "x" * (i % 7)
    text = json.dumps(p, indent=i % 5 or None)
    value = base64.b64encode(text.encode()).decode()
    return {"PAYMENT-SIGNATURE": value.rstrip("=") if i & 16 else value}


def as_v1(payment):
    return {"X-PAYMENT": b64({"x402Version": 1, "scheme": "exact", "network": "base-sepolia",
                              "payload": payment["payload"]})}


def expect_one_sale(rig, answers):
    good = [a for a in answers if a.status == 200]
    assert good, [a.status for a in answers]
    assert all(a.body == b'{"answer":42}' for a in good)
    assert {a.status for a in answers} <= {200, 409, 503}, sorted(a.status for a in answers)
    assert len(rig.handler.runs) == 1
    stats = rig.stats()
    assert (stats["verify"], stats["settle"], stats["transfers"]) == (1, 1, 1)


def test_a1_parallel_copies_are_one_payment(rig):
    rig.handler.answer = lambda request: [0.3, ok(b'{"answer":42}')]
    header = rig.payment()
    with ThreadPoolExecutor(64) as pool:
        answers = list(pool.map(lambda _: fetch(rig.port, "/a", headers=header), range(64)))
    expect_one_sale(rig, answers)


def test_a1_parallel_reencodings_are_one_payment(rig):
    rig.handler.answer = lambda request: [0.3, ok(b'{"answer":42}')]
    payment = unb64(rig.payment()["PAYMENT-SIGNATURE"])
    headers = [respell(payment, i) for i in range(48)] + [as_v1(payment)] * 16
    with ThreadPoolExecutor(64) as pool:
        answers = list(pool.map(lambda h: fetch(rig.port, "/a", headers=h), headers))
    expect_one_sale(rig, answers)


def test_a2_sequential_replay_is_answered_from_the_ledger(rig):
    header = rig.payment()
    answers = [fetch(rig.port, "/a", headers=header) for _ in range(5)]
    assert [a.status for a in answers] == [200] * 5
    assert len({(a.body, a.get("PAYMENT-RESPONSE")) for a in answers}) == 1
    late = fetch(rig.port, "/a", headers=header)  # the releases are used up
    assert late.status != 200 and b"answer" not in late.body
    assert rig.stats()["settle"] == 1 and len(rig.handler.runs) == 1


def test_a2_replay_after_restart(rig):
    header = rig.payment()
    first = fetch(rig.port, "/a", headers=header)
    rig.stop_gate(signal.SIGKILL)
    rig.start_gate()
    again = fetch(rig.port, "/a", headers=header)
    assert (again.status, again.body) == (200, first.body)
    assert rig.stats()["settle"] == 1 and len(rig.handler.runs) == 1


@pytest.mark.parametrize("path", ["/b", "/c", "/x/1", "/a?q=1"])
def test_a3_a_payment_buys_one_resource(rig, path):
    header = rig.payment("/a")
    assert fetch(rig.port, "/a", headers=header).status == 200
    other = fetch(rig.port, path, headers=header)
    assert other.status in (402, 409) and b"answer" not in other.body
    assert len(rig.handler.runs) == 1 and rig.stats()["transfers"] == 1


def test_a3_other_method_and_body_are_other_resources(rig):
    header = rig.payment("/a")
    assert fetch(rig.port, "/a", "POST", header, b"one").status == 200
    assert fetch(rig.port, "/a", "POST", header, b"two").status in (402, 409)
    assert fetch(rig.port, "/a", "GET", header).status in (402, 409)
    assert fetch(rig.port, "/a", "POST", header, b"one").status == 200
    assert len(rig.handler.runs) == 1


def test_a5_the_answer_waits_for_a_buyer_who_left(rig):
    rig.handler.answer = lambda request: [0.5, ok(b'{"answer":42}')]
    header = rig.payment()
    with socket.create_connection(("127.0.0.1", rig.port)) as s:
        s.sendall(("GET /a HTTP/1.1\r\nHost: shop.test\r\nPAYMENT-SIGNATURE: %s\r\n\r\n"
                   % header["PAYMENT-SIGNATURE"]).encode())
        time.sleep(0.25)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # RST
    rig._until(lambda: rig.stats()["settle"] == 1, "settlement")
    again = fetch(rig.port, "/a", headers=header)
    assert (again.status, again.body) == (200, b'{"answer":42}')
    assert rig.stats()["transfers"] == 1 and len(rig.handler.runs) == 1


def test_a6_nothing_is_released_before_settlement(rig):
    rig.script(settle=[{"mode": "delay", "ms": 1500}])
    header = rig.payment()
    with socket.create_connection(("127.0.0.1", rig.port)) as s:
        s.sendall(("GET /a HTTP/1.1\r\nHost: shop.test\r\nPAYMENT-SIGNATURE: %s\r\n\r\n"
                   % header["PAYMENT-SIGNATURE"]).encode())
        s.settimeout(1.0)
        with pytest.raises(socket.timeout):
            s.recv(1)
        s.settimeout(10)
        assert s.recv(4096).startswith(b"HTTP/1.1 200 ")


def test_a6_a_refused_settlement_shows_nothing_of_the_answer(rig):
    rig.handler.answer = lambda request: ok(b"secret words", extra="ETag: \"tag\"\r\nX-Own: y\r\n")
    rig.script(settle={"mode": "refuse", "reason": "insufficient_funds"})
    answer = rig.buy()
    assert answer.status == 402 and b"secret" not in answer.body
    assert answer.get("ETag") is None and answer.get("X-Own") is None
    assert answer.receipt()["success"] is False
    assert answer.receipt()["errorReason"] == "insufficient_funds"


@pytest.mark.parametrize("mode", ["truthy", "empty", "no-tx", "no-network", "wrong-network",
                                  "zero-payer", "wrong-payer", "html"])
def test_a9_a_lying_success_is_neither_paid_nor_refused(cold, mode):
    """The first reply lies, the second tells the truth: the buyer gets the answer, once."""
    cold.start_facilitator("--resettle", "idempotent")
    cold.start_gate()
    cold.script(settle=[{"mode": mode}])
    header = cold.payment()
    answer = fetch(cold.port, "/a", headers=header)
    if answer.status == 503:
        assert answer.get("Retry-After") and b"answer" not in answer.body
        cold._until(lambda: fetch(cold.port, "/a", headers=header).status == 200, "truth", 20)
    else:
        assert answer.status == 200 and answer.receipt()["transaction"].startswith("0x")
    assert cold.stats()["transfers"] == 1 and cold.stats()["settle"] >= 2
    assert len(cold.handler.runs) == 1


@pytest.mark.parametrize("mode", ["500", "401", "403", "429", "reset", "hang", "html", "empty",
                                  "truthy", "redirect", "huge", "cut"])
def test_a10_a_facilitator_that_fails_to_verify_is_not_the_buyers_fault(cold, mode):
    cold.start_facilitator()
    cold.start_gate(deadlines={"verify_ms": 700})
    header = cold.payment()
    cold.script(verify={"mode": mode})
    answer = fetch(cold.port, "/a", headers=header)
    assert answer.status == 503 and answer.get("Retry-After")
    assert b"scripted" not in answer.body and b"simulated" not in answer.body  # B18
    assert cold.handler.runs == [] and cold.stats()["transfers"] == 0
    cold.script(verify={"mode": "ok"})
    cold._until(lambda: fetch(cold.port, "/a", headers=header).status == 200, "breaker", 40)
    assert len(cold.handler.runs) == 1 and cold.stats()["transfers"] == 1


def change(payment, pointer, value):
    p = copy.deepcopy(payment)
    at = p
    *path, last = pointer.split("/")
    for key in path:
        at = at[key]
    at[last] = value
    return p


@pytest.mark.parametrize("pointer,value,status", [
    ("accepted/amount", "9999", 402), ("accepted/amount", 10000, 402),
    ("accepted/amount", "010000", 402), ("accepted/amount", "+10000", 402),
    ("accepted/network", "EIP155:84532", 402), ("accepted/network", "eip155:8453", 402),
    ("accepted/payTo", "0x" + "11" * 20, 402), ("accepted/asset", "0x" + "11" * 20, 402),
    ("accepted/scheme", "EXACT", 402), ("accepted/maxTimeoutSeconds", "95", 402),
    ("accepted/extra", {}, 402), ("accepted/foreign", 1, 402),
    ("payload/authorization/value", "9999", 402), ("payload/authorization/value", 10000, 400),
    ("payload/authorization/value", "0x2710", 400), ("payload/authorization/value", "-1", 400),
    ("payload/authorization/to", "0x" + "11" * 20, 402),
    ("payload/authorization/from", "0x" + "11" * 20, 402),
    ("payload/authorization/nonce", "0x" + "11" * 32, 402),
    ("payload/authorization/nonce", "0x11", 400),
    ("payload/authorization/validBefore", "1", 402),
    ("payload/authorization/validBefore", "9" * 40, 402),
    ("payload/authorization/validBefore", "9" * 90, 400),
    ("payload/signature", "0x" + "00" * 65, 402), ("payload/signature", "0x", 400),
    ("x402Version", 3, 400), ("x402Version", "2", 400), ("payload", None, 400),
])
def test_a13_mutants_end_before_the_facilitator(rig, pointer, value, status):
    payment = unb64(rig.payment()["PAYMENT-SIGNATURE"])
    answer = fetch(rig.port, "/a",
                   headers={"PAYMENT-SIGNATURE": b64(change(payment, pointer, value))})
    assert answer.status == status
    assert answer.get("PAYMENT-REQUIRED") and answer.get("Cache-Control") == "no-store"
    assert rig.stats()["verify"] == 0 and rig.handler.runs == []
    # and the payment itself is still good
    assert fetch(rig.port, "/a", headers={"PAYMENT-SIGNATURE": b64(payment)}).status == 200


@pytest.mark.parametrize("change,status", [
    ({"value": "10001"}, 402), ({"to": "0x" + "11" * 20}, 402), ({"validAfter": "99999999999"}, 402),
    ({"validBefore": "1"}, 402), ({"high_s": True}, 402)])
def test_a13_well_signed_mutants_end_before_the_facilitator(rig, change, status):
    assert rig.buy(**change).status == status
    assert rig.buy(version=1, **change).status == status
    assert rig.stats()["verify"] == 0 and rig.handler.runs == []


def test_a14_header_and_version_have_to_agree(rig):
    v2 = unb64(rig.payment()["PAYMENT-SIGNATURE"])
    v1 = unb64(as_v1(v2)["X-PAYMENT"])
    cases = [{"X-PAYMENT": b64(v2)}, {"PAYMENT-SIGNATURE": b64(v1)},
             {"PAYMENT-SIGNATURE": b64(v2), "X-PAYMENT": b64(v1)},
             [("PAYMENT-SIGNATURE", b64(v2)), ("PAYMENT-SIGNATURE", b64(v2))],
             [("payment-signature", b64(v2)), ("Payment-Signature", b64(v2))],
             {"PAYMENT-SIGNATURE": "%s,%s" % (b64(v2), b64(v2))},
             {"PAYMENT-SIGNATURE": '"%s"' % b64(v2)}, {"PAYMENT-SIGNATURE": ""},
             {"PAYMENT-SIGNATURE": "A" * 16388}]
    for headers in cases:
        assert fetch(rig.port, "/a", headers=headers).status == 400, headers
    assert rig.stats()["verify"] == 0 and rig.handler.runs == []


def reload_gate(rig, **change):
    import hashlib
    rig.make_config(**change)
    path = rig.write_config(rig.config)
    with open(path, "rb") as f:
        want = hashlib.sha256(f.read()).hexdigest()
    rig.gate.send_signal(signal.SIGHUP)
    rig._until(lambda: want in json.dumps(rig.readyz()), "reload")


def test_a15_old_terms_stay_valid_after_a_reload(rig):
    header, unused = rig.payment(), rig.payment()
    reload_gate(rig, routes=[{"path": "/a", "price": "0.05", "description": "dearer"}])
    assert rig.challenge()["accepts"][0]["amount"] == "50000"
    answer = fetch(rig.port, "/a", headers=header)
    assert answer.status == 200
    assert fetch(rig.port, "/a", headers=header).status == 200  # the same sale
    assert fetch(rig.port, "/a", headers=unused).status == 200
    assert [t["value"] for t in rig.book()["transfers"]] == ["10000", "10000"]
    assert rig.buy().status == 200
    assert rig.book()["transfers"][2]["value"] == "50000"


def test_a15_a_reload_under_a_running_call(rig):
    rig.handler.answer = lambda request: [1.0, ok(b'{"answer":42}')]
    header = rig.payment()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(fetch, rig.port, "/a", headers=header)
        time.sleep(0.4)
        reload_gate(rig, routes=[{"path": "/other", "price": "0.05", "description": "o"}])
        assert running.result().status == 200
    assert rig.book()["transfers"][0]["value"] == "10000"


def test_a15_a_broken_file_changes_nothing(rig):
    before = rig.readyz()
    rig.write_config({"origin": "nonsense"})
    rig.gate.send_signal(signal.SIGHUP)
    time.sleep(0.5)
    assert rig.readyz()["config_sha256"] == before["config_sha256"]
    assert rig.buy().status == 200


@pytest.mark.parametrize("amount", ["0", "1", "50%", "$0.05", "99999999"])
def test_a16_the_handler_does_not_set_the_charge_of_exact(rig, amount):
    override = json.dumps({"amount": amount})
    rig.handler.answer = lambda request: ok(b"x", extra="Settlement-Overrides: %s\r\n" % override)
    answer = rig.buy()
    assert answer.status == 200 and answer.get("Settlement-Overrides") is None
    assert rig.book()["transfers"][0]["value"] == "10000"


def test_a20_an_identifier_is_no_credential(rig):
    mine, theirs = Key(), Key()
    identifier = "order_0123456789abcdef"
    first = rig.buy(key=mine, identifier=identifier)
    assert first.status == 200
    other = rig.buy(key=theirs, identifier=identifier)
    assert other.status == 409 or (other.status == 200 and len(rig.handler.runs) == 2)
    unpaid = fetch(rig.port, "/a", headers={"PAYMENT-IDENTIFIER": identifier})
    assert unpaid.status == 402 and b"answer" not in unpaid.body


def test_a20_a_new_payment_of_the_same_payer_gets_the_first_answer(rig):
    key, identifier = Key(), "order_0123456789abcdef"
    first = rig.buy(key=key, identifier=identifier)
    again = rig.buy(key=key, identifier=identifier)
    assert (first.status, again.status, again.body) == (200, 200, first.body)
    assert again.get("PAYMENT-RESPONSE") == first.get("PAYMENT-RESPONSE")
    assert rig.stats()["transfers"] == 1 and len(rig.handler.runs) == 1
    other = rig.buy("/b", key=key, identifier=identifier)  # same identifier, other content
    assert other.status == 409
    assert rig.stats()["transfers"] == 1


def test_identifier_required(cold):
    cold.start_facilitator()
    cold.start_gate(routes=[{"path": "/a", "price": "0.01", "payment_identifier": "required"}])
    assert cold.buy().status == 400
    assert cold.buy(identifier="short").status == 400
    assert cold.stats()["verify"] == 0
    answer = cold.buy(identifier="order_0123456789abcdef")
    assert answer.status == 402  # the echo has to carry required: true, as declared
    assert unb64(answer.get("PAYMENT-REQUIRED"))["error"] == "extension_echo_mismatch"
    challenge = cold.challenge()
    payload = authorization(cold.buyer, challenge["accepts"][0])
    body = {"x402Version": 2, "accepted": challenge["accepts"][0], "payload": payload, "extensions": {
        "payment-identifier": {"info": {"required": True, "id": "order_0123456789abcdef"}}}}
    assert fetch(cold.port, "/a", headers={"PAYMENT-SIGNATURE": b64(body)}).status == 200


def test_replay_needs_the_resume_secret(rig):
    """A settled payment is public: who rebuilds its header gets nothing where a secret was given."""
    header = rig.payment()
    secret = {"Utter-Resume": os.urandom(32).hex()}
    assert fetch(rig.port, "/a", headers={**header, **secret}).status == 200
    rebuilt = b64(json.loads(fetch(rig.facilitator_port, "/book?bodies=1").json()["transfers"][0]
                             ["body"])["paymentPayload"])
    for headers in ({"PAYMENT-SIGNATURE": rebuilt}, as_v1(unb64(rebuilt)),
                    {"PAYMENT-SIGNATURE": rebuilt, "Utter-Resume": "0" * 64}):
        stolen = fetch(rig.port, "/a", headers=headers)
        assert stolen.status != 200 and b"answer" not in stolen.body
    assert fetch(rig.port, "/a", headers={**header, **secret}).status == 200


def test_contract_wallets(cold):
    """65 bytes that recover to another address: refused here, or passed on where the route says so."""
    wallet = "0x" + "57" * 20
    cold.start_facilitator("--wallet", wallet)
    cold.start_gate(routes=[{"path": "/a", "price": "0.01"},
                            {"path": "/w", "price": "0.01", "contract_wallets": True}])
    signer = Key()
    assert cold.buy("/a", key=signer, **{"from": wallet}).status == 402
    assert cold.stats()["verify"] == 0
    assert cold.buy("/w", key=signer, **{"from": wallet}).status == 200
    challenge = cold.challenge("/a")
    payload = authorization(signer, challenge["accepts"][0], **{"from": wallet})
    payload["signature"] = "0x" + "ab" * 97  # another length is always the facilitator's
    header = cold.header(payload, challenge["accepts"][0], challenge)
    assert fetch(cold.port, "/a", headers=header).status == 200
    assert len(cold.book()["transfers"]) == 2


def test_b18_a_facilitators_reason_is_filtered(rig):
    rig.script(verify=[{"mode": "refuse", "reason": "bad\r\nSet-Cookie: x=1"},
                       {"mode": "refuse", "reason": "token=hunter2 leaked"},
                       {"mode": "refuse", "reason": "invalid_payload"}])
    for word in ("payment_invalid", "payment_invalid", "invalid_payload"):
        answer = rig.buy()
        assert answer.status == 402 and answer.get("Set-Cookie") is None
        assert unb64(answer.get("PAYMENT-REQUIRED"))["error"] == word
        assert b"hunter2" not in answer.body
    assert rig.handler.runs == []
