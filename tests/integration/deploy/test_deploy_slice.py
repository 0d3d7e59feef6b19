"""One endpoint from its file to a paid answer and away again; containerd, runsc, CNI, gate, facilitator are real."""
import json
import os
import signal
import subprocess
import threading
import time

import pytest

pytestmark = pytest.mark.core


SHORT = "timeouts: {handler: 5s}\n"


@pytest.fixture(scope="module")
def up(rig):
    """Deployed once; `before` is the host without any slug."""
    before = rig.left()
    file = rig.endpoint("shop", extra=SHORT)
    out = rig.ok("up", file)
    assert "proved from inside" in out
    rig.start_facilitator()
    return {"before": before, "file": file}


def tasks(rig):
    return sorted(" ".join(l.split()) for l in rig.run("ctr", "-a", rig.sock, "-n", "utter", "task", "ls").stdout.split("\n"))


def test_paid_call_at_the_gate(rig, up):
    got = rig.pay("shop", edge=rig.edge("shop"))
    assert got.returncode == 0, got.stderr + rig.ok("logs", "shop", "gate")
    assert got.stdout == "one /hello"
    assert "paid 0.01 USDC" in got.stderr


def test_up_again_changes_nothing(rig, up):
    before = tasks(rig)
    out = rig.ok("up", up["file"])
    assert "unchanged shop" in out
    assert tasks(rig) == before


def test_handler_is_under_gvisor_and_gate_is_not(rig, up):
    listed = rig.run("ctr", "-a", rig.sock, "-n", "utter", "container", "ls").stdout
    assert "io.containerd.utter.v1" in [l for l in listed.split("\n") if "shop.h" in l][0]
    assert "io.containerd.runc.v2" in [l for l in listed.split("\n") if "shop.gate" in l][0]


def test_audit_finds_nothing_then_each_drift(rig, up):
    assert "0 drifts" in rig.ok("audit", "--live", "shop")
    bridge = rig.plan("shop")["bridge"]
    for spoil, says, mend in (
            (["ip", "address", "add", "198.18.0.14/29", "dev", bridge], "has an address",
             ["ip", "address", "flush", "dev", bridge]),
            (["iptables", "-F", "UTTER-FORWARD"], "firewall rules are not in force", None),
    ):
        rig.run(*spoil)
        got = rig.deploy("audit", "shop")
        assert got.returncode == 1 and says in got.stdout, got.stdout
        if mend:
            rig.run(*mend)
    rig.ok("up", up["file"])
    assert "0 drifts" in rig.ok("audit", "shop")


def test_nothing_reaches_the_handler_from_the_host(rig, up):
    address = rig.plan("shop")["handler"]["address"].split("/")[0]
    gate = rig.plan("shop")["gate"]["address"].split("/")[0]
    for target in ("%s:8080" % address, "%s:8402" % gate):
        got = rig.run("curl", "-sS", "--max-time", "1", "http://%s/" % target)
        assert got.returncode != 0, got.stdout
    # a route through the gate's edge address does not forward either
    rig.run("ip", "route", "add", address, "via", rig.edge("shop"))
    got = rig.run("curl", "-sS", "--max-time", "1", "http://%s:8080/" % address)
    rig.run("ip", "route", "del", address)
    assert got.returncode != 0


@pytest.mark.parametrize("target", ["1.1.1.1:443", "169.254.169.254:80", "198.19.0.1:8403"])
def test_handler_reaches_nothing(rig, up, target):
    got = rig.pay("shop", "/reach/" + target, edge=rig.edge("shop"))
    assert got.returncode == 0 and got.stdout.startswith("failed:"), got.stdout + got.stderr


def test_isolation_holds_with_an_empty_ruleset(rig, up):
    rig.run("iptables", "-F")
    rig.run("iptables", "-t", "nat", "-F")
    test_nothing_reaches_the_handler_from_the_host(rig, up)
    for target in ("198.19.0.1:8403", "1.1.1.1:443"):
        test_handler_reaches_nothing(rig, up, target)
    rig.ok("up", up["file"])


@pytest.mark.parametrize("path", ["/fail", "/big", "/fork", "/memory"])
def test_not_charged(rig, up, path):
    def charged():
        status = json.loads(rig.ok("status", "--json", "shop"))
        return [p["payment"] for p in status["payments"] if p["state"] == "settled"]
    before = charged()
    got = rig.pay("shop", path, edge=rig.edge("shop"), retry=1)
    assert got.returncode not in (0, 2) and "paid" not in got.stderr, got.stderr
    assert set(charged()) <= set(before)  # the last five: none that is new
    rig.ok("up", up["file"])  # a bomb may take its handler along; watch would put it back
    again = rig.pay("shop", edge=rig.edge("shop"))
    assert again.returncode == 0, again.stderr


def test_price_change_is_a_reload(rig, up):
    task = tasks(rig)
    out = rig.ok("up", rig.endpoint("shop", price="0.02", extra=SHORT))
    assert "took its new configuration" in out
    assert tasks(rig) == task
    got = rig.pay("shop", edge=rig.edge("shop"))
    assert "paid 0.02 USDC" in got.stderr


