"""Through Traefik; kept true by watch; many slugs; twenty times up and down. Everything is real."""
import json
import os
import signal
import time

import pytest


@pytest.fixture(scope="module")
def up(rig, traefik):
    before = rig.left()
    file = rig.endpoint("shop")
    out = rig.ok("up", file)
    assert "answers through Traefik" in out
    rig.start_facilitator()
    yield {"before": before, "file": file}
    rig.deploy("down", "--purge", "--force", "shop")


def test_paid_call_through_traefik(rig, up):
    got = rig.pay("shop")
    assert got.returncode == 0 and got.stdout == "one /hello", got.stderr
    time.sleep(2.5)  # Traefik's health check has spoken by now
    got = rig.pay("shop")
    assert got.returncode == 0, got.stderr


def test_access_log_shows_no_payment(rig, up):
    log = rig.tail("access.log")
    assert "shop.example" in log
    assert "PAYMENT" not in log.upper()


def test_handler_is_not_in_the_route(rig, up):
    text = open(rig.path("traefik/utter-shop.yaml")).read()
    assert rig.plan("shop")["handler"]["address"].split("/")[0] not in text


def test_one_mebibyte_passes_whole(rig, up):
    rig.write("exact/handler/main.py", "")
    body = rig.write("body", "x" * (1024 * 1024))
    got = rig.pay("shop", more=["-X", "POST", "-d", "@" + body])
    assert got.returncode != 0  # the handler knows no POST: 501, not charged
    big = rig.write("body", "x" * (1024 * 1024 + 1))
    got = rig.pay("shop", more=["-i", "-X", "POST", "-d", "@" + big], retry=1)
    assert got.returncode != 0 and "413" in got.stdout + got.stderr, got.stdout[:200] + got.stderr


def test_a_file_that_does_not_parse_fails_up_with_a_line(rig, up):
    broken = rig.write("traefik/zz.yaml", "http: [\n")
    got = rig.deploy("up", rig.endpoint("second", payee=2))
    os.unlink(broken)
    assert got.returncode == 1 and "Traefik answers 404 for second.example" in got.stderr, got.stderr
    assert not os.path.exists(rig.path("traefik/utter-second.yaml"))
    assert "shop" in rig.ok("ls") and "second" not in rig.ok("ls")


def test_traefik_restarted(rig, up, traefik):
    for child in rig.children:
        if "traefik.yaml" in " ".join(child.args):
            child.kill()
            child.wait()
    rig.spawn("traefik.log", traefik, "--configFile=" + rig.path("traefik.yaml"))
    rig.until(lambda: rig.pay("shop", retry=1).returncode == 0)


@pytest.fixture
def watch(rig):
    rig.settings["traefik"]["http"] = "127.0.0.1:18090"
    rig.write("deploy.json", rig.settings)
    rig.run("cp", rig.path("deploy.json"), "/etc/utter/deploy.json")
    rig.write("watch.log", "")
    child = rig.spawn("watch.log", rig.bin + "/utter-deploy", "watch")
    rig.until(lambda: "watching" in rig.tail("watch.log"))
    yield child
    child.send_signal(signal.SIGTERM)
    # nsenter execs, so the child is utter-deploy itself
    assert child.wait(10) == 0


def pid_of(rig, what):
    for line in rig.run("ctr", "-a", rig.sock, "-n", "utter", "task", "ls").stdout.split("\n"):
        if line.startswith(what):
            return int(line.split()[1])
    return None


def test_watch_puts_back_what_ended(rig, up, watch):
    assert "watch     running" in rig.ok("status", "shop")
    assert rig.deploy("watch").returncode == 1  # one per host
    os.kill(pid_of(rig, "shop.h"), signal.SIGKILL)
    start = time.monotonic()
    got = rig.pay("shop", retry=10)
    while got.returncode != 0 and time.monotonic() - start < 10:
        got = rig.pay("shop", retry=10)
    assert got.returncode == 0, got.stderr
    assert time.monotonic() - start < 3.5
    os.kill(pid_of(rig, "shop.gate"), signal.SIGKILL)
    rig.until(lambda: rig.pay("shop", retry=5).returncode == 0)
    rig.run("iptables", "-F", "UTTER-FORWARD")
    rig.until(lambda: rig.deploy("audit", "shop").returncode == 0)


def test_watch_serves_routes_and_metrics(rig, up, watch):
    routes = json.loads(rig.run("curl", "-s", "http://127.0.0.1:18090/").stdout)
    assert routes == rig.plan("shop")["route"]
    metrics = rig.run("curl", "-s", "http://127.0.0.1:18090/metrics").stdout
    assert 'utter_deploy_gate_up{slug="shop"} 1' in metrics
    assert 'utter_gate_ready{slug="shop"} 1' in metrics
    assert 'slug="shop",' in metrics


