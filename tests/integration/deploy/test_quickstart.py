"""deploy/quickstart itself: killed on its way, then run whole; every claim of it holds and nothing is left."""
import fcntl
import os
import re
import signal
import subprocess
import time

import pytest

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))
QUICKSTART = os.path.join(TOP, "deploy/quickstart")
pytestmark = [pytest.mark.once, pytest.mark.timeout(400)]


def lines(*command):
    return set(subprocess.run(command, capture_output=True, text=True).stdout.split("\n")) - {""}


def tree(*places):
    return {os.path.join(d, n) for p in places for d, folders, files in os.walk(p) for n in folders + files
            if "/utter/runsc" not in os.path.join(d, n)}


def host():
    """What a run could leave."""
    return {
        "links": {l.split()[0] for l in lines("ip", "-br", "link")},
        "rules": {re.sub(r"\[.*", "", l) for l in lines("iptables-save") if not l.startswith("#")},
        "files": tree("/etc/utter", "/run/utter", "/var/lib/utter", "/run/utter-quickstart", "/var/lib/utter-quickstart"),
        "mounts": {l.split()[1] for l in lines("cat", "/proc/self/mounts") if "utter" in l},
        "processes": {l for l in lines("ps", "-eo", "args")
                      if "/var/lib/utter-quickstart" in l or "/run/utter-quickstart" in l},
        "groups": {l for l in lines("find", "/sys/fs/cgroup", "-type", "d", "-path", "*/utter/*")},
    }


@pytest.fixture
def turn():
    with open("/tmp/ut-deploy-rig.lock", "w") as lock:  # slugs name control groups: one deployment at a time
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def environment(request):
    return dict(os.environ, UTTER_PROGRAMS=os.path.join(os.path.abspath(request.config.getoption("--build")), "bin"))


def test_quickstart(turn, environment):
    before = host()
    killed = subprocess.Popen([QUICKSTART], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=environment,
                              start_new_session=True)
    for line in killed.stdout:
        if "before: buyer" in line:
            break
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    assert os.path.exists("/run/utter-quickstart/containerd.pid")
    began = time.monotonic()
    got = subprocess.run([QUICKSTART], stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment)
    assert got.returncode == 0, got.stdout[-4000:] + got.stderr
    assert "✗" not in got.stdout and "every claim above was checked" in got.stdout
    assert time.monotonic() - began < 120
    claims = [l for l in got.stdout.split("\n") if "✓" in l]
    assert len(claims) >= 35, claims
    for said in ("HTTP 402, price 0.01", "is not charged (HTTP 502)", "HTTP 413", "fork bomb is contained and not charged",
                 "memory bomb is contained and not charged", "does not reach the internet", "refused after the call (403",
                 "refused without a token (401", "not reachable around the proxy", "0 drifts"):
        assert any(said in c for c in claims), said
    assert "through Traefik" in got.stdout or "SKIP Traefik" in got.stdout
    assert "what an earlier run left" in got.stdout
    after = host()
    for what in before:
        assert after[what] <= before[what], what


def test_a_wrong_option_is_told(environment):
    got = subprocess.run([QUICKSTART, "--kep"], capture_output=True, text=True)
    assert got.returncode == 2 and "--keep" in got.stderr
