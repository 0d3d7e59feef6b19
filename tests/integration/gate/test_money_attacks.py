"""The catalogue of attacks on money states, one test per number. Real gate, facilitator and signatures."""
import base64
import json
import os
import random
import signal
import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from evm import Key, authorization, b64, unb64
from rig import fetch, ok, raw

pytestmark = [pytest.mark.once, pytest.mark.timeout(60)]


def together(n, what):
    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(what, range(n)))


def spellings(header, n):
    """The same authorization in other clothes: key order, padding, case of hex."""
    body = unb64(header["PAYMENT-SIGNATURE"])
    out = []
    for i in range(n):
        rng = random.Random(i)
        a = dict(body["payload"]["authorization"])
        for name in ("from", "nonce"):
            a[name] = "0x" + (a[name][2:].upper() if rng.random() < 0.5 else a[name][2:].lower())
        items = list(a.items())
        rng.shuffle(items)
        copy = {"payload": {"authorization": dict(items), "signature": body["payload"]["signature"]},
                "accepted": body["accepted"], "x402Version": 2, "resource": body["resource"]}
        text = json.dumps(copy, indent=rng.choice([None, 1, 2])).encode()
        value = base64.b64encode(text).decode()
        out.append({"PAYMENT-SIGNATURE": value.rstrip("=") if rng.random() < 0.5 else value})
    return out


def test_a1_concurrent_copies_run_once(cold):
    cold.start_facilitator()
    cold.start_gate(limits={"per_payer": 64, "waiters": 200})
    cold.handler.answer = lambda request: [0.3, ok(b"once")]
    paid = cold.payment()
    copies = [paid] * 32 + spellings(paid, 32)
    answers = together(64, lambda i: fetch(cold.port, "/a", headers=copies[i]))
    assert len(cold.handler.runs) == 1
    stats = cold.stats()
    assert (stats["verify"], stats["settle"], stats["transfers"]) == (1, 1, 1)
    for answer in answers:
        assert answer.status in (200, 409, 503), answer.status
        assert answer.status != 200 or answer.body == b"once"
    assert any(a.status == 200 for a in answers) and not any(a.status == 402 for a in answers)


def test_one_payment_in_all_clothes_at_once(cold):
    """One authorization for many resources, in both versions, with and without identifier and secret, all at the same time:
    whichever is first has it; one run, one transfer, one answer, and nobody is asked to pay again."""
    cold.start_facilitator("--resettle", "idempotent")
    cold.start_gate(limits={"per_payer": 64, "waiters": 64})
    count = iter(range(1000))
    cold.handler.answer = lambda request: [0.2, ok(json.dumps({"run": next(count), "for": request.line}).encode())]
    challenge, old = cold.challenge(), cold.challenge(version=1)
    for turn in range(1, 6):
        payload = authorization(cold.buyer, challenge["accepts"][0])

        def ask(i):
            path = ["/a", "/b", "/a?x=1", "/x/1", "/a"][i % 5]
            header = cold.header(payload, old["accepts"][0], version=1) if i % 3 == 0 else \
                cold.header(payload, challenge["accepts"][0], challenge, 2, "collide-%016d" % (i % 4) if i % 5 == 0 else None)
            if i % 4 == 1:
                header["Utter-Resume"] = "s" * 40 + str(i % 2)
            return fetch(cold.port, path, "POST" if i % 7 == 0 and path.startswith("/a") else "GET", header)
        answers = together(24, ask)
        assert cold.stats()["transfers"] == len(cold.handler.runs) == turn
        assert len({a.body for a in answers if a.status == 200}) == 1
        assert not any(a.status == 402 for a in answers), [a.status for a in answers]


