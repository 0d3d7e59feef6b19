"""Every rule refused through containerd itself, with the text that utter-policy prints, and nothing left behind."""
import copy

import pytest

from harness import client as api
from harness.refusal import policy_check, refused
from harness.spec import changed


def mount(destination, kind="tmpfs", source="tmpfs", options=("nosuid", "noexec", "nodev", "size=4m")):
    return lambda s: changed(s, "/mounts/-", {"destination": destination, "type": kind, "source": source,
                                              "options": list(options)})


def put(pointer, value):
    return lambda s: changed(s, pointer, value)


def namespaces(change):
    def apply(spec):
        spec = copy.deepcopy(spec)
        spec["linux"]["namespaces"] = change(spec["linux"]["namespaces"])
        return spec
    return apply


without = lambda kind: namespaces(lambda rows: [r for r in rows if r["type"] != kind])
with_path = lambda kind, path: namespaces(
    lambda rows: [dict(r, path=path) if r["type"] == kind else r for r in rows])

# What a caller asks for, and the rule that must say no. Rules are those of `utter-policy rules`.
CASES = {
    "no-new-privileges": put("/process/noNewPrivileges", False),
    "no-new-privileges-absent": put("/process/noNewPrivileges", None),
    "cap-bounding": put("/process/capabilities/bounding", ["CAP_NET_RAW"]),
    "cap-effective": put("/process/capabilities/effective", ["CAP_SYS_ADMIN"]),
    "cap-permitted": put("/process/capabilities/permitted", ["CAP_CHOWN"]),
    "cap-inheritable": put("/process/capabilities/inheritable", ["CAP_CHOWN"]),
    "cap-ambient": put("/process/capabilities/ambient", ["CAP_NET_BIND_SERVICE"]),
    "host-network": without("network"),
    "host-pid": without("pid"),
    "host-ipc": without("ipc"),
    "host-uts": without("uts"),
    "host-mount": without("mount"),
    "pid-path": with_path("pid", "/proc/1/ns/pid"),
    "netns-path": with_path("network", "/proc/1/ns/net"),
    "netns-elsewhere": with_path("network", "/tmp/netns"),
    "user-namespace": namespaces(lambda rows: rows + [{"type": "user"}]),
    "id-maps": put("/linux/uidMappings", [{"containerID": 0, "hostID": 0, "size": 65536}]),
    "env-unknown": put("/process/env/-", "FOO=1"),
    "env-secret": put("/process/env/-", "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
    "env-known-name-with-token": put("/process/env/-", "HOSTNAME=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"),
    "root-writable": put("/root/readonly", False),
    "root-absent": put("/root/readonly", None),
    "tmpfs-exec": mount("/scratch", options=("nosuid", "nodev", "size=4m")),
    "tmpfs-unsized": mount("/scratch", options=("nosuid", "noexec", "nodev")),
    "tmpfs-suid": mount("/scratch", options=("noexec", "nodev", "size=4m")),
    "tmpfs-over-memory": mount("/scratch", options=("nosuid", "noexec", "nodev", "size=1g")),
    "bind-host": mount("/host", "bind", "/", ("rbind", "ro")),
    "bind-etc": mount("/data", "bind", "/etc", ("rbind", "ro", "nosuid", "nodev", "noexec")),
    "bind-docker-socket": mount("/s", "bind", "/run/c.sock", ("bind", "ro", "nosuid", "nodev", "noexec")),
    "sysfs-rw": mount("/sys2", "sysfs", "sysfs", ("nosuid", "noexec", "nodev")),
    "cgroup-rw": mount("/sys/fs/cgroup", "cgroup", "cgroup", ("nosuid", "noexec", "nodev", "rw")),
    "memory-absent": put("/linux/resources/memory", None),
    "memory-over": put("/linux/resources/memory/limit", 1 << 40),
    "memory-under": put("/linux/resources/memory/limit", 1 << 20),
    "memory-negative": put("/linux/resources/memory/limit", -1),
    "cpu-absent": put("/linux/resources/cpu", None),
    "cpu-over": put("/linux/resources/cpu/quota", 1000000),
    "cpu-unlimited": put("/linux/resources/cpu/quota", -1),
    "pids-over": put("/linux/resources/pids", {"limit": 100000}),
    "pids-unlimited": put("/linux/resources/pids", {"limit": -1}),
    "pids-under": put("/linux/resources/pids", {"limit": 2}),
    "device-node": put("/linux/devices", [{"path": "/dev/sda", "type": "b", "major": 8, "minor": 0}]),
    "device-allow": put("/linux/resources/devices", [{"allow": True, "access": "rwm"}]),
    "sysctl": put("/linux/sysctl", {"kernel.shm_rmid_forced": "1"}),
    "hook": put("/hooks", {"createRuntime": [{"path": "/bin/sh", "args": ["sh", "-c", "touch /run/hook-ran"]}]}),
    "hook-prestart": put("/hooks", {"prestart": [{"path": "/bin/sh", "args": ["sh", "-c", "touch /run/hook-ran"]}]}),
    "hook-start-container": put("/hooks", {"startContainer": [{"path": "/bin/sh"}]}),
    "annotation-gvisor": put("/annotations", {"dev.gvisor.flag.host-uds": "all"}),
    "annotation-bundle": put("/annotations", {"dev.gvisor.bundle.experimental-high-performance": "true"}),
    "annotation-cri": put("/annotations", {"io.kubernetes.cri.container-type": "sandbox"}),
    "annotation-crio": put("/annotations", {"io.kubernetes.cri-o.ContainerType": "sandbox"}),
    "annotation-kata": put("/annotations", {"io.katacontainers.config.hypervisor.path": "/bin/sh"}),
    "annotation-group": put("/annotations", {"io.containerd.runc.v2.group": "x"}),
    "timeout-word": put("/annotations", {"io.utter.timeout": "soon"}),
    "timeout-huge": put("/annotations", {"io.utter.timeout": "99999999999"}),
    "quota-word": put("/annotations", {"io.utter.disk-quota": "much"}),
    "root-path-host": put("/root/path", "/"),
    "root-path-dots": put("/root/path", "../../.."),
    "cgroup-parent": put("/linux/cgroupsPath", "/elsewhere/x"),
    "cgroup-dots": put("/linux/cgroupsPath", "/ut/../x"),
    "selinux": put("/process/selinuxLabel", "system_u:system_r:container_t:s0"),
    "selinux-mount": put("/linux/mountLabel", "system_u:object_r:container_file_t:s0"),
    "unknown-field": put("/surprise", True),
    "unknown-field-deep": put("/process/capabilities/extra", ["CAP_SYS_ADMIN"]),
    "case-folded-duplicate": put("/Process", {"user": {"uid": 0, "gid": 0}}),
    "unified": put("/linux/resources/unified", {"memory.max": "max"}),
    "intel-rdt": put("/linux/intelRdt", {"closID": "x"}),
}
# Documents that cannot be read as JSON that means one thing, and the words that refuse each. Three do not get as far as
# the shim: containerd itself cannot read them.
CONTAINERD = "failed to start shim: "
SHIM = "utter: refused: json: "
with_annotations = lambda data: lambda text: text.replace(b'"annotations": {}', b'"annotations": ' + data)
BYTES = {
    "not-json": (lambda text: b"{", CONTAINERD + "unexpected end of JSON input"),
    "trailing": (lambda text: text + b"{}", CONTAINERD + "invalid character"),
    "duplicate-key": (lambda text: text[:-1] + b',"root":{"path":"rootfs","readonly":false}}', SHIM + "not JSON at line 1 column "),
    "deep": (with_annotations(b"[" * 5000 + b"]" * 5000), SHIM + "nested deeper than 64 levels"),
    "not-utf8": (with_annotations(b'{"io.utter.timeout":"\xff"}'), SHIM + "not JSON at line 1 column "),
    "too-big-number": (with_annotations(b'{"x":18446744073709551616}'), SHIM + "not JSON at line 1 column "),
    "huge": (with_annotations(b'{"x":"' + b"a" * (2 << 20) + b'"}'), SHIM + "the spec has 2099"),
}


@pytest.mark.parametrize("case", sorted(CASES))
def test_refused(host, case):
    task = host.task(["/bin/probe", "true"], change=CASES[case])
    from harness import spec as specs
    spec = CASES[case](specs.hardened(host.namespace, task.id, ["/bin/probe", "true"]))
    code, said = policy_check(host, spec, task.id)
    assert code == 1, (code, said)
    with refused() as caught:
        task.create()
    assert caught.text.startswith("utter: refused: "), caught.text
    body = caught.text[len("utter: refused: "):]
    whole = "; ".join(said)
    # The same words; the shim may add what only the host can tell, or end where its line ends.
    assert body.startswith(whole) or (len(body) > 200 and whole.startswith(body.rstrip(".…"))), (body, whole)
    import os
    assert not os.path.exists("/run/hook-ran"), "the caller's hook ran on the host"


@pytest.mark.parametrize("case", sorted(BYTES))
def test_refused_bytes(host, case):
    import json
    from harness import spec as specs
    id = api.unique()
    text = json.dumps(specs.hardened(host.namespace, id, ["/bin/probe", "true"])).encode()
    change, words = BYTES[case]
    data = change(text)
    assert data != text
    task = host.task(["/bin/probe", "true"], id=id, change=lambda s: data)
    import grpc
    with pytest.raises(grpc.RpcError) as caught:
        task.create()
    details = caught.value.details()
    said = details.removeprefix("failed to create shim task: ")
    # containerd 2 reads the spec before the shim and refuses some of these itself, in its own words.
    own = ("failed to validate OCI runtime features: unmarshal spec: json:", "unexpected end of JSON input", "invalid character '{' after")
    assert said.startswith(words) or (host.containerd.version >= (2, 0) and said.startswith(own)), details
    assert host.space.root not in said and "/run/" not in said and "config.json" not in said, details


# What a caller asks for and does not get, though the container starts.
ADJUSTED = {
    "rlimit-nproc": put("/process/rlimits", [{"type": "RLIMIT_NPROC", "hard": 1 << 20, "soft": 1 << 20}]),
    "seccomp-notify": put("/linux/seccomp", {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
        {"names": ["mkdir"], "action": "SCMP_ACT_NOTIFY"}]}),
    "oom-score": put("/process/oomScoreAdj", -998),
    "apparmor": put("/process/apparmorProfile", "unconfined"),
    "run-exec": mount("/run", options=("nosuid", "strictatime", "mode=755", "size=65536k")),
}


@pytest.mark.parametrize("case", sorted(ADJUSTED))
def test_adjusted(host, case):
    seen = host.probe("status", "--", "execplaces", change=ADJUSTED[case])
    assert seen["status"]["nproc"] == [64, 64] and seen["status"]["Seccomp"] == "2"
    assert [n for n, row in seen.items() if n.startswith("exec:") and row["ok"]] == []


@pytest.mark.core
def test_the_same_spec_untouched_is_accepted(host):
    task = host.task(["/bin/probe", "true"])
    from harness import spec as specs
    code, said = policy_check(host, specs.hardened(host.namespace, task.id, ["/bin/probe", "true"]), task.id)
    assert code == 0, said
    assert task.create().start().finish()[0] == 0
