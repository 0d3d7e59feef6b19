"""The official x402 clients, unmodified, buy from the gate; the official facilitator logic settles for it.

Packages come from npm and PyPI at fixed versions, once, into a folder of the cache; where that cannot be
done the tests are skipped with the reason. tests/gate/test_payment.c has their payloads as fixtures.
"""
import json
import os
import shutil
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.once, pytest.mark.timeout(400)]

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = os.environ.get("UTTER_PEERS", "/var/cache/utter-peers")
NPM = ["@x402/core@2.27.0", "@x402/evm@2.27.0", "@x402/fetch@2.27.0", "x402-fetch@1.2.0", "viem@2.57.20"]
PYPI = ["x402[evm,httpx]==2.25.0"]
KEY = "0x" + "c8" * 32
USDC = "0x036CbD53842c5426634e7929541eC2318f3dCF7e"
TO = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"


def installed(folder, mark, command):
    """The folder, filled once; a half-made one is never used."""
    if os.path.exists(os.path.join(folder, mark)):
        return folder
    fresh = folder + ".%d" % os.getpid()
    os.makedirs(fresh, exist_ok=True)
    try:
        done = subprocess.run(command(fresh), cwd=fresh, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=300)
        if done.returncode != 0:
            pytest.skip("packages not to be had: %s" % done.stdout.decode()[-300:])
        open(os.path.join(fresh, mark), "w").close()
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(fresh, folder)
        return folder
    except (OSError, subprocess.TimeoutExpired) as error:
        pytest.skip("packages not to be had: %s" % error)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


@pytest.fixture(scope="session")
def npm():
    node, tool = shutil.which("node"), shutil.which("npm")
    if not node or not tool:
        pytest.skip("node or npm is not installed")
    version = subprocess.run([node, "--version"], stdout=subprocess.PIPE).stdout.decode().strip()
    if int(version.lstrip("v").split(".")[0]) < 20:
        pytest.skip("node %s is older than 20" % version)
    return installed(os.path.join(CACHE, "x402-npm-2.27.0"), ".complete",
                     lambda folder: ["npm", "install", "--prefix", folder, "--no-audit", "--no-fund",
                                     "--ignore-scripts", *NPM])


@pytest.fixture(scope="session")
def pypi():
    folder = os.path.join(CACHE, "x402-pypi-2.25.0")
    installed(folder, ".complete", lambda fresh: [
        "sh", "-c", '"$0" -m venv "$1" && "$1/bin/pip" install -q "$2"', sys.executable, fresh, PYPI[0]])
    # a venv's own scripts name the folder they were made in; python itself can be moved
    return os.path.join(folder, "bin", "python3")


def shop(cold, route, **change):
    """Starts the gate with one route and returns its URL for clients that send their own Host."""
    if not cold.port:
        cold.make_config()
    here = "127.0.0.1:%d" % cold.port
    cold.start_gate(origin="http://" + here, hosts=[here], routes=[route], **change)
    return "http://%s%s" % (here, route["path"])


