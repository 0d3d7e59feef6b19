"""Many runs: statuses stay exact and nothing is left, one after the other and twenty at once, init and exec."""
import os
import threading
import time

import grpc
import pytest

from harness import client as api
from harness import spec as specs
from harness.refusal import refused
from harness.wait import until


@pytest.mark.core
@pytest.mark.parametrize("args, status", [
    (["/bin/true"], 0), (["/bin/probe", "exit", "7"], 7), (["/bin/probe", "exit", "255"], 255),
    (["/bin/probe", "raise", "9"], 137), (["/bin/probe", "raise", "15"], 143), (["/bin/probe", "raise", "6"], 134)])
def test_status(host, args, status):
    assert host.run(args)[0] == status


def test_much_output_arrives_whole(host):
    status, out, _ = host.run(["/bin/sh", "-c", "seq 1 200000"])
    assert status == 0
    assert out == "".join("%d\n" % n for n in range(1, 200001))


def test_missing_program_is_an_error_or_a_status(host):
    task = host.task(["/no/such/program"]).create()
    try:
        task.start()
    except grpc.RpcError as error:
        assert error.details().startswith("utter: ") or "no such file" in error.details(), error.details()
        return
    assert task.wait() in (126, 127, 128)


@pytest.mark.core
def test_kill(host):
    task = host.task(["/bin/probe", "sleep"]).create().start()
    task.kill(9)
    assert task.wait() == 137
    with pytest.raises(grpc.RpcError) as error:
        task.kill(9)
    assert error.value.code() == grpc.StatusCode.NOT_FOUND


def test_twenty_created_at_once(host):
    tasks = [host.task(["/bin/probe", "exit", str(n)], memory=64 << 20) for n in range(20)]
    results, errors = {}, []

    def one(n, task):
        try:
            results[n] = task.create().start().wait(200)
        except grpc.RpcError as error:
            errors.append(error.details())

    threads = [threading.Thread(target=one, args=row) for row in enumerate(tasks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    assert errors == []
    assert results == {n: n for n in range(20)}


@pytest.mark.timeout(600)
def test_many_cycles(host, request):
    """Short-lived processes, which end before Start returns: each status exact. The leak check follows."""
    wrong = []
    for n in range(200 if request.config.getoption("--long") else 40):
        status = host.run(["/bin/probe", "exit", str(n % 200)], memory=64 << 20)[0]
        if status != n % 200:
            wrong.append((n % 200, status))
        if host.tasks:
            assert host.close_tasks() == []
    assert wrong == []


def test_exec_statuses(host, request):
    task = host.task(["/bin/probe", "sleep"]).create().start()
    if not host.current:
        with refused("exec"):
            task.exec(specs.process(["/bin/true"])).start()
        return
    for n in range(100 if request.config.getoption("--long") else 25):
        process = task.exec(specs.process(["/bin/probe", "exit", str(n)])).start()
        assert process.wait() == n
        reply = task.client.task("DeleteProcess", process.ref(), task.pb.DeleteReply)
        assert reply.exit_status == n
    process = task.exec(specs.process(["/bin/sh", "-c", "echo a; echo b >&2; exit 4"])).start()
    assert process.finish() == (4, "a\n", "b\n")
    process = task.exec(specs.process(["/bin/probe", "sleep"])).start()
    process.kill(9)
    assert process.wait() == 137
    assert task.state().status == 2


@pytest.mark.core
def test_two_tasks_of_one_id_are_one(host):
    task = host.task(["/bin/probe", "sleep"]).create().start()
    with pytest.raises(grpc.RpcError) as error:
        task.client.task("Create", task.pb.CreateTask(container_id=task.id, rootfs=task.mounts), task.pb.CreatedTask)
    assert error.value.code() == grpc.StatusCode.ALREADY_EXISTS
    assert task.state().status == 2
