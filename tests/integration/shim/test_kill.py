"""kill -9 of shim, Sentry, gofer and containerd in each phase: nothing is left, and a restarted containerd finds its tasks."""
import os
import signal
import time

import grpc
import pytest

from harness import spec as specs
from harness.wait import until

PARTS = {"shim": "containerd-shim-utter", "sentry": "runsc-sandbox", "gofer": "runsc-gofer"}
PHASES = ["created", "running", "exec", "deleting"]


def kill_part(host, part, id):
    """SIGKILLs the processes of task id whose command line names the part."""
    hit = []
    for pid, command in host.space.descendants().items():
        if PARTS[part] in command and id in command:
            os.kill(pid, signal.SIGKILL)
            hit.append(pid)
    assert hit, "no %s of %s among %s" % (part, id, sorted(host.space.descendants().values()))


def bring_to(host, phase):
    task = host.task(["/bin/probe", "sleep"]).create()
    if phase != "created":
        task.start()
    if phase == "exec":
        if not host.current:
            pytest.skip("exec is refused on this runsc (test_lifecycle shows it)")
        task.exec(specs.process(["/bin/probe", "sleep"])).start()
    if phase == "deleting":
        task.kill()
        task.wait()
    return task


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("part", sorted(PARTS))
def test_kill_9(host, part, phase):
    task = bring_to(host, phase)
    if phase == "deleting" and part != "shim":
        pytest.skip("an ended sandbox has no %s left to kill" % part)
    kill_part(host, part, task.id)
    if phase != "deleting":
        until(lambda: gone_or_stopped(task), 30, "the task is stopped or gone", 0.1)


def gone_or_stopped(task):
    try:
        return task.state().status == 3
    except grpc.RpcError as error:
        return error.code() in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNAVAILABLE)


@pytest.mark.parametrize("phase", PHASES)
def test_containerd_killed_and_restarted_finds_its_tasks(host, phase):
    task = bring_to(host, phase)
    host.containerd.kill9()
    host.start_containerd()
    states = {"created": 1, "running": 2, "exec": 2, "deleting": 3}
    assert until(lambda: task.state().status, 30, "state after the restart") == states[phase]
    if phase in ("running", "exec"):
        task.kill()
        assert task.wait() == 137


@pytest.mark.core
def test_ends_while_containerd_is_down(host):
    task = host.task(["/bin/sh", "-c", "sleep 2; exit 6"]).create().start()
    host.containerd.kill9()
    time.sleep(4)
    host.start_containerd()
    assert task.wait() == 6


def test_timeout_while_containerd_is_down(host):
    task = host.task(["/bin/probe", "sleep"], annotations={"io.utter.timeout": "2"}).create().start()
    host.containerd.kill9()
    time.sleep(4)
    assert not [c for c in host.space.descendants().values() if "runsc-sandbox" in c and task.id in c]
    host.start_containerd()
    assert task.wait() == 124
