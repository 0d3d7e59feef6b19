"""kill -9 of shim, Sentry, gofer and containerd at each point of a container's life: nothing is left, nothing is lost."""
import os
import shutil
import signal
import subprocess
import threading
import time

import grpc
import pytest

from harness import client as api
from harness import spec as specs
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


def bundle_of(host, task):
    return os.path.join(host.containerd.state, "io.containerd.runtime.v2.task", host.namespace, task.id)


def forgotten(host, task):
    """containerd has finished its own clean-up: no process, no bundle, no task of that name."""
    if not gone(host, task) or os.path.exists(bundle_of(host, task)):
        return False
    try:
        task.state()
    except grpc.RpcError as error:
        return error.code() == grpc.StatusCode.NOT_FOUND
    return False


@pytest.mark.parametrize("after", [0.02, 0.06])
def test_a_cancelled_create_leaves_no_shim(host, after):
    """containerd that goes away while Create runs has lost the shim: its delete ends it, and the id can be used again."""
    task = host.task(["/bin/sleep", "600"])
    request = task.pb.CreateTask(container_id=task.id, rootfs=task.mounts, stdout=task.out.path, stderr=task.err.path)
    with pytest.raises(grpc.RpcError) as error:
        task.client.task("Create", request, task.pb.CreatedTask, timeout=after)
    assert error.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    until(lambda: forgotten(host, task), 30, "containerd has cleaned up after the cancelled Create")
    task.create().start()
    task.kill(9)
    assert task.wait(20) == 137


def test_a_shim_that_nobody_dials_ends_with_its_bundle(host):
    """containerd that kills or gives up a `start` removes the bundle, and knows of no shim to end."""
    id = api.unique()
    bundle = host.space.path("undialled", id)
    os.makedirs(bundle)
    words = [os.path.join(host.bin, "containerd-shim-utter-v1"), "-namespace", host.namespace, "-address", host.containerd.address,
             "-publish-binary", "/bin/true", "-id", id, "start"]
    done = subprocess.run(words, cwd=bundle, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("unix://"), done.stdout + done.stderr
    alive = lambda: [line for line in host.space.descendants().values() if "-id %s " % id in line]
    time.sleep(6)
    assert alive(), "it waits to be dialled while its bundle is there"
    shutil.rmtree(bundle)
    until(lambda: not alive(), 20, "the shim has ended")


VICTIMS = ["shim", "sentry", "gofer", "containerd"]


def pid_of(host, task, victim):
    return {"shim": lambda: shim_of(host, task), "sentry": lambda: task.pid, "gofer": lambda: gofer_of(host, task),
            "containerd": lambda: host.containerd.process.pid}[victim]()


@pytest.mark.parametrize("victim", VICTIMS)
def test_killed_while_an_exec_runs(host, victim):
    if not host.current:
        pytest.skip("exec is refused on this runsc")
    task = host.task(["/bin/sleep", "600"]).create().start()
    process = task.exec(specs.process(["/bin/sleep", "600"])).start()
    if victim == "containerd":
        host.containerd.kill9()
        host.start_containerd()
        assert task.state().status == 2 and process.state().status == 2
        process.kill(9)
        assert process.wait(20) == 137
        assert task.state().status == 2
        return
    os.kill(pid_of(host, task, victim), signal.SIGKILL)
    if victim == "shim":
        until(lambda: forgotten(host, task), 20, "everything of the task is gone")
        task.made.remove("task")
        return
    assert process.wait(20) == 137 and task.wait(20) == 137
    task.client.task("DeleteProcess", process.ref(), task.pb.DeleteReply)
    task.delete()


@pytest.mark.parametrize("victim", VICTIMS)
def test_killed_while_deleting(host, victim):
    """At four moments of a Delete. Sentry and gofer are there only when what is deleted was never started."""
    for after in (0, 0.005, 0.02, 0.05):
        task = host.task(["/bin/sleep", "600"]).create()
        if victim in ("shim", "containerd"):
            task.start()
            task.kill(9)
            assert task.wait(20) == 137
        pid = pid_of(host, task, victim)
        answers = []

        def delete():
            try:
                task.client.task("Delete", task.ref(), task.pb.DeleteReply, 20)
                answers.append("deleted")
            except grpc.RpcError as error:
                answers.append(error.code())

        thread = threading.Thread(target=delete)
        thread.start()
        time.sleep(after)
        if victim == "containerd":
            host.containerd.kill9()
            host.start_containerd()
        else:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # the Delete was faster
        thread.join(60)
        assert len(answers) == 1
        if victim in ("sentry", "gofer"):
            assert answers == ["deleted"], answers
        elif victim == "containerd":
            until(task._gone, 30, "the restarted containerd has deleted it or lets it be deleted")
        until(lambda: forgotten(host, task), 30, "everything of the task is gone")
        if "task" in task.made:
            task.made.remove("task")