def buy(npm, client, url, timeout=120):
    done = subprocess.run(["node", os.path.join(HERE, "official/buy.mjs"), client, url],
                          env={**os.environ, "X402_NPM": npm, "X402_KEY": KEY},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def expect_sale(result, cold, network):
    assert result["status"] == 200, result
    assert json.loads(result["body"]) == {"answer": 42}
    receipt = result["receipt"]
    assert receipt["success"] is True and receipt["network"] == network
    assert receipt["payer"].lower() == result["payer"].lower()
    assert len(cold.handler.runs) == 1
    [transfer] = cold.book()["transfers"]
    assert transfer["tx"] == receipt["transaction"] and transfer["to"] == TO


def offer(**more):
    return {"network": "base-sepolia", "asset": "USDC", "to": TO, **more}


def test_fetch_v2_eip3009(cold, npm):
    cold.start_facilitator()
    url = shop(cold, {"path": "/a", "price": "0.01"})
    expect_sale(buy(npm, "v2", url), cold, "eip155:84532")


def test_fetch_v2_permit2(cold, npm):
    cold.start_facilitator()
    url = shop(cold, {"path": "/a", "price": "0.01", "pay": [offer(method="permit2")]})
    expect_sale(buy(npm, "v2", url), cold, "eip155:84532")


def test_fetch_v2_upto(cold, npm):
    cold.start_facilitator()
    url = shop(cold, {"path": "/a", "price": "0.01", "pay": [offer(scheme="upto")]})
    expect_sale(buy(npm, "v2", url), cold, "eip155:84532")
    assert cold.book()["transfers"][0]["value"] == "10000"


@pytest.mark.parametrize("override,charged", [
    ("700", "700"), ("1", "500"), ("99999", "9000"), ("50%", "9000"), ("-1", "9000"), (None, "9000")])
def test_a16_upto_charge_of_the_handler_is_clamped(cold, npm, override, charged):
    from rig import ok
    extra = 'Settlement-Overrides: {"amount":"%s"}\r\n' % override if override else ""
    cold.handler.answer = lambda request: ok(b'{"answer":42}', extra=extra)
    cold.start_facilitator()
    url = shop(cold, {"path": "/a", "price": "0.01", "pay": [offer(scheme="upto")],
                      "upto": {"handler_charge": True, "min": "0.0005", "max": "0.009"}})
    result = buy(npm, "v2", url)
    expect_sale(result, cold, "eip155:84532")
    assert cold.book()["transfers"][0]["value"] == charged


def test_a16_upto_charge_of_the_handler_needs_the_opt_in(cold, npm):
    from rig import ok
    cold.handler.answer = lambda request: ok(
        b'{"answer":42}', extra='Settlement-Overrides: {"amount":"1"}\r\n')
    cold.start_facilitator()
    url = shop(cold, {"path": "/a", "price": "0.01", "pay": [offer(scheme="upto")]})
    expect_sale(buy(npm, "v2", url), cold, "eip155:84532")
    assert cold.book()["transfers"][0]["value"] == "10000"


def test_fetch_v1_legacy(cold, npm):
    cold.start_facilitator()
    url = shop(cold, {"path": "/a", "price": "0.01"})
    expect_sale(buy(npm, "v1", url), cold, "base-sepolia")


def test_python_v2(cold, pypi):
    cold.start_facilitator()
    url = shop(cold, {"path": "/a", "price": "0.01"})
    done = subprocess.run([pypi, os.path.join(HERE, "official/buy.py"), url],
                          env={**os.environ, "X402_KEY": KEY}, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    expect_sale(json.loads(done.stdout), cold, "eip155:84532")


def test_v2_price_above_the_v1_ceiling_is_not_paid(cold, npm):
    """The legacy client's own limit is 0.10 USDC: nothing may be charged when it refuses."""
    cold.start_facilitator()
    url = shop(cold, {"path": "/a", "price": "0.11"})
    assert buy(npm, "v1", url)["status"] == 0
    assert cold.book()["transfers"] == [] and cold.handler.runs == []


LOST = [{"mode": mode} for mode in ("reset", "500-after", "cut", "pending", "pending-500")] + [
    # an official facilitator says this also when only the wait for the receipt failed
    {"mode": "refuse-after", "reason": "invalid_exact_evm_transaction_failed"}]


@pytest.mark.parametrize("resettle", [
    "idempotent", pytest.param("pending-store", marks=pytest.mark.long)])
@pytest.mark.parametrize("step", [
    LOST[0]] + [pytest.param(step, marks=pytest.mark.long) for step in LOST[1:]],
    ids=lambda step: step["mode"])
def test_naive_retry_pays_once(cold, npm, step, resettle):
    """A buyer that signs anew on each failure: the money moved and the reply was lost; one transfer,
    one answer."""
    cold.start_facilitator("--resettle", resettle)
    cold.script(settle=[step])
    url = shop(cold, {"path": "/a", "price": "0.01"})
    result = buy(npm, "naive", url)
    assert result["status"] == 200 and json.loads(result["body"]) == {"answer": 42}, result
    assert len(cold.book()["transfers"]) == 1
    assert len(cold.handler.runs) == 1


@pytest.fixture
def official_facilitator(cold, npm):
    from rig import fetch, free_port
    cold.facilitator_port = free_port()
    log = open(os.path.join(cold.folder, "official.log"), "wb")
    process = subprocess.Popen(
        ["node", os.path.join(HERE, "official/facilitator.mjs"), str(cold.facilitator_port)],
        env={**os.environ, "X402_NPM": npm, "X402_ASSET": USDC}, stdout=subprocess.PIPE, stderr=log)
    assert b"listening" in process.stdout.readline()
    yield lambda: fetch(cold.facilitator_port, "/stats").json()
    process.kill()
    process.wait()
    process.stdout.close()
    log.close()


@pytest.mark.parametrize("client,network", [("v2", "eip155:84532"), ("v1", "base-sepolia")])
def test_official_facilitator_settles(cold, npm, official_facilitator, client, network):
    url = shop(cold, {"path": "/a", "price": "0.01"})
    result = buy(npm, client, url)
    assert result["status"] == 200, result
    assert result["receipt"]["success"] is True and result["receipt"]["network"] == network
    assert official_facilitator() == {"verify": 1, "settle": 1, "transfers": 1}
    assert len(cold.handler.runs) == 1


def test_official_facilitator_takes_permit2(cold, npm, official_facilitator):
    url = shop(cold, {"path": "/a", "price": "0.01", "pay": [offer(method="permit2")]})
    result = buy(npm, "v2", url)
    assert result["status"] == 200, result
    assert official_facilitator()["transfers"] == 1
