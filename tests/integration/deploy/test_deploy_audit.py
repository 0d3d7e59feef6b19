"""audit: every kind of drift is found on the running thing, told in one line, and makes the exit non-zero."""
import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.core
TURN = "audit"

IN_MOUNTS = r"""
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open("/proc/%s/ns/mnt" % sys.argv[1], os.O_RDONLY)
if libc.setns(fd, 0x20000):
    sys.exit("setns: %d" % ctypes.get_errno())
what, point = sys.argv[2:]
rc = libc.mount(b"tmpfs", point.encode(), b"tmpfs", 0, None) if what == "mount" else libc.umount2(point.encode(), 2)
sys.exit("%s: %d" % (what, ctypes.get_errno()) if rc else 0)
"""


@pytest.fixture(scope="module")
def up(rig):
    os.makedirs(rig.path("traefik"), exist_ok=True)
    file = rig.endpoint("seen")
    rig.ok("up", file)
    yield file
    rig.deploy("down", "--purge", "--force", "seen")


def pid_of(rig, what):
    for line in rig.run("ctr", "-a", rig.sock, "-n", "utter", "task", "ls").stdout.split("\n"):
        if line.startswith(what):
            return int(line.split()[1])
    raise AssertionError("no task " + what)


def drift(rig, *options):
    """The drifts' lines; the exit status agrees with them."""
    got = rig.deploy("audit", *options, "seen")
    lines = [l for l in got.stdout.split("\n") if l.startswith("drift")]
    assert got.returncode == (1 if lines else 0), got.stdout + got.stderr
    if lines:
        assert "%d drifts from the plan" % len(lines) in got.stderr
    return lines


def test_live_finds_nothing_and_leaves_nothing(rig, up):
    before = rig.left()
    logs = os.listdir(rig.path("var/seen/logs"))
    got = rig.ok("audit", "--live", "seen")
    assert "0 drifts" in got
    assert rig.left() == before
    assert os.listdir(rig.path("var/seen/logs")) == logs
    plain = rig.ok("audit", "seen")
    number = lambda text: int(text.split("seen: ")[1].split()[0])
    assert number(got) > number(plain) + 10


def test_live_runs_under_gvisor(rig, up):
    """While it is there: a container of the handler's own runtime."""
    child = subprocess.Popen(rig.inside(rig.bin + "/utter-deploy", "audit", "--live", "seen"), stdout=subprocess.PIPE)
    shown = rig.until(lambda: [l for l in rig.run("ctr", "-a", rig.sock, "-n", "utter", "container", "ls").stdout
                               .split("\n") if l.startswith("seen.probe")], 20, 0.01)
    assert "io.containerd.utter.v1" in shown[0] and "utter.local/probe:" in shown[0]
    assert child.wait(60) == 0


def test_live_sees_an_address_of_the_host(rig, up):
    """The runtime itself refuses to start the probe beside an address of the host."""
    bridge = rig.plan("seen")["bridge"]
    rig.run("ip", "address", "add", "198.18.0.14/29", "dev", bridge)
    try:
        lines = drift(rig, "--live")
    finally:
        rig.run("ip", "address", "flush", "dev", bridge)
    assert any("live: seen.probe:" in l and "198.18.0.14 is in this network" in l for l in lines), lines
    assert not drift(rig, "--live")


def test_live_sees_that_another_slug_answers(rig, up):
    """A slug whose handler is said to be where this one's gate is: a refusal from there is an answer."""
    plan = rig.plan("seen")
    plan["slug"], plan["handler"]["address"] = "other", plan["gate"]["address"]
    rig.write("var/other/plan.json", plan)
    index = open(rig.path("var/index.json")).read()
    rig.write("var/index.json", dict(json.loads(index), other=77))
    try:
        lines = drift(rig, "--live")
    finally:
        rig.write("var/index.json", index)
        os.unlink(rig.path("var/other/plan.json"))
    assert any("from inside, another slug %s:8080 can be reached" % plan["gate"]["address"].split("/")[0] in l
               for l in lines), lines


def test_live_sees_that_the_bridge_drops(rig, up):
    """The control: what must answer does not, so nothing was proved."""
    gate = rig.plan("seen")["gate"]["netns"]
    rig.run("nsenter", "--net=" + gate, "ip", "link", "set", "eth1", "down")
    try:
        lines = drift(rig, "--live")
    finally:
        rig.run("nsenter", "--net=" + gate, "ip", "link", "set", "eth1", "up")
    assert any("its gate" in l and "cannot be reached" in l for l in lines), lines


def test_drift_of_spec(rig, up):
    path = rig.path("var/seen/plan.json")
    text = open(path).read()
    plan = json.loads(text)
    plan["handler"]["spec"]["process"]["args"].append("--more")
    open(path, "w").write(json.dumps(plan))
    try:
        assert any("seen.h1: its spec is not the plan's" in l for l in drift(rig))
    finally:
        open(path, "w").write(text)


def test_drift_of_namespaces(rig, up):
    netns = rig.plan("seen")["handler"]["netns"]
    rig.run("mount", "--bind", rig.plan("seen")["gate"]["netns"], netns)
    try:
        assert any("seen.h1 is not in its namespace" in l for l in drift(rig))
    finally:
        rig.run("umount", netns)
    gate = rig.plan("seen")["gate"]["netns"]
    rig.run("nsenter", "--net=" + gate, "sysctl", "-qw", "net.ipv4.ip_forward=1")
    try:
        assert any("namespace forwards" in l for l in drift(rig))
    finally:
        rig.run("nsenter", "--net=" + gate, "sysctl", "-qw", "net.ipv4.ip_forward=0")


