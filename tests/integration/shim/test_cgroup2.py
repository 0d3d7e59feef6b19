"""Unified cgroup v2: values in the leaf, leaves that were there before, memory without swap, the systemd driver."""
import os
import subprocess

import pytest

from harness import client as api
from harness.refusal import refused
from harness.spec import changed
from harness.wait import until

TOP = "/sys/fs/cgroup"
pytestmark = pytest.mark.skipif(not os.path.exists(TOP + "/cgroup.controllers"), reason="this host has cgroup v1")
with open("/proc/1/comm") as comm:
    systemd = pytest.mark.skipif(comm.read() != "systemd\n" or not os.path.exists("/run/dbus/system_bus_socket"),
                                 reason="systemd is not pid 1 here")


def values(group):
    names = ("memory.max", "memory.swap.max", "memory.oom.group", "pids.max", "cpu.max")
    return {name: open(os.path.join(group, name)).read().strip() for name in names}


def wanted(memory=64 << 20, pids=40, cpu="30000 100000"):
    """Swap equals memory in the spec: none of it is swap. The host's pids leave the Sentry its own."""
    return {"memory.max": str(memory), "memory.swap.max": "0", "memory.oom.group": "1",
            "pids.max": str(8 * pids + 64), "cpu.max": cpu}


def group_of(pid):
    with open("/proc/%d/cgroup" % pid) as f:
        return f.read().strip().split(":", 2)[2]


def scope(id):
    """cgroupsPath of the systemd driver, and the group that it means."""
    return "system.slice:utter:" + id, "/system.slice/utter-%s.scope" % id


def placed(path):
    return lambda spec: changed(spec, "/linux/cgroupsPath", path)


def sleeper(host, id, **kw):
    return host.task(["/bin/probe", "sleep"], id=id, memory=64 << 20, quota=30000, pids=40, **kw)


def end(task):
    task.kill()
    assert task.wait() == 137
    task.delete()


def unit_state(id, name):
    done = subprocess.run(["systemctl", "show", "-P", name, "utter-%s.scope" % id], capture_output=True, text=True)
    return done.stdout.strip()


@pytest.mark.core
def test_values_are_in_the_leaf(host):
    task = sleeper(host, api.unique()).create().start()
    group = group_of(task.pid)
    assert group == "/%s/%s" % (host.namespace, task.id)
    assert values(TOP + group) == wanted()
    end(task)
    assert not os.path.exists(TOP + os.path.dirname(group)), "the leaf and the parent that it made are gone"


@pytest.mark.core
def test_update_is_in_the_leaf_and_leaves_no_swap(host):
    task = sleeper(host, api.unique()).create().start()
    task.update({"memory": {"limit": 96 << 20}, "cpu": {"quota": 20000, "period": 100000}})
    assert values(TOP + group_of(task.pid)) == wanted(memory=96 << 20, cpu="20000 100000")


@pytest.fixture
def leaf(host):
    """An empty leaf of an id that no task has yet."""
    id = api.unique()
    parent = "%s/%s" % (TOP, host.namespace)
    made = [folder for folder in (parent, parent + "/" + id) if not os.path.isdir(folder)]
    for folder in made:
        os.mkdir(folder)
    yield parent + "/" + id
    for folder in reversed(made):
        until(lambda: not os.path.isdir(folder) or not os.rmdir(folder), 10, "the folder can be removed")


@pytest.mark.core
def test_stale_leaf_is_made_anew(host, leaf):
    """runsc leaves an existing leaf without limits and says nothing."""
    task = sleeper(host, os.path.basename(leaf)).create().start()
    assert values(leaf) == wanted()
    end(task)
    assert not os.path.exists(leaf)


@pytest.mark.core
def test_populated_leaf_is_refused(host, leaf):
    other = subprocess.Popen(["sleep", "1000"])
    try:
        with open(leaf + "/cgroup.procs", "w") as f:
            f.write(str(other.pid))
        with refused(str(other.pid)):
            sleeper(host, os.path.basename(leaf)).create()
        assert other.poll() is None, "the other process must live"
    finally:
        other.kill()
        other.wait()


@systemd
@pytest.mark.core
def test_systemd_scope(host):
    """The same values in a scope that systemd knows, kept over its reload, gone with the task."""
    id = api.unique()
    path, group = scope(id)
    task = sleeper(host, id, change=placed(path)).create().start()
    assert group_of(task.pid) == group
    assert values(TOP + group) == wanted()
    assert unit_state(id, "ActiveState") == "active" and unit_state(id, "MemoryMax") == str(64 << 20)
    subprocess.run(["systemctl", "daemon-reload"], check=True)
    assert values(TOP + group) == wanted()
    task.update({"memory": {"limit": 96 << 20}, "cpu": {"quota": 20000, "period": 100000}})
    assert values(TOP + group) == wanted(memory=96 << 20, cpu="20000 100000")
    assert task.metrics() is not None
    end(task)
    assert not os.path.exists(TOP + group)
    until(lambda: unit_state(id, "LoadState") == "not-found", 10, "systemd has forgotten the scope")


@systemd
@pytest.mark.core
def test_systemd_scope_out_of_memory(host):
    """systemd removes the scope soon after its end: the count must have been read before."""
    events = host.client.events()
    id = api.unique()
    try:
        task = host.task(["/bin/probe", "membomb", "512"], id=id, memory=96 << 20, change=placed(scope(id)[0]))
        task.create().start()
        assert task.wait() == 137
        until(lambda: "/tasks/exit" in events.topics(id), 20, "the exit event")
        topics = events.topics(id)
        assert "/tasks/oom" in topics and topics.index("/tasks/oom") < topics.index("/tasks/exit")
    finally:
        events.close()


@systemd
@pytest.mark.core
def test_systemd_scope_that_is_there_is_refused(host):
    """runsc 20240729 then leaves the sandbox in its caller's cgroup, without limits, and says nothing."""
    id = api.unique()
    unit = "utter-%s.scope" % id
    other = subprocess.Popen(["systemd-run", "--quiet", "--scope", "--unit", unit, "sleep", "1000"])
    try:
        until(lambda: unit_state(id, "ActiveState") == "active", 20, "the scope is there")
        with refused("cgroups-path"):
            sleeper(host, id, change=placed(scope(id)[0])).create()
        assert other.poll() is None, "the other process must live"
    finally:
        subprocess.run(["systemctl", "kill", "-s", "KILL", unit])
        other.wait()