def test_a1_v1_and_v2_of_one_authorization_are_one_payment(rig):
    challenge = rig.challenge()
    payload = authorization(rig.buyer, challenge["accepts"][0])
    v2 = rig.header(payload, challenge["accepts"][0], challenge)
    v1 = rig.header(payload, rig.challenge(version=1)["accepts"][0], version=1)
    first, second = fetch(rig.port, "/a", headers=v2), fetch(rig.port, "/a", headers=v1)
    assert first.status == 200 and second.status == 200 and first.body == second.body
    assert rig.stats()["transfers"] == 1 and len(rig.handler.runs) == 1
    assert second.get("X-PAYMENT-RESPONSE") and not second.get("PAYMENT-RESPONSE")


def test_a2_a_replay_after_success_gets_the_same_answer(cold):
    cold.start_facilitator("--resettle", "idempotent")
    cold.start_gate()
    paid = cold.payment()
    answers = [fetch(cold.port, "/a", headers=paid) for _ in range(7)]
    assert [a.status for a in answers[:5]] == [200] * 5
    assert len({a.body for a in answers[:5]}) == 1
    assert answers[5].status == answers[6].status == 409  # at most five releases
    assert answers[5].json()["error"] == "payment_spent"
    assert cold.stats()["transfers"] == 1 and len(cold.handler.runs) == 1


@pytest.mark.parametrize("first", ["ok", "refuse"])
def test_new_payments_of_one_payer_share_the_first_or_buy_their_own(cold, first):
    """Twelve payments of one payer for one request: those that come while the first settles wait for it. Its answer goes
    out five times; whoever is left over was never tried, and buys its own: none is told that its payment is spent."""
    cold.start_facilitator()
    cold.start_gate(limits={"per_payer": 64, "waiters": 64})
    count = iter(range(1000))
    cold.handler.answer = lambda request: ok(b'{"run":%d}' % next(count))
    payments = [cold.payment() for _ in range(12)]
    cold.script(settle=[{"mode": "delay", "ms": 1200} if first == "ok" else
                        {"mode": "refuse", "ms": 1200, "reason": "invalid_exact_evm_payload_signature"}])
    answers = together(12, lambda i: (time.sleep(0.4 * (i > 0)), fetch(cold.port, "/a", headers=payments[i]))[1])
    bought = [a for a in answers if a.status == 200]
    assert [a.status for a in answers[1:]] == [200] * 11 and answers[0].status == (200 if first == "ok" else 402)
    stats = cold.stats()
    assert len({a.receipt()["transaction"] for a in bought}) == len({a.body for a in bought}) == stats["transfers"]
    for body in {a.body for a in bought}:
        assert sum(a.body == body for a in bought) <= 5
    if first == "ok":
        assert sum(a.body == b'{"run":0}' for a in answers) == 5 and answers[0].body == b'{"run":0}'


def test_a_wallets_second_payment_waits_for_its_first(cold):
    """The payer is proven by verify here, and held to the same."""
    wallet = "0x" + "57" * 20
    cold.start_facilitator("--wallet", wallet)
    cold.start_gate(routes=[{"path": "/a", "price": "0.01", "contract_wallets": True}])
    payments = [cold.payment(key=Key(), **{"from": wallet}) for _ in range(2)]
    cold.script(settle=[{"mode": "delay", "ms": 800}])
    answers = together(2, lambda i: (time.sleep(0.3 * i), fetch(cold.port, "/a", headers=payments[i]))[1])
    assert [a.status for a in answers] == [200, 200] and answers[0].receipt() == answers[1].receipt()
    assert cold.stats()["transfers"] == len(cold.handler.runs) == 1


def test_a3_a_payment_for_one_route_buys_no_other(rig):
    paid = rig.payment("/a")
    assert fetch(rig.port, "/c", headers=paid).status == 402      # another price
    assert fetch(rig.port, "/a", headers=paid).status == 200
    for path in ("/b", "/a?x", "/x/1"):                              # the same price, already spent
        answer = fetch(rig.port, path, headers=paid)
        assert answer.status == 409 and answer.json()["error"] == "payment_used_for_another_request"
    answer = fetch(rig.port, "/a", "POST", paid, b"body")
    assert answer.status == 409
    assert len(rig.handler.runs) == 1 and rig.stats()["transfers"] == 1


