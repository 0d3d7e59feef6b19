"""utter-facilitator as it runs: real checks, a durable book, and misbehaviour on demand."""
import copy
import http.client
import json
import os
import signal
import socket
import subprocess

import pytest

import market

pytestmark = pytest.mark.once


@pytest.fixture
def bin_dir(request):
    return os.path.join(os.path.abspath(request.config.getoption("--build")), "bin")


@pytest.fixture
def facilitator(bin_dir, tmp_path):
    f = market.Facilitator(bin_dir, str(tmp_path))
    yield f
    f.stop()


@pytest.fixture
def buyer(bin_dir, tmp_path):
    return market.Buyer(bin_dir, str(tmp_path / "home"))


@pytest.mark.parametrize("version", [1, 2])
def test_verify_and_settle_move_once(facilitator, buyer, version):
    terms, payment = market.requirements(version), buyer.sign(version)
    status, answer = facilitator.call("verify", payment, terms)
    assert (status, answer["isValid"], answer["payer"]) == (200, True, buyer.address)
    assert facilitator.transfers() == []
    status, answer = facilitator.call("settle", payment, terms)
    assert (status, answer["success"], answer["network"]) == (200, True, terms["network"])
    [transfer] = facilitator.transfers(bodies=True)
    assert transfer["tx"] == answer["transaction"] and transfer["value"] == "10000"
    assert json.loads(transfer["body"])["paymentPayload"] == payment  # calldata is public


def test_no_chain_is_said_everywhere(facilitator, buyer):
    assert "no chain is behind" in facilitator.hello
    answers = [market.fetch(facilitator.url + path) for path in
               ("/supported", "/stats", "/book", "/", "/nothing")]
    answers.append(market.fetch(facilitator.url + "/verify", {}))
    for _, headers, body in answers:
        assert "no chain is behind" in headers["Utter-Facilitator"]
        assert "no chain is behind" in json.loads(body)["simulated"]


def test_supported_kinds(facilitator):
    kinds = json.loads(market.fetch(facilitator.url + "/supported")[2])["kinds"]
    have = {(k["x402Version"], k["scheme"], k["network"]) for k in kinds}
    assert {(2, "exact", "eip155:84532"), (1, "exact", "base-sepolia"),
            (2, "upto", "eip155:8453")} <= have
    assert all(k["extra"]["facilitatorAddress"].startswith("0x")
               for k in kinds if k["scheme"] == "upto")


def mutated(payment, terms, where, key, value):
    payment, terms = copy.deepcopy(payment), copy.deepcopy(terms)
    at = {"auth": payment["payload"]["authorization"], "payload": payment["payload"],
          "accepted": payment["accepted"], "terms": terms, "top": payment}[where]
    at[key] = value
    return payment, terms


@pytest.mark.parametrize("where,key,value,reason", [
    ("auth", "value", "10001", "invalid_exact_evm_payload_signature"),
    ("auth", "to", "0x" + "11" * 20, "invalid_exact_evm_payload_signature"),
    ("auth", "from", "0x" + "11" * 20, "invalid_exact_evm_payload_signature"),
    ("auth", "nonce", "0x" + "11" * 32, "invalid_exact_evm_payload_signature"),
    ("auth", "nonce", "0x11", "invalid_payload"),
    ("payload", "signature", "0x" + "00" * 65, "invalid_exact_evm_payload_signature"),
    ("terms", "payTo", "0x" + "11" * 20, "invalid_exact_evm_payload_recipient_mismatch"),
    ("terms", "amount", "9999", "invalid_exact_evm_payload_authorization_value_mismatch"),
    ("terms", "amount", "1e4", "invalid_payment_requirements"),
    ("terms", "network", "eip155:8453", "invalid_exact_evm_network_mismatch"),
    ("terms", "network", "base", "invalid_network"),
    ("terms", "asset", "0x" + "11" * 20, "invalid_exact_evm_payload_signature"),
    ("terms", "extra", {}, "invalid_exact_evm_missing_eip712_domain"),
    ("terms", "extra", {"name": "USD Coin", "version": "2"}, "invalid_exact_evm_payload_signature"),
    ("terms", "scheme", "upto", "invalid_scheme"),
    ("accepted", "scheme", "batch", "unsupported_scheme"),
    ("top", "x402Version", 1, "invalid_x402_version"),
])
def test_real_checks(facilitator, buyer, where, key, value, reason):
    payment, terms = mutated(buyer.sign(), market.requirements(), where, key, value)
    body = {"x402Version": 2, "paymentPayload": payment, "paymentRequirements": terms}
    for operation, flag, word in (("verify", "isValid", "invalidReason"),
                                  ("settle", "success", "errorReason")):
        answer = json.loads(market.fetch(facilitator.url + "/" + operation, body)[2])
        assert (answer[flag], answer[word]) == (False, reason)
    assert facilitator.transfers() == []


