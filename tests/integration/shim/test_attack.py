"""A hostile API client: paths, cgroups, orders and sizes that no tool sends."""
import os
import threading

import grpc
import pytest

from harness import client as api
from harness import spec as specs
from harness.refusal import refused
from harness.spec import changed
from harness.wait import until


def any_error(call):
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value


# ---- IO ----

def test_stdout_that_is_a_host_file(host, space):
    path = space.path("secret")
    with open(path, "w") as f:
        f.write("host secret\n")
    os.chmod(path, 0o600)
    task = host.task(["/bin/sh", "-c", "cat <&1; echo written"])
    with refused():
        task.create(stdout=path)
    assert open(path).read() == "host secret\n"
    os.unlink(path)


def test_stdin_that_is_a_host_file(host):
    task = host.task(["/bin/cat"])
    with refused():
        task.create(stdin="/etc/shadow")


def test_stdout_symlink_to_a_fifo(host, space):
    path = space.path("link")
    task = host.task(["/bin/true"])
    os.symlink(task.out.path, path)
    try:
        with refused():
            task.create(stdout=path)
    finally:
        os.unlink(path)


@pytest.mark.parametrize("uri", ["file:///etc/cron.d/x", "file:///run/out", "binary:///bin/sh?-c=touch%20/run/ran",
                                 "binary:///usr/bin/touch?/run/ran", "npipe:///x", "fifo:///x", "unix:///run/c.sock"])
def test_loggers_that_are_not_configured(host, uri):
    task = host.task(["/bin/true"])
    error = any_error(lambda: task.create(stdout=uri, stderr=uri))
    assert "utter: " in error.details() or "unsupported" in error.details(), error.details()
    assert not os.path.exists("/etc/cron.d/x") and not os.path.exists("/run/ran") and not os.path.exists("/run/out")


# ---- root filesystem ----

@pytest.mark.parametrize("mount", [
    ("bind", "/", ["rbind", "ro"]), ("bind", "/etc", ["rbind", "ro"]), ("overlay", "overlay", ["lowerdir=/", "ro"]),
    ("overlay", "overlay", ["lowerdir=/etc:/usr"]), ("proc", "proc", []), ("tmpfs", "tmpfs", []),
    ("ext4", "/dev/vda", ["ro"]), ("nfs", "10.0.0.1:/", [])])
def test_rootfs_sources_of_the_host(host, mount):
    task = host.task(["/bin/cat", "/etc/shadow"])
    kind, source, options = mount
    row = task.pb.Mount(type=kind, source=source, options=options)
    with refused():
        task.create(rootfs=[row])


def test_rootfs_through_a_symlink_in_a_snapshot(host):
    """The upper folder of the caller's own snapshot swapped for a link to the host's root."""
    task = host.task(["/bin/cat", "/etc/shadow"])
    upper = [o[9:] for m in task.mounts for o in m.options if o.startswith("upperdir=")]
    assert upper
    os.rename(upper[0], upper[0] + ".real")
    os.symlink("/", upper[0])
    try:
        with refused():
            task.create()
    finally:
        os.unlink(upper[0])
        os.rename(upper[0] + ".real", upper[0])


def test_no_rootfs_mount_at_all(host):
    task = host.task(["/bin/true"])
    with refused():
        task.create(rootfs=[])


# ---- cgroups ----

def make_leaf(host, id):
    made = []
    for kind in sorted(os.listdir("/sys/fs/cgroup")):
        if kind == "unified" or os.path.islink("/sys/fs/cgroup/" + kind):
            continue
        parent = "/sys/fs/cgroup/%s/%s" % (kind, host.namespace)
        for folder in (parent, parent + "/" + id):
            if not os.path.isdir(folder):
                os.mkdir(folder)
                made.append(folder)
    return made


def test_stale_leaf_is_made_anew(host):
    if not os.path.isdir("/sys/fs/cgroup/memory"):
        pytest.skip("cgroup v1 only")
    id = api.unique()
    made = make_leaf(host, id)
    task = host.task(["/bin/probe", "sleep"], id=id, memory=64 << 20).create().start()
    path = "/sys/fs/cgroup/memory/%s/%s/memory.limit_in_bytes" % (host.namespace, id)
    assert open(path).read().strip() == str(64 << 20)
    task.kill()
    task.wait()
    task.delete()
    assert not os.path.isdir(made[1]), "the leaf is ours to remove"
    for folder in reversed(made):
        until(lambda: remove(folder), 10, "the parent that the test made can be removed")


def test_populated_leaf_is_refused(host):
    if not os.path.isdir("/sys/fs/cgroup/memory"):
        pytest.skip("cgroup v1 only")
    import subprocess
    id = api.unique()
    made = make_leaf(host, id)
    sleeper = subprocess.Popen(["sleep", "1000"])
    try:
        with open("/sys/fs/cgroup/memory/%s/%s/cgroup.procs" % (host.namespace, id), "w") as f:
            f.write(str(sleeper.pid))
        task = host.task(["/bin/probe", "true"], id=id)
        with refused(str(sleeper.pid)):
            task.create()
        assert sleeper.poll() is None, "the other process must live"
    finally:
        sleeper.kill()
        sleeper.wait()
        for folder in reversed(made):
            until(lambda: remove(folder), 10, "the leaf can be removed")


