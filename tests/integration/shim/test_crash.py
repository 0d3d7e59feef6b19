"""kill -9 of shim, Sentry, gofer and containerd at each point of a container's life: nothing is left, nothing is lost."""
import os
import signal
import time

import grpc
import pytest

from harness.wait import until

pytestmark = pytest.mark.core


def find(host, word, id):
    rows = [pid for pid, line in host.space.descendants().items() if line.startswith(word) and id in line]
    return rows[0] if rows else 0


def shim_of(host, task):
    for pid, line in host.space.descendants().items():
        if "containerd-shim-utter-v1" in line and "-id %s " % task.id in line + " ":
            return pid
    raise AssertionError("no shim of " + task.id)


def gofer_of(host, task):
    return until(lambda: find(host, "runsc-gofer", task.id), 10, "a gofer")


def gone(host, task):
    return not [line for line in host.space.descendants().values()
                if task.id in line and ("runsc" in line or "shim" in line)]


@pytest.mark.parametrize("state", ["created", "running"])
def test_sentry_killed(host, state):
    task = host.task(["/bin/sleep", "600"]).create()
    if state == "running":
        task.start()
    began = time.monotonic()
    os.kill(task.pid, signal.SIGKILL)
    assert task.wait(20) == 137
    assert time.monotonic() - began < 3
    task.delete()


@pytest.mark.parametrize("state", ["created", "running"])
def test_gofer_killed_takes_the_sandbox_with_it(host, state):
    task = host.task(["/bin/sleep", "600"]).create()
    if state == "running":
        task.start()
    os.kill(gofer_of(host, task), signal.SIGKILL)
    assert task.wait(20) == 137
    task.delete()


@pytest.mark.parametrize("state", ["created", "running", "stopped"])
def test_shim_killed_leaves_nothing(host, state):
    task = host.task(["/bin/true" if state == "stopped" else "/bin/sleep"] + ([] if state == "stopped" else ["600"]))
    task.create()
    if state != "created":
        task.start()
    if state == "stopped":
        assert task.wait() == 0
    os.kill(shim_of(host, task), signal.SIGKILL)
    until(lambda: gone(host, task), 20, "everything of the task is gone")
    with pytest.raises(grpc.RpcError) as error:
        task.state()
    assert error.value.code() == grpc.StatusCode.NOT_FOUND
    task.made.remove("task")


def test_containerd_killed_and_back_finds_its_tasks(host):
    running = host.task(["/bin/sleep", "600"]).create().start()
    ending = host.task(["/bin/sh", "-c", "sleep 1; exit 6"]).create().start()
    host.containerd.kill9()
    time.sleep(1.5)
    host.containerd.start()
    assert running.state().status == 2
    assert until(lambda: ending.state().status == 3, 20, "the exit is seen")
    assert ending.wait(20) == 6 and ending.delete() == 6
    running.kill(9)
    assert running.wait(20) == 137


def test_timeout_works_while_containerd_is_down(host):
    task = host.task(["/bin/sleep", "600"], annotations={"io.utter.timeout": "1"}).create().start()
    host.containerd.kill9()
    time.sleep(2)
    assert not [line for line in host.space.descendants().values() if line.startswith("runsc-sandbox") and task.id in line]
    host.containerd.start()
    assert task.wait(20) == 124


def test_a_stopped_sandbox_can_be_killed(host):
    """A Sentry that answers nothing (SIGSTOP) still dies at once by SIGKILL."""
    task = host.task(["/bin/sleep", "600"]).create().start()
    os.kill(task.pid, signal.SIGSTOP)
    task.kill(9)
    assert task.wait(20) == 137


@pytest.mark.parametrize("after", [0.02, 0.06])
@pytest.mark.long  # its retry races containerd's own clean-up of the cancelled Create
def test_a_cancelled_create_leaves_no_shim(host, after):
    """containerd that goes away while Create runs has lost the shim: its delete ends it, and the id can be used again."""
    task = host.task(["/bin/sleep", "600"])
    request = task.pb.CreateTask(container_id=task.id, rootfs=task.mounts, stdout=task.out.path, stderr=task.err.path)
    try:
        task.client.task("Create", request, task.pb.CreatedTask, timeout=after)
        task.made.append("task")
        pytest.skip("the create was faster than its deadline")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    until(lambda: gone(host, task), 20, "shim and sandbox are gone")
    task.create().start()
    task.kill(9)
    assert task.wait(20) == 137