def leave(port, request, after=0.0, half=None):
    """Connects, sends, waits, resets."""
    s = socket.create_connection(("127.0.0.1", port))
    s.sendall(request if half is None else request[:half])
    time.sleep(after)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


def as_bytes(paid, path="/a", body=b""):
    return ("%s %s HTTP/1.1\r\nHost: shop.test\r\nPAYMENT-SIGNATURE: %s\r\n%s\r\n" % (
        "POST" if body else "GET", path, paid["PAYMENT-SIGNATURE"],
        "Content-Length: %d\r\n" % len(body) if body else "")).encode() + body


@pytest.mark.parametrize("when", ["head", "body", "verify", "handler", "settle"])
def test_a4_a5_a_client_that_leaves_neither_rides_free_nor_is_robbed(rig, when):
    body = b"b" * 1000
    paid = rig.payment()
    request = as_bytes(paid, body=body)
    if when == "verify":
        rig.script(verify=[{"mode": "delay", "ms": 400}])
    if when == "settle":
        rig.script(settle=[{"mode": "delay", "ms": 400}])
    rig.handler.answer = lambda r: [0.4 if when == "handler" else 0.0, ok(b"bought")]
    half = {"head": 60, "body": len(request) - 500}.get(when)
    leave(rig.port, request, 0.2, half)
    time.sleep(1.0)
    stats = rig.stats()
    if when in ("head", "body", "verify"):     # nothing ran: nothing is charged, the payment is whole
        assert stats["settle"] == 0 and len(rig.handler.runs) == 0
    else:                                      # the work was done: it is charged, and kept for the buyer
        assert stats["transfers"] == 1 and len(rig.handler.runs) == 1
    answer = fetch(rig.port, "/a", "POST", paid, body)
    assert (answer.status, answer.body) == (200, b"bought")
    assert rig.stats()["transfers"] == 1 and rig.stats()["settle"] == 1 and len(rig.handler.runs) == 1


def test_a6_not_a_byte_before_settlement(rig):
    rig.script(settle=[{"mode": "delay", "ms": 1500}])
    rig.handler.answer = lambda r: [b"HTTP/1.1 103 Early Hints\r\nLink: </s>\r\n\r\n",
                                    ok(b"secret", extra="ETag: \"leak\"\r\n")]
    with socket.create_connection(("127.0.0.1", rig.port)) as s:
        s.sendall(as_bytes(rig.payment()))
        s.settimeout(1.0)
        with pytest.raises(socket.timeout):
            s.recv(1)
        s.settimeout(5)
        assert s.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_a6_a_refused_settlement_shows_nothing_of_the_answer(rig):
    rig.script(settle=[{"mode": "refuse", "reason": "insufficient_funds"}])
    rig.handler.answer = lambda r: ok(b"secret" * 100, extra="ETag: \"leak\"\r\nX-Secret: 1\r\n")
    answer = rig.buy()
    assert answer.status == 402
    assert answer.receipt()["success"] is False and answer.receipt()["transaction"] == ""
    assert answer.get("ETag") is None and answer.get("X-Secret") is None and b"secret" not in answer.body
    assert answer.get("PAYMENT-REQUIRED")


@pytest.mark.parametrize("resettle", ["official", "pending-store", "idempotent"])
@pytest.mark.parametrize("mode", ["reset", "500-after", "hang", "cut", "html", "empty"])
def test_a7_a_settlement_whose_answer_is_lost_is_never_a_402(cold, mode, resettle):
    cold.start_facilitator("--resettle", resettle)
    cold.start_gate(deadlines={"settle_ms": 700, "settle_hold_ms": 4000})
    paid = cold.payment()
    cold.script(settle=[{"mode": mode}])
    answer = fetch(cold.port, "/a", headers=paid)
    assert answer.status in (200, 503), (answer.status, answer.body)
    if answer.status == 503:
        assert answer.get("Retry-After") and answer.json()["error"] == "settlement_unresolved"
        assert answer.json()["retry"] == "same-payment"
    retry = fetch(cold.port, "/a", headers=paid)
    assert retry.status in (200, 409, 503)
    if resettle != "official":
        assert retry.status == 200 and retry.body == b'{"answer":42}'
    assert cold.stats()["transfers"] == 1 and len(cold.handler.runs) == 1


