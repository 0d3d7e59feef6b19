"""A container's life through containerd's API: states, statuses, streams, events. Real containerd, real runsc."""
import concurrent.futures
import os
import threading
import time

import grpc
import pytest

from harness.spec import changed
from harness.wait import until

CREATED, RUNNING, STOPPED, PAUSED = 1, 2, 3, 4
core = pytest.mark.core


def refused(code, call, *args, **kw):
    with pytest.raises(grpc.RpcError) as error:
        call(*args, **kw)
    assert error.value.code() == code, error.value.details()
    return error.value.details()


def status_of(task):
    return task.state().status


@core
@pytest.mark.parametrize("script,status", [("exit 0", 0), ("exit 7", 7), ("exit 255", 255),
                                           ("kill -SEGV $$", 139), ("kill -KILL $$", 137), ("kill -USR1 $$", 138)])
def test_status_is_exact(host, script, status):
    assert host.run(["/bin/sh", "-c", script])[0] == status


def test_status_of_a_process_that_ends_before_start_returns(host):
    for _ in range(10):
        assert host.run(["/bin/true"])[0] == 0
        assert host.run(["/bin/sh", "-c", "exit 3"])[0] == 3


@core
def test_a_start_that_comes_late(host):
    """The start that waits beside a create is ended when nobody wants it; a later one is made anew."""
    starts = lambda: [line for line in host.space.descendants().values()
                      if task.id in line and "/runsc " in line and " start " in line]
    task = host.task(["/bin/sh", "-c", "exit 9"]).create()
    until(lambda: not starts(), 15, "no runsc waits for a start")
    assert task.start().finish()[0] == 9


@core
def test_output_is_complete(host):
    status, out, err = host.run(["/bin/sh", "-c", "i=0; while [ $i -lt 4000 ]; do echo "
                                 "0123456789012345678901234567890123456789; i=$((i+1)); done; echo end >&2"])
    assert status == 0 and len(out) == 4000 * 41 and err == "end\n"


@core
def test_states_and_what_each_refuses(host):
    task = host.task(["/bin/sleep", "600"]).create()
    assert status_of(task) == CREATED
    refused(grpc.StatusCode.ALREADY_EXISTS, task.create)
    refused(grpc.StatusCode.FAILED_PRECONDITION, task.client.task, "Pause", task.ref())
    task.start()
    assert status_of(task) == RUNNING and task.pid > 1
    refused(grpc.StatusCode.FAILED_PRECONDITION, task.start)
    assert "running" in refused(grpc.StatusCode.FAILED_PRECONDITION, task.delete)
    task.kill(9)
    assert task.wait() == 137
    assert status_of(task) == STOPPED
    refused(grpc.StatusCode.NOT_FOUND, task.kill, 9)
    refused(grpc.StatusCode.FAILED_PRECONDITION, task.start)
    assert task.delete() == 137


@core
def test_pause_holds_and_a_paused_container_can_be_killed(host):
    task = host.task(["/bin/sh", "-c", "while true; do echo x; sleep 0.05; done"]).create().start()
    until(lambda: task.out.data, 10, "output")
    task.client.task("Pause", task.ref())
    assert status_of(task) == PAUSED
    time.sleep(0.2)
    before = len(task.out.data)
    time.sleep(0.5)
    assert len(task.out.data) == before
    task.client.task("Resume", task.ref())
    assert status_of(task) == RUNNING
    until(lambda: len(task.out.data) > before, 10, "output after resume")
    task.client.task("Pause", task.ref())
    task.kill(9)
    assert task.wait(20) == 137


def test_resume_of_a_task_that_was_signalled_while_paused(host):
    """The signal acts after the resume; the resume is no error, however fast the process ends."""
    for _ in range(5):
        task = host.task(["/bin/sh", "-c", "trap 'exit 42' TERM; echo ready; while true; do sleep 0.01; done"]).create().start()
        until(lambda: b"ready" in task.out.data, 20, "ready")
        task.client.task("Pause", task.ref())
        killer = threading.Thread(target=lambda: task.kill(15))
        killer.start()
        task.client.task("Resume", task.ref())
        assert task.wait(20) == 42
        killer.join(20)


def test_resume_of_a_task_that_was_killed_while_paused(host):
    """SIGKILL does not wait for the resume: what is left to say is that there is nothing to resume."""
    task = host.task(["/bin/sleep", "600"]).create().start()
    task.client.task("Pause", task.ref())
    task.kill(9)
    try:
        task.client.task("Resume", task.ref())
    except grpc.RpcError as error:
        assert error.code() in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION), error.details()
        assert "runsc" not in error.details(), error.details()
    assert task.wait(20) == 137


def test_a_handled_signal_is_the_programs_own(host):
    task = host.task(["/bin/sh", "-c", "trap 'exit 42' TERM; echo ready; while true; do sleep 0.1; done"])
    task.create().start()
    until(lambda: b"ready" in task.out.data, 20, "ready")
    task.kill(15)
    assert task.wait(20) == 42


def test_a_created_container_can_be_killed_and_deleted(host):
    task = host.task(["/bin/sleep", "600"]).create()
    task.kill(9)
    assert task.wait(20) == 137
    task.delete()
    other = host.task(["/bin/sleep", "600"]).create()
    other.delete()