def remove(folder):
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        pass
    except OSError:
        return False
    return True


# ---- exec ----

EXECS = {
    "caps": ("/capabilities/effective", ["CAP_SYS_ADMIN"]), "bounding": ("/capabilities/bounding", ["CAP_NET_RAW"]),
    "nnp": ("/noNewPrivileges", False), "nnp-absent": ("/noNewPrivileges", None), "user": ("/user", {"uid": 0, "gid": 0}),
    "groups": ("/user", {"uid": 1000, "gid": 1000, "additionalGids": [0]}), "env": ("/env/-", "A=b"),
    "secret": ("/env/-", "API_KEY=sk-live-1234567890abcdef1234567890"), "selinux": ("/selinuxLabel", "x"),
    "unknown": ("/surprise", 1),
}


@pytest.mark.parametrize("case", sorted(EXECS))
def test_exec_never_gets_more(host, case):
    task = host.task(["/bin/probe", "sleep"], user=1000).create().start()
    process = changed(specs.process(["/bin/probe", "status"], user=1000), *EXECS[case])
    with refused():
        task.exec(process).start()
    assert task.state().status == 2


def test_exec_keeps_the_limits_of_its_container(host):
    from harness.probe import lines
    if not host.current:
        pytest.skip("exec is refused on this runsc (test_lifecycle shows it)")
    task = host.task(["/bin/probe", "sleep"], user=1000).create().start()
    process = changed(specs.process(["/bin/probe", "status"], user=1000), "/rlimits",
                      [{"type": "RLIMIT_NPROC", "hard": 9999, "soft": 9999}])
    status, out, _ = task.exec(process).start().finish()
    assert lines(out)["status"]["nproc"] == [64, 64]


def test_exec_of_bytes_that_are_no_process(host):
    task = host.task(["/bin/probe", "sleep"]).create().start()
    for data in (b"", b"{", b"[]", b'{"args":["/bin/true"],"ARGS":["/bin/sh"]}', b"\xff" * 100, b"[" * 100000):
        request = task.pb.ExecTask(container_id=task.id, exec_id=api.unique("x"), spec=task.client.any("Process", data))
        any_error(lambda: task.client.task("Exec", request))
    assert task.state().status == 2


# ---- order and size of calls ----

def test_calls_in_the_wrong_order(host):
    task = host.task(["/bin/probe", "sleep"])
    for method, reply in (("Start", task.pb.StartedTask), ("Wait", task.pb.ExitReply), ("Delete", task.pb.DeleteReply)):
        any_error(lambda: task.client.task(method, task.ref(), reply, 20))
    task.create()
    any_error(lambda: task.client.task("Pause", task.ref(), None, 20))
    task.start()
    any_error(lambda: task.start())
    any_error(lambda: task.client.task("Delete", task.ref(), task.pb.DeleteReply, 20))
    any_error(lambda: task.client.task("Resume", task.ref(), None, 20))
    any_error(lambda: task.client.task("Checkpoint", task.ref(), None, 20))
    any_error(lambda: task.client.task("Kill", task.ref(task.pb.KillTask, signal=12345), None, 20))
    assert task.state().status == 2
    task.kill()
    task.wait()
    any_error(lambda: task.client.task("Pause", task.ref(), None, 20))


def test_kill_during_start(host):
    task = host.task(["/bin/probe", "sleep"]).create()
    thread = threading.Thread(target=lambda: ignore(task.start))
    thread.start()
    ignore(lambda: task.kill(9))
    thread.join(60)
    ignore(lambda: task.kill(9))
    assert task.wait(60) == 137


def ignore(call):
    try:
        call()
    except grpc.RpcError:
        pass


def test_bundle_changed_after_create(host):
    """config.json rewritten after Create must not matter: runsc was given our own document."""
    import json
    task = host.task(["/bin/probe", "status"]).create()
    path = "/run/c-state/io.containerd.runtime.v2.task/%s/%s/config.json" % (host.namespace, task.id)
    spec = json.load(open(path))
    spec["process"]["capabilities"] = {"effective": ["CAP_SYS_ADMIN"], "bounding": ["CAP_SYS_ADMIN"]}
    with open(path, "w") as f:
        json.dump(spec, f)
    status, out, _ = task.start().finish()
    assert status == 0 and '"CapEff":"0000000000000000"' in out


@pytest.mark.parametrize("id", ["a" * 76, "x.y_z-1"])
def test_odd_ids_that_containerd_takes(host, id):
    assert host.run(["/bin/probe", "exit", "5"], id=id)[0] == 5


def test_seccomp_of_the_caller_cannot_let_mount_through(host):
    profile = {"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86_64"], "syscalls": [
        {"names": ["mount", "unshare", "clone3", "ptrace"], "action": "SCMP_ACT_ALLOW"}]}
    seen = host.probe("escape", change=lambda s: changed(s, "/linux/seccomp", profile))
    assert [n for n in ("mount:tmpfs", "unshare:user", "ptrace", "clone3:plain") if seen[n]["ok"]] == []