def test_replacing_the_handler_under_paid_load(rig, up):
    """No call fails and each is charged once while the handler changes under it."""
    done, failed, stop = [], [], threading.Event()

    def buy():
        while not stop.is_set():
            got = rig.pay("shop", "/slow", edge=rig.edge("shop"), retry=30)
            (done if got.returncode == 0 else failed).append(got.stdout + got.stderr)

    buyers = [threading.Thread(target=buy) for _ in range(3)]
    for b in buyers:
        b.start()
    time.sleep(1)
    out = rig.ok("up", rig.endpoint("shop", tag="two", price="0.02", extra=SHORT))
    assert "drained and removed" in out
    time.sleep(2.5)
    stop.set()
    for b in buyers:
        b.join()
    assert not failed, failed[0]
    assert any(d.startswith("one /slow") for d in done) and any(d.startswith("two /slow") for d in done)
    transactions = [d.split("transaction ")[1].strip() for d in done]
    assert len(set(transactions)) == len(transactions)


def test_replacing_the_gate_under_paid_load(rig, up):
    done, failed, stop = [], [], threading.Event()
    old = rig.edge("shop")

    def buy():
        while not stop.is_set():
            side = rig.edge("shop")
            got = rig.pay("shop", edge=side, retry=30)
            if got.returncode == 0:
                done.append(got.stderr)
            elif side != old or rig.edge("shop") == old:
                failed.append(got.stderr)

    buyer = threading.Thread(target=buy)
    buyer.start()
    rig.run("cp", rig.bin + "/utter-gate", rig.path("utter-gate"))
    rig.run("strip", rig.path("utter-gate"))
    rig.ok("image", "gate", rig.path("utter-gate"), "utter-gate:next")
    out = rig.ok("upgrade", "--gate", "utter-gate:next", "shop")
    time.sleep(1)
    stop.set()
    buyer.join()
    assert "drained" in out and rig.edge("shop") != old
    assert not failed, failed[0]
    assert done
    rig.gate_image()


def test_down_leaves_nothing_but_the_ledger(rig, up):
    rig.ok("down", "shop")
    rig.wait_left(up["before"])
    assert os.path.exists(rig.path("var/shop/ledger/ledger.db"))
    rig.facilitator.kill()


def test_ledger_is_still_there_after_up(rig, up):
    rig.ok("up", up["file"])
    status = json.loads(rig.ok("status", "--json", "shop"))
    assert any(p["state"] == "settled" for p in status["payments"])
    rig.ok("down", "--purge", "shop")
    assert not os.path.exists(rig.path("var/shop"))
    rig.wait_left(up["before"])


@pytest.mark.parametrize("ms", [30, 150, 300, 500, 700, 900, 1200, 1500])
def test_killed_at_any_moment_then_up_or_down(rig, up, ms):
    """kill -9 of utter-deploy; `down` then leaves nothing, or `up` then works."""
    slug = "kill%d" % ms
    file = rig.endpoint(slug)
    child = subprocess.Popen(rig.inside(rig.bin + "/utter-deploy", "up", file), stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    time.sleep(ms / 1000)
    child.send_signal(signal.SIGKILL)
    child.wait()
    if ms % 200 == 100:
        rig.ok("up", file)
        assert "0 drifts" in rig.ok("audit", slug)
    got = rig.deploy("down", "--purge", slug)
    assert got.returncode == 0 or "is not deployed here" in got.stderr, got.stderr
    rig.wait_left(up["before"])


def test_a_handler_that_does_not_start_is_undone_with_its_reason(rig, up):
    file = rig.endpoint("broken")
    rig.write("broken/handler/main.py", "import nothing_like_this\n")
    got = rig.deploy("up", file)
    assert got.returncode == 1
    assert "step handler" in got.stderr and "it ended with status 1" in got.stderr
    rig.wait_left(up["before"])
    assert not os.path.exists(rig.path("var/broken"))


def test_foreign_bridge_is_refused(rig, up):
    rig.run("ip", "link", "add", "ut-1", "type", "bridge")
    got = rig.deploy("up", rig.endpoint("shop"))
    rig.run("ip", "link", "del", "ut-1")
    assert got.returncode == 1 and "exists and is not ours" in got.stderr


def test_pool_that_overlaps_a_route_is_refused(rig, up):
    rig.run("ip", "link", "add", "dum0", "type", "bridge")
    rig.run("ip", "link", "set", "dum0", "up")
    rig.run("ip", "route", "add", "198.18.128.0/24", "dev", "dum0")
    got = rig.deploy("up", rig.endpoint("shop"))
    rig.run("ip", "link", "del", "dum0")
    assert got.returncode == 1 and "within pools.internal" in got.stderr


def test_second_slug_with_one_payee_is_refused(rig, up):
    rig.ok("up", rig.endpoint("shop", payee=7))
    got = rig.deploy("up", rig.endpoint("other", payee=7))
    assert got.returncode == 1 and "is paid on the same network and asset as slug shop" in got.stderr
    rig.ok("down", "--purge", "shop")


def test_exec_is_refused(rig, up):
    got = rig.deploy("exec", "shop", "sh")
    assert got.returncode == 1 and "refused by design" in got.stderr


def test_doctor(rig, up):
    got = rig.deploy("doctor")
    assert got.returncode == 0, got.stdout
    assert "runsc" in got.stdout