def test_a7_killed_while_settling_then_delivered_once(cold):
    cold.start_facilitator("--resettle", "idempotent")
    cold.start_gate()
    paid = cold.payment()
    cold.script(settle=[{"mode": "hang"}])
    t = threading.Thread(target=lambda: raw(cold.port, as_bytes(paid), timeout=5))
    t.start()
    time.sleep(0.6)
    assert cold.stats()["settle"] == 1
    cold.stop_gate(signal.SIGKILL)
    t.join()
    cold.start_gate()
    for _ in range(20):
        answer = fetch(cold.port, "/a", headers=paid)
        if answer.status == 200:
            break
        assert answer.status == 503
        time.sleep(0.3)
    assert answer.body == b'{"answer":42}'
    assert cold.stats()["transfers"] == 1 and len(cold.handler.runs) == 1


@pytest.mark.parametrize("mode", ["pending", "pending-500"])
def test_a8_pending_is_asked_again_at_once(cold, mode):
    cold.start_facilitator("--resettle", "pending-store")
    cold.start_gate()
    cold.script(settle=[{"mode": mode}])
    answer = cold.buy()
    assert answer.status == 200
    assert cold.stats()["settle"] == 2 and cold.stats()["transfers"] == 1


def test_a8_pending_for_ever_is_unresolved(cold):
    cold.start_facilitator()
    cold.start_gate(deadlines={"settle_hold_ms": 1500})
    cold.script(settle={"mode": "pending"})
    answer = cold.buy()
    assert answer.status == 503 and answer.get("Retry-After")
    assert cold.metric("utter_gate_ledger_unresolved") == 1


@pytest.mark.parametrize("mode", ["no-tx", "wrong-network", "wrong-payer", "zero-payer", "truthy", "no-network", "wrong-amount"])
def test_a9_a_lying_success_is_neither_settled_nor_failed(cold, mode):
    cold.start_facilitator()
    cold.start_gate(deadlines={"settle_hold_ms": 800})
    cold.script(settle={"mode": mode})
    answer = cold.buy()
    assert answer.status == 503 and answer.receipt() is None, (answer.status, answer.body)
    assert cold.metric("utter_gate_ledger_unresolved") == 1


@pytest.mark.parametrize("mode", ["500", "401", "403", "429", "reset", "hang", "html", "empty", "truthy"])
def test_a10_b18_a_facilitator_down_at_verify_runs_nothing(cold, mode):
    cold.start_facilitator()
    cold.start_gate(deadlines={"verify_ms": 500})
    paid = cold.payment()
    cold.script(verify={"mode": mode})
    answer = fetch(cold.port, "/a", headers=paid)
    assert answer.status == 503 and answer.get("Retry-After"), (mode, answer.status, answer.body)
    assert answer.json()["error"] == "facilitator_unavailable"
    assert cold.handler.runs == [] and cold.stats()["settle"] == 0
    if mode in ("401", "403"):
        assert fetch(cold.admin_port, "/readyz").status == 503


def test_a10_the_breaker_opens_and_readiness_follows(cold):
    cold.start_facilitator()
    cold.start_gate()
    cold.script(verify={"mode": "500"})
    for _ in range(8):
        assert cold.buy().status == 503
    assert fetch(cold.admin_port, "/readyz").status == 503
    assert cold.stats()["verify"] < 8 and cold.handler.runs == []


