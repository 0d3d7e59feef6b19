"""Limits that hold inside the guest: processes, memory, CPU, space; Update within the same policy."""
import glob
import os
import time

import grpc
import pytest

from harness.probe import lines
from harness import spec as specs
from harness.refusal import refused
from harness.wait import until


def cpu_ns(host, id):
    for path in glob.glob("/sys/fs/cgroup/cpuacct/%s/%s/cpuacct.usage" % (host.namespace, id)):
        with open(path) as f:
            return int(f.read())
    for path in glob.glob("/sys/fs/cgroup/%s/%s/cpu.stat" % (host.namespace, id)):
        with open(path) as f:
            return int(f.read().split()[1]) * 1000
    raise AssertionError("no CPU account of " + id)


@pytest.mark.core
@pytest.mark.parametrize("user", [0, 1000])
def test_fork_bomb_is_capped(host, user):
    task = host.task(["/bin/probe", "forkbomb", "300", "3", "--", "threadbomb", "300", "3", "--", "sleep"], user=user,
                     pids=32).create().start()
    until(lambda: b"forkbomb" in task.out.data, 60, "the bomb's line")
    assert task.metrics() is not None, "stats during the bomb"
    assert task.state().status == 2
    until(lambda: b"threadbomb" in task.out.data, 60, "the thread bomb's line")
    seen = lines(task.out.data.decode())
    assert seen["forkbomb"]["errno"] == "EAGAIN" and 20 <= seen["forkbomb"]["made"] <= 31
    assert seen["threadbomb"]["errno"] == "EAGAIN" and 20 <= seen["threadbomb"]["made"] <= 31
    time.sleep(4)  # the threads end; before, none may: those that end make room for more than the limit in all
    if host.current:
        assert task.exec(specs.process(["/bin/true"], user=user)).start().wait() == 0
    else:
        with refused("exec"):
            task.exec(specs.process(["/bin/true"], user=user)).start()
    task.kill()
    assert task.wait() == 137


def test_endless_bomb_can_be_killed(host):
    task = host.task(["/bin/probe", "bomb", "60"], pids=64).create().start()
    time.sleep(3)
    assert task.metrics() is not None
    began = time.monotonic()
    task.kill()
    assert task.wait() == 137
    assert time.monotonic() - began < 15


@pytest.mark.core
def test_memory_bomb_ends_137_with_an_event(host):
    events = host.client.events()
    try:
        task = host.task(["/bin/probe", "membomb", "512"], memory=96 << 20).create().start()
        assert task.wait() == 137
        def both():
            topics = events.topics(task.id)
            return "/tasks/oom" in topics and "/tasks/exit" in topics and topics
        topics = until(both, 20, "OOM and exit events")
        assert topics.index("/tasks/oom") < topics.index("/tasks/exit")
    finally:
        events.close()


def test_cpu_quota_holds(host):
    task = host.task(["/bin/probe", "burn", "30"], quota=20000).create().start()
    time.sleep(2)
    used, began = cpu_ns(host, task.id), time.monotonic()
    time.sleep(5)
    share = (cpu_ns(host, task.id) - used) / 1e9 / (time.monotonic() - began)
    assert 0.10 < share < 0.22, "quota 0.20, used %.3f" % share


def test_tmpfs_size_holds(host):
    seen = host.probe("fill", "/tmp", "64", user=1000, tmp_mb=8)
    assert seen["fill"]["errno"] == "ENOSPC" and seen["fill"]["mb"] <= 8


def test_values_are_in_the_cgroup(host):
    task = host.task(["/bin/probe", "sleep"], memory=64 << 20, quota=30000, pids=40).create().start()
    if os.path.isdir("/sys/fs/cgroup/memory"):
        read = lambda kind, name: open("/sys/fs/cgroup/%s/%s/%s/%s" % (kind, host.namespace, task.id, name)).read().strip()
        assert read("memory", "memory.limit_in_bytes") == str(64 << 20)
        assert read("cpu", "cpu.cfs_quota_us") == "30000"
        assert read("pids", "pids.max") == str(8 * 40 + 64)


def test_pids_absent_is_the_maximum(host):
    seen = host.probe("status", pids=0)
    assert seen["status"]["nproc"] == [256, 256]


def test_swap_is_made_equal(host):
    for swap in (-1, 0, 1 << 40, None):
        task = host.task(["/bin/probe", "true"], change=lambda s: specs.changed(s, "/linux/resources/memory/swap", swap))
        assert task.create().start().wait() == 0


def test_update_takes_effect_and_holds_the_policy(host):
    task = host.task(["/bin/probe", "sleep"]).create().start()
    task.update({"memory": {"limit": 160 << 20}, "cpu": {"quota": 25000, "period": 100000}})
    if os.path.isdir("/sys/fs/cgroup/memory"):
        path = "/sys/fs/cgroup/memory/%s/%s/memory.limit_in_bytes" % (host.namespace, task.id)
        assert open(path).read().strip() == str(160 << 20)
        path = "/sys/fs/cgroup/cpu/%s/%s/cpu.cfs_quota_us" % (host.namespace, task.id)
        assert open(path).read().strip() == "25000"
    task.update({"cpu": {"shares": 100}})
    if os.path.isdir("/sys/fs/cgroup/memory"):
        path = "/sys/fs/cgroup/cpu/%s/%s/cpu.shares" % (host.namespace, task.id)
        assert open(path).read().strip() == "100"
        task.update({"cpu": {"shares": 262144}})
        assert open(path).read().strip() == "256"  # what the quota of 25000 in 100000 is worth
    for field, bad in (("cpu.cpus", {"cpu": {"cpus": "0"}}), ("memory.reservation", {"memory": {"reservation": 64 << 20}})):
        with refused("update") as caught:
            task.update(bad)
        assert field in caught.text, caught.text
    for bad in ({"memory": {"limit": 1 << 40}}, {"memory": {"limit": -1}}, {"memory": {"limit": 0}},
                {"cpu": {"quota": -1}}, {"cpu": {"quota": 900000, "period": 100000}}, {"pids": {"limit": 4000}},
                {"memory": {"limit": 1 << 20}}):
        with refused():
            task.update(bad)
    assert task.state().status == 2


def test_unlimited_rlimits_are_unlimited_inside(host):
    most = (1 << 64) - 1
    change = lambda spec: specs.changed(spec, "/process/rlimits/-", {"type": "RLIMIT_STACK", "soft": most, "hard": most})
    assert host.run(["/bin/sh", "-c", "ulimit -s"], change=change)[:2] == (0, "unlimited\n")


def test_cpus_that_the_host_has_not(host):
    task = host.task(["/bin/true"], change=lambda spec: specs.changed(spec, "/linux/resources/cpu/cpus", "0-8191"))
    with refused("cpuset") as caught:
        task.create()
    assert 'cpus is "0-8191", this host has ' in caught.text and "leave out linux.resources.cpu.cpus" in caught.text, caught.text


def test_update_of_nothing_and_of_nonsense(host):
    task = host.task(["/bin/probe", "sleep"]).create().start()
    task.client.task  # the RPC with no resources at all crashed another shim
    try:
        task.client.task("Update", task.pb.UpdateTask(container_id=task.id))
    except grpc.RpcError:
        pass
    with pytest.raises(grpc.RpcError):
        task.client.task("Update", task.pb.UpdateTask(container_id=task.id,
                                                      resources=task.client.any("LinuxResources", b"{")))
    assert task.state().status == 2
