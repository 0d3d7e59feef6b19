"""Several endpoints paid at one address: refused, or with a claims store that all of them share."""
import base64
import json
import os
import subprocess
import sys
import time

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../gate"))

from evm import Key, chain_of, transfer_digest  # noqa: E402

pytestmark = pytest.mark.core
TURN = "wallet"


def endpoint(rig, slug, shared=True, tag=None):
    file = rig.endpoint(slug, tag=tag or slug, payee=77)
    if shared:
        text = open(file).read().replace('pay: {to: "', 'pay: {shared: true, to: "')
        open(file, "w").write(text)
    return file


@pytest.fixture(scope="module")
def two(rig):
    os.makedirs(rig.path("traefik"), exist_ok=True)
    rig.ok("up", endpoint(rig, "left"))
    rig.ok("up", endpoint(rig, "right"))
    rig.start_facilitator()
    yield
    for slug in ("left", "right"):
        rig.deploy("down", "--purge", "--force", slug)


def signed(rig, slug, buyer):
    """A header of one payment, for the terms that the slug offers."""
    got = rig.run("curl", "-s", "-D", "-", "-o", "/dev/null", "-H", "Host: %s.example" % slug,
                  "http://%s:8402/hello" % rig.edge(slug)).stdout
    line = [l for l in got.split("\n") if l.lower().startswith("payment-required:")][0]
    challenge = json.loads(base64.b64decode(line.split(":", 1)[1].strip()))
    terms = challenge["accepts"][0]
    now = int(time.time())
    a = {"from": buyer.address, "to": terms["payTo"], "value": terms["amount"], "validAfter": str(now - 60),
         "validBefore": str(now + int(terms["maxTimeoutSeconds"]) - 5), "nonce": "0x" + os.urandom(32).hex()}
    digest = transfer_digest(terms, chain_of(terms["network"]), a)
    payload = {"signature": "0x" + buyer.sign(digest).hex(), "authorization": a}
    body = {"x402Version": 2, "accepted": terms, "payload": payload, "resource": challenge["resource"]}
    return "PAYMENT-SIGNATURE: " + base64.b64encode(json.dumps(body).encode()).decode()


def call(rig, slug, header):
    return subprocess.Popen(rig.inside("curl", "-s", "-w", "\n%{http_code}", "-H", "Host: %s.example" % slug, "-H", header,
                                       "http://%s:8402/hello" % rig.edge(slug)), stdout=subprocess.PIPE, text=True)


def result(child):
    body, status = child.communicate(timeout=60)[0].rsplit("\n", 1)
    return int(status), body


def test_second_slug_without_it_is_refused(rig, two):
    got = rig.deploy("up", endpoint(rig, "third", shared=False))
    assert got.returncode == 1
    assert "is paid on the same network and asset as slug left" in got.stderr and "pay.shared: true" in got.stderr
    assert not os.path.exists(rig.path("var/third"))


def test_one_store_of_one_group(rig, two):
    store = rig.plan("left")["claims"]
    assert store == rig.plan("right")["claims"] == "/var/lib/utter/claims.d/1"
    here = rig.path("var/claims.d/1")
    st = os.stat(here)
    assert (st.st_uid, st.st_gid, oct(st.st_mode & 0o7777)) == (0, 230001, "0o2770")
    for name in os.listdir(here):
        assert os.stat(os.path.join(here, name)).st_gid == 230001 and \
            os.stat(os.path.join(here, name)).st_mode & 0o7 == 0, name
    assert "0 drifts" in rig.ok("audit", "left")
    uids = {rig.plan(s)["uid"] for s in ("left", "right")}
    assert len(uids) == 2  # two users, one group


def test_one_payment_at_both_is_one_answer(rig, two):
    for _ in range(3):
        buyer = Key()
        header = signed(rig, "left", buyer)
        answers = sorted(result(c) for c in [call(rig, s, header) for s in ("left", "right")])
        assert [a[0] for a in answers] == [200, 409], answers
        assert answers[0][1] in ("left /hello", "right /hello")
        winner = answers[0][1].split()[0]
        loser = {"left": "right", "right": "left"}[winner]
        assert result(call(rig, loser, header))[0] == 409
        assert result(call(rig, winner, header)) == answers[0]  # an honest retry gets its answer


def test_what_was_paid_at_one_stays_claimed_after_its_gate_was_replaced(rig, two):
    header = signed(rig, "right", Key())
    assert result(call(rig, "right", header))[0] == 200
    rig.ok("down", "right")
    rig.ok("up", rig.path("right/endpoint.yaml"))
    assert result(call(rig, "left", header))[0] == 409


def test_the_store_goes_with_the_last_slug(rig, two):
    here = rig.path("var/claims.d/1/claims.db")
    rig.ok("down", "--purge", "left")
    assert os.path.exists(here)
    rig.ok("down", "--purge", "right")
    assert not os.path.exists(here)
    assert json.load(open(rig.path("var/claims.json"))) == {}