def test_balance_is_checked(facilitator, buyer):
    facilitator.fund(buyer.address, 10000)
    first, second = buyer.sign(), buyer.sign()
    assert facilitator.call("settle", first, market.requirements())[1]["success"] is True
    for operation, word in (("verify", "invalidReason"), ("settle", "errorReason")):
        answer = facilitator.call(operation, second, market.requirements())[1]
        assert answer[word] == "insufficient_funds"
    assert len(facilitator.transfers()) == 1


@pytest.mark.parametrize("mode,second,third", [("official", False, False),
                                               ("idempotent", True, True),
                                               ("pending-store", True, True)])
def test_resettle(bin_dir, tmp_path, buyer, mode, second, third):
    f = market.Facilitator(bin_dir, str(tmp_path), "--resettle", mode)
    try:
        payment, terms = buyer.sign(), market.requirements()
        first = f.call("settle", payment, terms)[1]
        for expected in (second, third):
            again = f.call("settle", payment, terms)[1]
            assert again["success"] is expected
            if expected:
                assert again["transaction"] == first["transaction"]
            else:
                assert again["errorReason"] == "invalid_exact_evm_nonce_already_used"
        assert len(f.transfers()) == 1
    finally:
        f.stop()


def test_book_outlives_kill_9(bin_dir, tmp_path, buyer):
    f = market.Facilitator(bin_dir, str(tmp_path))
    payment, terms = buyer.sign(), market.requirements()
    tx = f.call("settle", payment, terms)[1]["transaction"]
    f.stop(signal.SIGKILL)
    f = market.Facilitator(bin_dir, str(tmp_path))
    try:
        assert [t["tx"] for t in f.transfers()] == [tx]
        answer = f.call("settle", payment, terms)[1]
        assert answer["errorReason"] == "invalid_exact_evm_nonce_already_used"
    finally:
        f.stop()


@pytest.mark.parametrize("mode,moved,check", [
    ("500", 0, lambda s, a: s == 500),
    ("500-after", 1, lambda s, a: s == 500),
    ("401", 0, lambda s, a: s == 401),
    ("429", 0, lambda s, a: s == 429),
    ("refuse", 0, lambda s, a: s == 200 and a["errorReason"] == "insufficient_funds"),
    ("refuse-400", 0, lambda s, a: s == 400 and a["success"] is False),
    ("refuse-after", 1, lambda s, a: s == 200 and a["success"] is False and a["transaction"] == ""),
    ("pending", 1, lambda s, a: s == 200 and a["errorReason"] == "settlement_pending"
     and a["transaction"]),
    ("pending-500", 1, lambda s, a: s == 500 and a["errorReason"] == "settlement_pending"),
    ("pending-unmoved", 0, lambda s, a: a["errorReason"] == "settlement_pending"),
    ("truthy", 1, lambda s, a: a["success"] == "true"),
    ("empty", 1, lambda s, a: a == {}),
    ("no-tx", 1, lambda s, a: a["success"] is True and a["transaction"] == ""),
    ("no-network", 1, lambda s, a: "network" not in a),
    ("wrong-network", 1, lambda s, a: a["network"] == "eip155:1"),
    ("wrong-payer", 1, lambda s, a: a["payer"].endswith("eef")),
    ("zero-payer", 1, lambda s, a: int(a["payer"], 16) == 0),
    ("wrong-amount", 1, lambda s, a: a["amount"] == "100000"),
    ("redirect", 0, None),
    ("html", 1, None),
])
def test_fault_modes(facilitator, buyer, mode, moved, check):
    facilitator.script(settle=[{"mode": mode}])
    body = {"x402Version": 2, "paymentPayload": buyer.sign(),
            "paymentRequirements": market.requirements()}
    connection = http.client.HTTPConnection("127.0.0.1", facilitator.port, timeout=10)
    connection.request("POST", "/settle", json.dumps(body))
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    if check:
        assert check(answer.status, json.loads(text))
    else:
        assert answer.status == (307 if mode == "redirect" else 200)
    assert len(facilitator.transfers()) == moved