def test_a11_verified_but_unsettleable_is_bounded(cold):
    cold.start_facilitator()
    cold.start_gate()
    cold.script(settle={"mode": "refuse", "reason": "insufficient_funds"})
    statuses = [cold.buy().status for _ in range(30)]
    assert 429 in statuses and set(statuses) <= {402, 429}
    assert len(cold.handler.runs) <= 20


def test_a12_a_payment_that_expires_too_soon_is_refused_before_the_handler(rig):
    answer = rig.buy(validBefore=str(int(time.time()) + 7))
    assert answer.status == 402
    assert rig.handler.runs == [] and rig.stats()["verify"] == 0
    assert rig.buy(validBefore=str(int(time.time()) + 86400 * 30)).status == 402  # and not in a month


MUTANTS = {
    "amount": [("value", v) for v in ("9999", "10001", "010000", "+10000", "0x2710", "1e4", "-10000", "10000 ", "1" * 79, "")],
    "recipient": [("to", v) for v in ("0x" + "11" * 20, "0x209693Bc6afc0C5328bA36FaF03C514EF31228", "")],
}


@pytest.mark.parametrize("member,value", [m for group in MUTANTS.values() for m in group])
def test_a13_signed_members_are_held_to_the_terms(rig, member, value):
    requirements = rig.challenge()["accepts"][0]
    payload = authorization(rig.buyer, requirements)
    try:
        payload = authorization(rig.buyer, requirements, **{member: value})
    except (ValueError, OverflowError):
        payload["authorization"][member] = value
    answer = fetch(rig.port, "/a", headers=rig.header(payload, requirements, rig.challenge()))
    assert answer.status in (400, 402), (member, value, answer.status)
    assert rig.stats()["verify"] == 0 and rig.handler.runs == []


@pytest.mark.parametrize("change", [
    {"network": "EIP155:84532"}, {"network": "eip155:8453"}, {"amount": "1"}, {"amount": 10000},
    {"payTo": "0x" + "22" * 20}, {"asset": "0x" + "33" * 20}, {"scheme": "upto"}, {"scheme": "Exact"},
    {"maxTimeoutSeconds": 999999}])
def test_a13_accepted_is_held_to_the_terms(rig, change):
    challenge = rig.challenge()
    requirements = challenge["accepts"][0]
    payload = authorization(rig.buyer, requirements)
    answer = fetch(rig.port, "/a", headers=rig.header(payload, {**requirements, **change}, challenge))
    assert answer.status in (400, 402), answer.status
    assert rig.stats()["verify"] == 0 and rig.handler.runs == []


def test_a13_a_signature_of_another_key_is_refused_here(rig):
    challenge = rig.challenge()
    requirements = challenge["accepts"][0]
    payload = authorization(rig.buyer, requirements, **{"from": Key().address})
    assert fetch(rig.port, "/a", headers=rig.header(payload, requirements, challenge)).status == 402
    payload = authorization(rig.buyer, requirements, high_s=True)
    assert fetch(rig.port, "/a", headers=rig.header(payload, requirements, challenge)).status == 402
    assert rig.stats()["verify"] == 0


def test_a14_versions_are_not_mixed(rig):
    v2 = rig.payment()["PAYMENT-SIGNATURE"]
    v1 = rig.payment(version=1)["X-PAYMENT"]
    cases = [{"X-PAYMENT": v2}, {"PAYMENT-SIGNATURE": v1}, {"X-PAYMENT": v1, "PAYMENT-SIGNATURE": v2}]
    body = unb64(v2)
    for version in (0, 1, 3, "2", None):
        cases.append({"PAYMENT-SIGNATURE": b64({**body, "x402Version": version})})
    slug = {**body, "accepted": {**body["accepted"], "network": "base-sepolia"}}
    for case in cases:
        answer = fetch(rig.port, "/a", headers=case)
        assert answer.status == 400, (case, answer.status)
        assert answer.get("PAYMENT-REQUIRED")
    assert fetch(rig.port, "/a", headers={"PAYMENT-SIGNATURE": b64(slug)}).status in (400, 402)
    assert rig.stats()["verify"] == 0 and rig.handler.runs == []


