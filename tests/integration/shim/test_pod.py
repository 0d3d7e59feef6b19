"""Pods through CRI: one shim and one sandbox a pod, its limits the pod's, its containers held to the policy."""

import grpc
import pytest

from harness.cri import EXITED, RUNNING
from harness.wait import until

pytestmark = pytest.mark.core


def shims(host):
    return [row for row in host.space.descendants().values() if "containerd-shim-utter-v1" in row and row.endswith("start")]


def sandboxes(host):
    return [row for row in host.space.descendants().values() if row.startswith("runsc-sandbox")]


def test_pod_with_two_containers_is_one_sandbox(host):
    pod = host.cri().pod()
    first = pod.container(["/bin/sh", "-c", "echo one; sleep 600"]).start()
    second = pod.container(["/bin/sh", "-c", "echo two; exit 5"]).start()
    code, _, log = second.finish()
    assert (code, log) == (5, "two\n")
    assert first.state().state == RUNNING
    assert len(shims(host)) == 1 and len(sandboxes(host)) == 1
    first.stop()
    assert first.state().state == EXITED
    for container in (first, second):
        container.remove()


def test_statuses_of_short_containers_in_a_pod(host):
    pod = host.cri().pod()
    for want in (0, 1, 7):
        container = pod.container(["/bin/sh", "-c", "exit %d" % want]).start()
        assert container.finish()[0] == want
        container.remove()


def test_a_workload_without_limits_or_with_capabilities_is_refused(host):
    pod = host.cri().pod()

    def with_capability(config):
        config.linux.security_context.capabilities.add_capabilities.append("NET_ADMIN")
    with pytest.raises(grpc.RpcError) as error:
        pod.container(["/bin/true"], change=with_capability).start()
    assert "utter: refused" in error.value.details() and "capabilities" in error.value.details()


def test_stopping_the_pod_ends_its_containers(host):
    pod = host.cri().pod()
    container = pod.container(["/bin/sleep", "600"]).start()
    pod.stop()
    assert container.state().state == EXITED
    until(lambda: not sandboxes(host), 10, "the sandbox is gone")


def test_exec_follows_the_runsc(host):
    pod = host.cri().pod()
    container = pod.container(["/bin/sleep", "600"]).start()
    if host.current:
        assert container.exec("/bin/sh", "-c", "echo in; exit 3") == (3, "in\n", "")
    else:
        with pytest.raises(grpc.RpcError) as error:
            container.exec("/bin/true")
        assert "utter: refused: exec" in error.value.details()