@pytest.mark.parametrize("mode,moved", [("hang", 1), ("hang-before", 0), ("reset", 1),
                                        ("reset-before", 0), ("cut", 1)])
def test_silent_and_broken_modes(facilitator, buyer, mode, moved):
    facilitator.script(settle=[{"mode": mode}])
    payment = buyer.sign()
    with pytest.raises((OSError, http.client.HTTPException, socket.timeout)):
        facilitator.call("settle", payment, market.requirements(), timeout=1)
    market.until(lambda: len(facilitator.transfers()) == moved)
    # the list is used up: the next one is served honestly
    answer = facilitator.call("settle", buyer.sign(), market.requirements())[1]
    assert answer["success"] is True


def test_delay(facilitator, buyer):
    facilitator.script(verify={"mode": "delay", "ms": 600})
    payment = buyer.sign()
    with pytest.raises(socket.timeout):
        facilitator.call("verify", payment, market.requirements(), timeout=0.3)
    assert facilitator.call("verify", payment, market.requirements())[1]["isValid"] is True


def test_scripts_are_checked(facilitator):
    for bad in ({"x": []}, {"settle": {"mode": "nonsense"}}, {"settle": [{"mod": "ok"}]}, [],
                {"settle": {"mode": "ok", "ms": -1}}):
        assert market.fetch(facilitator.url + "/script", bad)[0] == 400


def test_faults_only_behind_the_flag(bin_dir, tmp_path):

    process = subprocess.Popen([os.path.join(bin_dir, "utter-facilitator"), "--listen",
                                "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        port = int(process.stdout.readline().decode().split(" port ")[1].split(":")[0])
        for path in ("/script", "/fund"):
            assert market.fetch("http://127.0.0.1:%d%s" % (port, path), {})[0] == 404
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()


def test_bearer_token(bin_dir, tmp_path, buyer):
    token = tmp_path / "token"
    token.write_text("sesame\n")
    f = market.Facilitator(bin_dir, str(tmp_path), "--token-file", str(token))
    try:
        payment, terms = buyer.sign(), market.requirements()
        assert f.call("verify", payment, terms)[0] == 401
        assert f.call("verify", payment, terms, {"Authorization": "Bearer sesamf"})[0] == 401
        assert f.call("verify", payment, terms, {"Authorization": "Bearer sesame"})[0] == 200
    finally:
        f.stop()


def test_contract_wallet(bin_dir, tmp_path, buyer):
    f = market.Facilitator(bin_dir, str(tmp_path), "--wallet", buyer.address)
    try:
        payment = buyer.sign()
        payment["payload"]["signature"] = "0x" + "ab" * 97
        assert f.call("verify", payment, market.requirements())[1]["isValid"] is True
    finally:
        f.stop()


def test_parallel_settles_move_once(facilitator, buyer):
    from concurrent.futures import ThreadPoolExecutor
    payment, terms = buyer.sign(), market.requirements()
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: facilitator.call("settle", payment, terms)[1], range(32)))
    assert sum(a["success"] for a in answers) == 1
    assert len(facilitator.transfers()) == 1