def test_reboot(rig, up, watch):
    """All tasks, namespaces and bridges gone, /run/utter empty: everything is back without a command."""
    watch.send_signal(signal.SIGTERM)
    watch.wait(10)
    for what in ("shop.h", "shop.gate"):
        os.kill(pid_of(rig, what), signal.SIGKILL)
    time.sleep(0.5)
    rig.run("sh", "-c", "for t in $(ctr -a %s -n utter task ls -q); do ctr -a %s -n utter task rm -f $t; done; "
            "umount /run/utter/netns/* /run/utter/shop/token; rm -rf /run/utter; mkdir /run/utter; "
            "ip link del %s; ip link del utter-edge; iptables -F; iptables -t nat -F" %
            (rig.sock, rig.sock, rig.plan("shop")["bridge"]))
    rig.facilitator.kill()
    again = rig.spawn("watch.log", rig.bin + "/utter-deploy", "watch")
    rig.until(lambda: rig.run("ip", "address", "show", "utter-edge").returncode == 0)
    time.sleep(0.3)
    rig.start_facilitator()
    try:
        rig.until(lambda: rig.pay("shop", retry=5).returncode == 0)
        rig.until(lambda: rig.deploy("audit", "--live", "shop").returncode == 0)
    finally:
        again.send_signal(signal.SIGTERM)
        again.wait(10)
        watch.wait = lambda timeout=None: 0
        watch.send_signal = lambda sig: None


def test_lifetime_under_paid_load(rig, up):
    """A handler that may live ten seconds is replaced before: no call meets its end."""
    rig.ok("up", rig.endpoint("shop", extra="limits: {lifetime: 10s}\n"))
    child = rig.spawn("watch.log", rig.bin + "/utter-deploy", "watch")
    end, n, first = time.monotonic() + 12, 0, rig.plan("shop")["handler"]["id"]
    while time.monotonic() < end:
        got = rig.pay("shop", retry=1)
        assert got.returncode == 0, got.stderr + rig.tail("watch.log")
        n += 1
    assert n > 10 and rig.plan("shop")["handler"]["id"] != first
    child.send_signal(signal.SIGTERM)
    child.wait(10)
    rig.ok("up", rig.endpoint("shop"))


def test_containerd_restarted(rig, up):
    pid = pid_of(rig, "shop.h")
    rig.containerd.kill()
    rig.containerd.wait()
    os.path.exists(rig.sock) and os.unlink(rig.sock)
    assert rig.pay("shop").returncode == 0  # what runs goes on without it
    rig.start_containerd()
    assert "unchanged shop" in rig.ok("up", up["file"])
    assert pid_of(rig, "shop.h") == pid


def test_backup_and_restore(rig, up):
    rig.ok("backup", "shop", rig.path("backup"))
    assert (os.stat(rig.path("backup/ledger.db")).st_mode & 0o777) == 0o600
    settled = [p["payment"] for p in json.loads(rig.ok("status", "--json", "shop"))["payments"]]
    assert rig.deploy("restore", "shop", rig.path("backup")).returncode == 1  # it is there
    rig.ok("down", "--purge", "shop")
    out = rig.ok("restore", "shop", rig.path("backup"))
    assert "restored" in out
    rig.ok("up", up["file"])
    assert [p["payment"] for p in json.loads(rig.ok("status", "--json", "shop"))["payments"]] == settled
    assert rig.pay("shop").returncode == 0


def test_ten_slugs_side_by_side(rig, up):
    names = ["s%d" % i for i in range(10)]
    for i, name in enumerate(names):
        rig.ok("up", rig.endpoint(name, tag=name, payee=100 + i))
    for name in names:
        assert rig.pay(name).stdout == name + " /hello"
    # from one handler: every other slug's handler and gate, at the addresses they have
    for name in names[1:4]:
        plan = rig.plan(name)
        for target in (plan["handler"]["address"].split("/")[0] + ":8080", plan["gate"]["edge"].split("/")[0] + ":8402",
                       plan["gate"]["address"].split("/")[0] + ":8402"):
            got = rig.pay("s0", "/reach/" + target)
            assert got.stdout.startswith("failed:"), target + got.stdout + got.stderr
    assert rig.deploy("audit").returncode == 0
    for name in names:
        rig.ok("down", "--purge", name)
    assert len(rig.ok("ls").strip().split("\n")) == 2


@pytest.mark.long
def test_up_and_down_twenty_times(rig, up):
    for _ in range(20):
        rig.ok("up", rig.endpoint("again", payee=55))
        rig.ok("down", "--purge", "again")
    left = rig.left()
    for what in left:
        assert not any("again" in x for x in left[what]), left[what]