def in_mounts(pid, what, point):
    got = subprocess.run([sys.executable, "-c", IN_MOUNTS, str(pid), what, point], capture_output=True, text=True)
    assert got.returncode == 0, got.stderr


@pytest.mark.parametrize("point,says", [("/var/lib", "/var/lib is mounted, unplanned"),
                                        ("/etc/utter", "something is mounted over /etc/utter")])
def test_drift_of_mounts(rig, up, point, says):
    pid = pid_of(rig, "seen.gate")
    in_mounts(pid, "mount", point)
    try:
        assert any(says in l for l in drift(rig))
    finally:
        in_mounts(pid, "umount", point)
    assert not drift(rig)


def cgroup_file(pid, controller, v1, v2):
    for line in open("/proc/%d/cgroup" % pid):
        _, names, group = line.rstrip("\n").split(":", 2)
        if names == "":
            path = "/sys/fs/cgroup%s/%s" % (group, v2)
        elif controller in names.split(","):
            path = "/sys/fs/cgroup/%s%s/%s" % (names, group, v1)
        else:
            continue
        if os.path.exists(path):
            return path
    raise AssertionError("no cgroup of " + controller)


def test_drift_of_limits(rig, up):
    pid = pid_of(rig, "seen.h1")
    for controller, v1, v2, value, says in (
            ("memory", "memory.limit_in_bytes", "memory.max", str(1 << 30), "memory limit in force"),
            ("pids", "pids.max", "pids.max", "max", "no limit of processes in force"),
            ("cpu", "cpu.cfs_quota_us", "cpu.max", "-1", "CPU quota in force")):
        path = cgroup_file(pid, controller, v1, v2)
        before = open(path).read().strip()
        if controller == "memory" and v1 in path:
            open(os.path.join(os.path.dirname(path), "memory.memsw.limit_in_bytes"), "w").write(value) \
                if os.path.exists(os.path.join(os.path.dirname(path), "memory.memsw.limit_in_bytes")) else None
        open(path, "w").write("max" if value == "-1" and "cpu.max" in path else value)
        try:
            assert any(says in l for l in drift(rig)), says
        finally:
            open(path, "w").write(before)


def test_drift_of_network(rig, up):
    bridge = rig.plan("seen")["bridge"]
    rig.run("ip", "link", "add", "alien0", "type", "veth", "peer", "name", "alien1")
    rig.run("ip", "link", "set", "alien0", "master", bridge)
    try:
        assert any("has a foreign port alien0" in l for l in drift(rig))
    finally:
        rig.run("ip", "link", "del", "alien0")
    rig.run("ip", "address", "add", "198.18.0.14/29", "dev", bridge)
    try:
        assert any("has an address" in l for l in drift(rig))
    finally:
        rig.run("ip", "address", "flush", "dev", bridge)


def test_drift_of_firewall(rig, up):
    rig.run("iptables", "-F", "UTTER-FORWARD")
    assert any("firewall rules are not in force" in l for l in drift(rig))
    rig.ok("up", up)
    assert not drift(rig)


def test_drift_of_route(rig, up):
    """With a directory in the settings; no Traefik runs, which is a drift of its own."""
    rig.settings["traefik"] = {"dynamicDir": rig.path("traefik"), "entryPoint": "web", "port": 18080}
    rig.write("deploy.json", rig.settings)
    rig.run("cp", rig.path("deploy.json"), "/etc/utter/deploy.json")
    try:
        lines = drift(rig)
        assert any("utter-seen.yaml is not the plan's" in l for l in lines)
        assert any("route:" in l for l in lines)
    finally:
        del rig.settings["traefik"]
        rig.write("deploy.json", rig.settings)
        rig.run("cp", rig.path("deploy.json"), "/etc/utter/deploy.json")


def test_drift_of_the_gates_configuration(rig, up):
    path = rig.path("var/seen/gate/gate.json")
    text = open(path).read()
    open(path, "w").write(text.replace("0.01", "0.02"))
    try:
        assert any("gate/gate.json is not the plan's" in l for l in drift(rig))
    finally:
        open(path, "w").write(text)


def test_a_member_that_ended(rig, up):
    os.kill(pid_of(rig, "seen.h1"), 9)
    rig.until(lambda: "STOPPED" in rig.run("ctr", "-a", rig.sock, "-n", "utter", "task", "ls").stdout)
    assert any("seen.h1 is stopped" in l for l in drift(rig))
    rig.ok("up", up)
    assert not drift(rig)


@pytest.mark.parametrize("days,says", [(5, "note"), (90, "ok")])
def test_doctor_warns_of_a_certificate_that_ends(rig, days, says):
    """From a file, as the endpoint names it: less than 14 days are told."""
    os.makedirs(rig.path("certd"), exist_ok=True)
    cert, key = rig.path("certd/cert.pem"), rig.path("certd/key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
                    str(days), "-subj", "/CN=certd.example", "-out", cert, "-keyout", key], check=True, capture_output=True)
    rig.ok("up", rig.endpoint("certd", payee=9, extra="tls: {certFile: ./cert.pem, keyFile: ./key.pem}\n"))
    line = [l for l in rig.deploy("doctor").stdout.split("\n") if " certificates " in l][0]
    rig.ok("down", "--purge", "certd")
    assert line.startswith(says) and "certd: " in line and "ends in " in line, line