def reload_price(rig, price):
    rig.config["routes"][0]["price"] = price
    rig.write_config(rig.config)
    before = rig.readyz()["config_sha256"]
    rig.gate.send_signal(signal.SIGHUP)
    rig._until(lambda: rig.readyz()["config_sha256"] != before, "reload")


def test_a15_old_terms_stay_valid_for_their_time(rig):
    old = rig.payment()
    spare = rig.payment()
    reload_price(rig, "0.05")
    assert rig.challenge()["accepts"][0]["amount"] == "50000"
    assert fetch(rig.port, "/a", headers=old).status == 200
    assert fetch(rig.port, "/a", headers=old).status == 200     # a retry after the reload: the same answer
    assert fetch(rig.port, "/a", headers=spare).status == 200
    assert rig.buy().status == 200
    assert rig.stats()["transfers"] == 3


def test_a15_a_reload_during_a_paid_request_keeps_its_terms(rig):
    rig.handler.answer = lambda r: [0.8, ok(b"slow")]
    paid = rig.payment()
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(fetch, rig.port, "/a", "GET", paid)
        time.sleep(0.3)
        reload_price(rig, "0.05")
        assert pending.result().status == 200
    assert rig.book()["transfers"][0]["value"] in ("10000", 10000)


def test_a15_a_bad_configuration_changes_nothing(rig):
    before = rig.readyz()["config_sha256"]
    rig.config["routes"][0]["price"] = "free"
    rig.write_config(rig.config)
    rig.gate.send_signal(signal.SIGHUP)
    rig._until(lambda: "reload_refused" in rig.log(), "refusal")
    assert rig.readyz()["config_sha256"] == before and rig.buy().status == 200


def test_a16_the_handler_does_not_set_the_charge(rig):
    rig.handler.answer = lambda r: ok(b"x", extra='Settlement-Overrides: {"amount":"0"}\r\n')
    answer = rig.buy()
    assert answer.status == 200 and answer.get("Settlement-Overrides") is None
    assert rig.book()["transfers"][0]["value"] in ("10000", 10000)


A17 = [
    ("200 OK", b"x", 200, 1), ("201 Created", b"x", 201, 1), ("203 N", b"x", 203, 1), ("200 OK", b"", 502, 0),
    ("202 Accepted", b"x", 202, 0), ("204 No Content", None, 204, 0), ("205 R", b"", 205, 0),
    ("206 Partial", b"x", 206, 0), ("304 Not Modified", None, 304, 0), ("299 X", b"x", 299, 0),
    ("301 Moved", b"x", 301, 0), ("302 Found", b"x", 302, 0), ("402 Pay Me", b"x", 502, 0),
    ("400 Bad", b"x", 400, 0), ("404 Not Found", b"x", 404, 0), ("429 Slow", b"x", 429, 0),
    ("500 Oops", b"x", 502, 0), ("503 Busy", b"x", 502, 0), ("101 Switching Protocols", None, 502, 0),
]


def test_a17_what_is_charged_and_what_is_not(rig):
    transfers = 0
    for status, body, want, charged in A17:
        rig.handler.answer = lambda r: ok(body, status) if body is not None else (
            "HTTP/1.1 %s\r\n\r\n" % status).encode()
        answer = rig.buy(key=Key(), headers={"If-None-Match": "*", "Range": "bytes=0-0"})
        transfers += charged
        assert answer.status == want, (status, answer.status, answer.body)
        assert rig.stats()["transfers"] == transfers, status
        assert (answer.receipt() is not None) == bool(charged), status
        assert rig.handler.runs[-1].get("If-None-Match") is None and rig.handler.runs[-1].get("Range") is None


