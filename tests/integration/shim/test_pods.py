"""Pods through containerd's CRI, as kubelet makes them: one sandbox for all containers, limits that hold for it."""
import json

import grpc
import pytest

from harness.probe import lines
from harness.wait import until


@pytest.mark.core
def test_pod_with_two_containers(host):
    pod = host.cri().pod()
    first = pod.container(["/bin/probe", "burn", "2", "--", "sleep"], user=1000).start()
    second = pod.container(["/bin/probe", "status", "--", "ifaces", "--", "exit", "9"], user=1000).start()
    status, _, log = second.finish()
    assert status == 9
    seen = lines(log)
    assert seen["status"]["CapEff"] == "0" * 16 and seen["status"]["Seccomp"] == "2"
    assert [a for a in seen["ifaces"]["addresses"] if a.split()[0] not in ("lo", "eth0")] == []
    assert not [a for a in seen["ifaces"]["addresses"] if "fe80" in a], "IPv6 link-local reaches the host"
    sandboxes = [c for c in host.space.descendants().values() if c.startswith("runsc-sandbox") and pod.id in c]
    assert len(sandboxes) == 1, sandboxes
    until(lambda: first.stats().cpu.usage_core_nano_seconds.value, 30, "CPU time in the container's stats", 0.2)
    first.stop()
    assert first.state().exit_code in (137, 143)
    first.remove()
    second.remove()


def test_exec_in_a_pod(host):
    pod = host.cri().pod()
    container = pod.container(["/bin/probe", "sleep"], user=1000).start()
    if host.current:
        assert container.exec("/bin/probe", "exit", "6")[0] == 6
        status, out, _ = container.exec("/bin/probe", "status")
        assert lines(out)["status"]["CapEff"] == "0" * 16
    else:
        with pytest.raises(grpc.RpcError) as error:
            container.exec("/bin/true")
        assert "utter: " in error.value.details() and "exec" in error.value.details()


def refused_container(pod, **kw):
    with pytest.raises(grpc.RpcError) as error:
        pod.container(["/bin/probe", "true"], **kw).start()
    assert "utter: refused: " in error.value.details(), error.value.details()


def test_soft_containers_are_refused(host):
    pod = host.cri().pod()
    def no_drop(config):
        del config.linux.security_context.capabilities.drop_capabilities[:]
    def escalation(config):
        config.linux.security_context.no_new_privs = False
    def writable(config):
        config.linux.security_context.readonly_rootfs = False
    def unlimited(config):
        config.linux.resources.memory_limit_in_bytes = 0
    def privileged(config):
        config.linux.security_context.privileged = True
    for change in (no_drop, escalation, writable, unlimited):
        refused_container(pod, change=change)
    refused_container(pod, env=[("API_KEY", "sk-live-0123456789abcdef0123456789abcdef")])
    with pytest.raises(grpc.RpcError):
        pod.container(["/bin/probe", "true"], change=privileged).start()


def test_pods_without_limits_or_with_host_namespaces_are_refused(host):
    cri = host.cri()
    def host_network(config):
        config.linux.security_context.namespace_options.network = 2
    def host_pid(config):
        config.linux.security_context.namespace_options.pid = 2
    for change, kw in ((host_network, {}), (host_pid, {}), (None, {"memory": 0}), (None, {"quota": 0})):
        pod = cri.pod(change=change, run=False, **kw)
        with pytest.raises(grpc.RpcError) as error:
            pod.run()
        assert "utter: refused: " in error.value.details(), error.value.details()


@pytest.mark.core
def test_limits_of_the_pod_hold(host):
    pod = host.cri().pod(memory=128 << 20)
    container = pod.container(["/bin/probe", "membomb", "512"], memory=128 << 20).start()
    status, reason, _ = container.finish()
    assert status == 137
    assert reason == "OOMKilled"


def test_bombs_of_all_uids_at_once(host):
    host.write_policy(max={"pids": 32})
    pod = host.cri().pod(memory=256 << 20)
    users = (1000, 1001, 1002)
    bombs = [pod.container(["/bin/probe", "forkbomb", "1000", "5"], user=user, quota=10000, memory=64 << 20).start()
             for user in users]
    for bomb in bombs:
        status, _, log = bomb.finish(120)
        assert status == 0, "the sandbox must live"
        assert lines(log)["forkbomb"]["errno"] == "EAGAIN"


def test_a_pod_out_of_memory_leaves_nothing(host):
    """One container breaks the pod's limit and takes the others with it; the leak check follows."""
    pod = host.cri().pod(memory=96 << 20)
    others = [pod.container(["/bin/probe", "sleep"], user=user, memory=64 << 20).start() for user in (1001, 1002)]
    bomb = pod.container(["/bin/probe", "membomb", "512"], user=1000, memory=96 << 20).start()
    assert bomb.finish(120)[0] == 137
    assert [other.finish(120)[0] for other in others] == [137, 137]


def test_spoofed_pod_annotations_outside_cri(host):
    from harness.refusal import refused
    pod = host.cri().pod()
    spoof = {"io.kubernetes.cri.container-type": "container", "io.kubernetes.cri.sandbox-id": pod.id}
    task = host.task(["/bin/probe", "true"], annotations=spoof)
    with refused():
        task.create()
    assert pod.state() == 0


def test_containerd_restart_keeps_the_pod(host):
    cri = host.cri()
    pod = cri.pod()
    container = pod.container(["/bin/probe", "sleep"]).start()
    host.containerd.kill9()
    host.start_containerd()
    until(lambda: cri.ready(), 60, "CRI answers again")
    assert until(lambda: container.state().state == 1, 30, "the container still runs")
    container.stop()
