"""Paths that an API client names are each a way into the host: what is no FIFO, no snapshot, no own file is refused,
and nothing of it is read, written or executed."""
import os

import grpc
import pytest

from harness.spec import changed

pytestmark = pytest.mark.core
v1 = pytest.mark.skipif(not os.path.isdir("/sys/fs/cgroup/memory"), reason="cgroup v1 only; test_cgroup2.py has it for v2")


def refusal(call, *args, **kw):
    with pytest.raises(grpc.RpcError) as error:
        call(*args, **kw)
    assert error.value.code() in (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.INVALID_ARGUMENT), error.value
    return error.value.details()


@pytest.fixture
def secret(space):
    path = space.path("secret")
    with open(path, "w") as f:
        f.write("secret\n")
    os.chmod(path, 0o600)
    yield path
    with open(path) as f:
        assert f.read() == "secret\n"
    os.unlink(path)


@pytest.mark.parametrize("stream", ["stdin", "stdout", "stderr"])
def test_a_host_file_as_a_stream(host, secret, stream):
    text = refusal(host.task(["/bin/true"]).create, **{stream: secret})
    assert "stdio" in text or "FIFO" in text


def test_a_link_to_a_fifo_as_a_stream(host, space):
    task = host.task(["/bin/true"])
    link = os.path.join(task.folder, "link")
    os.symlink(task.out.path, link)
    try:
        refusal(task.create, stdout=link)
    finally:
        os.unlink(link)


@pytest.mark.parametrize("uri", ["file:///etc/cron.d/utter-test", "binary:///bin/touch?/run/touched=x",
                                 "binary:///bin/sh?-c=id", "unix:///run/x", "relative"])
def test_loggers_that_are_not_configured(host, uri):
    assert "stdio" in refusal(host.task(["/bin/true"]).create, stdout=uri, stderr=uri)
    assert not os.path.exists("/etc/cron.d/utter-test") and not os.path.exists("/run/touched")


def mount(task, **kw):
    return [task.client.pb.Mount(**kw)]


def test_root_file_system_sources(host, space):
    for type, source, options in (
            ("overlay", "overlay", ["lowerdir=/:/tmp"]),
            ("overlay", "overlay", ["lowerdir=/etc:/usr", "upperdir=/tmp", "workdir=/tmp"]),
            ("bind", "/", ["rbind", "ro"]),
            ("bind", "/etc", ["rbind", "ro"]),
            ("bind", space.path("c-root"), ["rbind", "rw"]),
            ("tmpfs", "tmpfs", []),
            ("nfs", "host:/x", [])):
        task = host.task(["/bin/true"])
        text = refusal(task.create, rootfs=mount(task, type=type, source=source, target="", options=options))
        assert "utter: refused: rootfs-" in text


def test_a_link_below_the_snapshotter_is_not_followed(host, space):
    task = host.task(["/bin/true"])
    upper = [o.split("=", 1)[1] for m in task.mounts for o in m.options if o.startswith("upperdir=")][0]
    link = os.path.join(upper, "evil")
    os.symlink("/etc", link)
    try:
        refusal(task.create, rootfs=mount(task, type="bind", source=link, target="", options=["rbind"]))
    finally:
        os.unlink(link)


def test_root_path_of_the_host(host):
    text = refusal(host.task(["/bin/true"], change=lambda s: changed(s, "/root/path", "/")).create)
    assert "root-path" in text


def test_nothing_at_all_as_root(host):
    assert "rootfs-" in refusal(host.task(["/bin/true"]).create, rootfs=[])


@v1
def test_populated_cgroup_is_not_taken_over(host, space):
    task = host.task(["/bin/true"])
    group = "/sys/fs/cgroup/memory/%s/%s" % (task.client.namespace, task.id)
    os.makedirs(group)
    pid = os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "60")
    try:
        with open(group + "/cgroup.procs", "w") as f:
            f.write(str(pid))
        text = refusal(task.create)
        assert "cgroups-path" in text and str(pid) in text
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.rmdir(group)
        os.rmdir(os.path.dirname(group))


@v1
def test_stale_cgroup_is_made_anew(host):
    task = host.task(["/bin/sleep", "600"], memory=64 << 20)
    group = "/sys/fs/cgroup/memory/%s/%s" % (task.client.namespace, task.id)
    os.makedirs(group)
    try:
        task.create().start()
        with open(group + "/memory.limit_in_bytes") as f:
            assert int(f.read()) == 64 << 20
        task.kill(9)
        task.wait()
        task.delete()
        assert not os.path.exists(group)
    finally:
        # The parent was there before in one hierarchy: the shim keeps it in all.
        for top in os.listdir("/sys/fs/cgroup"):
            parent = "/sys/fs/cgroup/%s/%s" % (top, task.client.namespace)
            if os.path.isdir(parent):
                os.rmdir(parent)