def test_a18_a_killed_gate_releases_what_never_ran_to_an_end(rig):
    rig.handler.answer = lambda r: [30.0, ok(b"never")]
    paid = rig.payment()
    t = threading.Thread(target=lambda: raw(rig.port, as_bytes(paid), timeout=3))
    t.start()
    time.sleep(0.5)
    rig.stop_gate(signal.SIGKILL)
    t.join()
    rig.handler.answer = lambda r: ok(b"now")
    rig.start_gate()
    answer = fetch(rig.port, "/a", headers=paid)
    assert (answer.status, answer.body) == (200, b"now")
    assert rig.stats()["transfers"] == 1 and rig.handler.runs[-1].get("Utter-Attempt") == "2"


def test_a18_two_gates_on_one_ledger(rig):
    config = {**rig.config, "listen": "127.0.0.1:0", "admin": "127.0.0.1:0"}
    path = rig.write_config(config, "second.json")
    second = rig._start([rig.bin + "/utter-gate", "serve", path], "second.log")
    assert second.wait(10) == 1 and "another" in rig.log("second.log").lower() + "another process"
    assert rig.buy().status == 200


def test_a19_garbage_does_not_grow_the_ledger(rig):
    size = os.path.getsize(rig.config["ledger"]["path"])
    challenge = rig.challenge()
    requirements = challenge["accepts"][0]
    good = authorization(rig.buyer, requirements)
    for i in range(300):
        payload = json.loads(json.dumps(good))
        payload["authorization"]["nonce"] = "0x" + os.urandom(32).hex()
        assert fetch(rig.port, "/a", headers=rig.header(payload, requirements, challenge)).status == 402
    assert os.path.getsize(rig.config["ledger"]["path"]) == size and rig.stats()["verify"] == 0


def test_a20_an_identifier_is_no_credential(rig):
    name = "order-0123456789-abcdef"
    first = rig.buy(identifier=name)
    assert first.status == 200
    thief = Key()
    stolen = rig.buy(key=thief, identifier=name)       # B pays itself: a sale of its own, not A's answer
    assert stolen.status in (200, 409)
    assert len(rig.handler.runs) == (2 if stolen.status == 200 else 1)
    again = rig.buy(identifier=name)                    # A signs again with its identifier: the first answer
    assert again.status == 200 and again.receipt()["transaction"] == first.receipt()["transaction"]
    other = rig.buy("/b", identifier=name)
    assert other.status == 409
    assert fetch(rig.port, "/a", headers={"payment-identifier": name}).status == 402


def test_resume_secret_guards_a_public_payment(rig):
    paid = rig.payment()
    secret = {"Utter-Resume": "s" * 32}
    first = fetch(rig.port, "/a", headers={**paid, **secret})
    assert first.status == 200
    for wrong in ({}, {"Utter-Resume": "t" * 32}):
        answer = fetch(rig.port, "/a", headers={**paid, **wrong})
        assert answer.status == 403 and first.body not in answer.body
    assert fetch(rig.port, "/a", headers={**paid, **secret}).body == first.body
    assert "s" * 32 not in rig.log()


def test_a_retry_meets_no_fresh_402_with_breaker_open_and_at_full_concurrency(cold):
    cold.start_facilitator("--resettle", "idempotent")
    cold.start_gate(limits={"concurrent": 1})
    paid = cold.payment()
    assert fetch(cold.port, "/a", headers=paid).status == 200
    cold.script(verify={"mode": "500"})
    for _ in range(6):
        assert cold.buy().status == 503
    assert fetch(cold.port, "/a", headers=paid).status == 200
    cold.script(verify={"mode": "ok"})
    assert cold.stats()["transfers"] == 1


def test_the_buyers_clock_may_differ(rig):
    now = int(time.time())
    for skew in (-30, 30):
        answer = rig.buy(validAfter=str(max(0, now - 600 + skew)), validBefore=str(now + 120 + skew))
        assert answer.status == 200, skew
