"""Exec: the container's own policy for every later process; exact statuses; refused where runsc does not filter it."""
import grpc
import pytest

from harness import spec as specs
from harness.wait import until

pytestmark = pytest.mark.core


@pytest.fixture
def task(host):
    return host.task(["/bin/sleep", "600"]).create().start()


def refusal(call, *args, **kw):
    with pytest.raises(grpc.RpcError) as error:
        call(*args, **kw)
    assert error.value.code() in (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.INVALID_ARGUMENT), error.value
    return error.value.details()


def test_exec_on_this_runsc(host, task):
    if not host.current:
        assert "utter: refused: exec: runsc" in refusal(task.exec, specs.process(["/bin/true"]))
        assert task.state().status == 2
        return
    for script, status in (("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 137)):
        run = task.exec(specs.process(["/bin/sh", "-c", "echo out; echo err >&2; " + script]))
        run.start()
        assert run.finish() == (status, "out\n", "err\n")


def test_fifty_short_execs_lose_no_status(host, task):
    if not host.current:
        pytest.skip("exec is refused on this runsc; test_exec_on_this_runsc shows it")
    for n in range(50):
        run = task.exec(specs.process(["/bin/sh", "-c", "exit %d" % n]))
        run.start()
        assert run.wait(20) == n
        task.client.task("DeleteProcess", run.ref(), task.pb.DeleteReply)


def test_exec_may_not_have_more_than_its_container(host, task):
    if not host.current:
        pytest.skip("exec is refused on this runsc; test_exec_on_this_runsc shows it")
    good = specs.process(["/bin/true"])
    caps = dict(good, capabilities={"effective": ["CAP_SYS_ADMIN"], "bounding": ["CAP_SYS_ADMIN"]})
    assert "capabilities" in refusal(task.exec, caps)
    assert "exec-user" in refusal(task.exec, specs.process(["/bin/true"], user=1000))
    assert "no-new-privileges" in refusal(task.exec, dict(good, noNewPrivileges=False))
    assert "env-" in refusal(task.exec, specs.process(["/bin/true"], env=["AWS_SECRET_ACCESS_KEY=abc"]))


def test_exec_of_what_is_not_there(host, task):
    if not host.current:
        pytest.skip("exec is refused on this runsc; test_exec_on_this_runsc shows it")
    run = task.exec(specs.process(["/nope"]))
    with pytest.raises(grpc.RpcError) as error:
        run.start()
    assert "/nope" in error.value.details()


def test_the_end_of_the_container_ends_its_execs(host, task):
    if not host.current:
        pytest.skip("exec is refused on this runsc; test_exec_on_this_runsc shows it")
    events = host.client.events()
    try:
        run = task.exec(specs.process(["/bin/sleep", "600"]))
        run.start()
        task.kill(9)
        assert run.wait(20) == 137 and task.wait(20) == 137
        until(lambda: events.topics(task.id).count("/tasks/exit") == 2, 20, "both exits")
        exits = [e for e in events.list if e.topic == "/tasks/exit" and task.id.encode() in e.event.value]
        assert run.exec_id.encode() in exits[0].event.value, "the exec's exit comes first"
    finally:
        events.close()
