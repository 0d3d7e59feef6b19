"""kill -9 of utter-deploy at every step, then `up` or `down`: what stands is whole, or nothing is left.

A step is a message to containerd (sendmsg) or a program it starts (clone): strace ends the process at the chosen one.
"""
import os
import signal
import subprocess
import time

import pytest

pytestmark = pytest.mark.core
TURN = "kill"



def some(values, every):
    """Each `every`th always, all of them with --long."""
    return [v if i % every == 0 else pytest.param(v, marks=pytest.mark.long) for i, v in enumerate(values)]


SENDS = some((1, 6, 10, 14, 18, 22, 26, 30, 34, 38, 42, 46, 50, 55, 60), 2)
CLONES = some((6, 10, 14, 17, 20, 22, 24, 26, 28, 30, 33, 36), 2)
LATE = some((0.1, 0, 0.3, 0.7, 1.5), 2)


@pytest.fixture(scope="module")
def host(rig):
    """The host without a slug; the base image is there."""
    os.makedirs(rig.path("traefik"), exist_ok=True)
    rig.ok("up", rig.endpoint("first"))
    rig.ok("down", "--purge", "first")
    return rig.left()


def up_killed_at(rig, call, nth, file):
    """True: it was killed; False: it was through before."""
    got = rig.run("strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=" + call,
                  "-e", "inject=%s:signal=SIGKILL:when=%d" % (call, nth), rig.bin + "/utter-deploy", "up", file)
    assert got.returncode in (0, 137, -9), got.stdout + got.stderr
    return got.returncode != 0


def after(rig, host, slug, file, how):
    if how == "up":
        rig.ok("up", file)
        assert "0 drifts" in rig.ok("audit", slug)
    got = rig.deploy("down", "--purge", slug)
    assert got.returncode == 0 or "is not deployed here" in got.stderr, got.stderr
    rig.wait_left(host)


@pytest.mark.parametrize("how", ["up", "down"])
@pytest.mark.parametrize("nth", SENDS)
def test_killed_at_a_message_to_containerd(rig, host, nth, how):
    slug = "send%d-%s" % (nth, how)
    file = rig.endpoint(slug)
    up_killed_at(rig, "sendmsg", nth, file)
    after(rig, host, slug, file, how)


@pytest.mark.parametrize("how", ["up", "down"])
@pytest.mark.parametrize("nth", CLONES)
def test_killed_at_a_program_it_starts(rig, host, nth, how):
    slug = "clone%d-%s" % (nth, how)
    file = rig.endpoint(slug)
    up_killed_at(rig, "clone,clone3,vfork", nth, file)
    after(rig, host, slug, file, how)


@pytest.fixture
def slow(rig):
    """A containerd (and what it starts) that gets an eighth of a processor: what takes long takes long enough to meet."""
    group = "/sys/fs/cgroup/cpu/ut-deploy-slow-%d" % os.getpid()
    if not os.path.isdir("/sys/fs/cgroup/cpu"):
        pytest.skip("needs the cpu controller of cgroup v1")
    os.makedirs(group, exist_ok=True)
    for name, value in (("cpu.cfs_period_us", "20000"), ("cpu.cfs_quota_us", "2500"),
                        ("cgroup.procs", str(rig.containerd.pid))):
        with open(group + "/" + name, "w") as f:
            f.write(value)
    yield group
    while open(group + "/cgroup.procs").read().split():
        for pid in open(group + "/cgroup.procs").read().split():
            try:
                open("/sys/fs/cgroup/cpu/cgroup.procs", "w").write(pid)
            except OSError:
                pass
    os.rmdir(group)


@pytest.mark.parametrize("how", ["up", "down"])
@pytest.mark.parametrize("late", LATE)
@pytest.mark.parametrize("member", ["h1", "gate"])
def test_killed_while_containerd_creates(rig, host, slow, member, late, how):
    """Its bundle is there, the task is not: containerd cancels what the dead client asked for while the next one asks."""
    slug = "%s-%d-%s" % (member, late * 10, how)
    file = rig.endpoint(slug)
    child = subprocess.Popen(rig.inside(rig.bin + "/utter-deploy", "up", file), stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    bundle = rig.path("state/io.containerd.runtime.v2.task/utter/%s.%s" % (slug, member))
    rig.until(lambda: os.path.exists(bundle), 30, 0.005)
    time.sleep(late)
    child.send_signal(signal.SIGKILL)
    child.wait()
    after(rig, host, slug, file, how)


@pytest.mark.parametrize("ms", [700, 900, 1100, 1200, 1300, 1500, 1800])
def test_killed_at_a_moment_then_down(rig, host, ms):
    slug = "kill%d" % ms
    file = rig.endpoint(slug)
    child = subprocess.Popen(rig.inside(rig.bin + "/utter-deploy", "up", file), stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    time.sleep(ms / 1000)
    child.send_signal(signal.SIGKILL)
    child.wait()
    after(rig, host, slug, file, "down")


@pytest.mark.parametrize("again", range(3))
def test_a_handler_that_does_not_start_is_undone(rig, host, again):
    slug = "broken%d" % again
    file = rig.endpoint(slug)
    rig.write(slug + "/handler/main.py", "import nothing_like_this\n")
    got = rig.deploy("up", file)
    assert got.returncode == 1
    assert "step handler" in got.stderr and "it ended with status 1" in got.stderr
    assert "undo" not in got.stdout + got.stderr
    rig.wait_left(host)
    assert not os.path.exists(rig.path("var", slug))