def test_stdin_ends_with_close_io(host):
    task = host.task(["/bin/sh", "-c", "cat; echo end"])
    path = os.path.join(task.folder, "stdin")
    os.mkfifo(path)
    keep = os.open(path, os.O_RDWR)
    try:
        task.create(stdin=path).start()
        os.write(keep, b"hello\n")
        until(lambda: b"hello" in task.out.data, 20, "echo of stdin")
        os.close(keep)
        keep = -1
        time.sleep(0.3)
        assert status_of(task) == RUNNING, "the shim holds stdin open until CloseIO"
        task.client.task("CloseIO", task.ref(task.pb.CloseIO, stdin=True))
        assert task.wait(20) == 0
        assert task.out.text().endswith("end\n")
    finally:
        if keep >= 0:
            os.close(keep)
        os.unlink(path)


@core
def test_events_are_in_order(host):
    events = host.client.events()
    try:
        task = host.task(["/bin/true"]).create().start()
        task.finish()
        task.delete()
        until(lambda: "/tasks/delete" in events.topics(task.id), 20, "the delete event")
        mine = [t for t in events.topics(task.id) if t.startswith("/tasks/")]
        assert mine == ["/tasks/create", "/tasks/start", "/tasks/exit", "/tasks/delete"]
    finally:
        events.close()


@core
def test_timeout_ends_with_124(host):
    task = host.task(["/bin/sleep", "600"], annotations={"io.utter.timeout": "1"})
    began = time.monotonic()
    task.create().start()
    assert task.wait(20) == 124
    assert 0.9 < time.monotonic() - began < 6
    assert status_of(task) == STOPPED
    assert task.delete() == 124


def test_timeout_is_not_stopped_by_pause(host):
    task = host.task(["/bin/sleep", "600"], annotations={"io.utter.timeout": "2"}).create().start()
    task.client.task("Pause", task.ref())
    assert task.wait(20) == 124


@core
def test_memory_bomb_is_137_and_told_as_oom_first(host):
    events = host.client.events()
    try:
        task = host.task(["/bin/probe", "membomb", "256", "5"], memory=64 << 20).create().start()
        assert task.wait(60) == 137
        until(lambda: "/tasks/exit" in events.topics(task.id), 20, "the exit event")
        mine = [t for t in events.topics(task.id) if t in ("/tasks/oom", "/tasks/exit")]
        assert mine == ["/tasks/oom", "/tasks/exit"]
        task.delete()
    finally:
        events.close()


@core
def test_pids_and_metrics(host):
    task = host.task(["/bin/sh", "-c", "sleep 600 & sleep 601 & wait"]).create().start()
    until(lambda: len(task.pids()) == 3, 20, "three processes")
    row = task.metrics()
    assert row is not None and row.data.type_url.startswith("io.containerd.cgroups.v")
    assert len(row.data.value) > 20


@core
def test_twenty_parallel_creates(host):
    def one(n):
        return n, host.run(["/bin/sh", "-c", "exit %d" % n])[0]
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        for n, status in pool.map(one, range(20)):
            assert n == status


def test_wait_by_many_gives_all_the_same(host):
    task = host.task(["/bin/sh", "-c", "sleep 0.5; exit 9"]).create()
    got, threads = [], []
    for _ in range(8):
        threads.append(threading.Thread(target=lambda: got.append(task.wait())))
        threads[-1].start()
    task.start()
    for thread in threads:
        thread.join(30)
    assert got == [9] * 8
    assert task.wait() == 9


def test_update_takes_effect_and_is_held_to_the_policy(host):
    task = host.task(["/bin/sleep", "600"], memory=64 << 20).create().start()
    task.update({"memory": {"limit": 96 << 20}, "cpu": {"quota": 20000, "period": 100000}})
    with open("/proc/%d/cgroup" % task.pid) as f:
        rows = dict(line.strip().split(":", 2)[1:] for line in f)
    if "memory" in rows:
        with open("/sys/fs/cgroup/memory%s/memory.limit_in_bytes" % rows["memory"]) as f:
            assert int(f.read()) == 96 << 20
        with open("/sys/fs/cgroup/cpu%s/cpu.cfs_quota_us" % rows.get("cpu", rows.get("cpu,cpuacct"))) as f:
            assert int(f.read()) == 20000
    for resources in ({"memory": {"limit": 1 << 40}}, {"memory": {"limit": -1}}, {"pids": {"limit": 4096}}):
        assert "utter: refused" in refused(grpc.StatusCode.FAILED_PRECONDITION, task.update, resources)


def test_terminal(host):
    """A terminal of its own, its size by ResizePty, its output over the FIFO."""
    change = lambda spec: changed(spec, "/process/terminal", True)
    task = host.task(["/bin/sh", "-c", "tty; sleep 0.7; stty size; exit 4"], change=change)
    task.create(terminal=True, stderr="").start()
    task.client.task("ResizePty", task.ref(task.pb.ResizePty, width=101, height=37))
    assert task.wait(20) == 4
    text = task.out.text()
    assert "37 101" in text
