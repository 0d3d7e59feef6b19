"""What a guest gets, looked at from inside by the probe: the first process and execs, as uid 0 and uid 1000."""
import pytest

from harness.probe import lines
from harness import spec as specs
from harness.refusal import refused

USERS = [0, 1000]
NO_CAPS = "0" * 16
# What may take a file at all: memory-backed, counted against the memory limit.
WRITABLE = {"write:/tmp", "write:/dev/shm", "write:/dev", "write:/dev/mqueue", "write:/run"}


@pytest.fixture(params=["init", "exec"])
def look(host, request):
    """look(*probe arguments, user=…): runs the probe as the first process or as an exec, {name: row}."""
    def init(*args, user=0, **kw):
        return host.probe(*args, user=user, **kw)

    def execed(*args, user=0, **kw):
        task = host.task(["/bin/probe", "sleep"], user=user, **kw).create().start()
        process = specs.process(["/bin/probe"] + list(args), user=user)
        if not host.current:
            with refused("exec"):
                task.exec(process).start()
            pytest.skip("this runsc's exec is refused, which was just seen")
        status, out, err = task.exec(process).start().finish()
        return lines(out, status, err)

    return init if request.param == "init" else execed


@pytest.mark.core
@pytest.mark.parametrize("user", USERS)
def test_no_rights(host, look, user):
    seen = look("status", "--", "suid", user=user)
    status = seen["status"]
    assert status["Uid"] == " ".join([str(user)] * 4)
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd"):
        assert status[name] == NO_CAPS, name
    assert status.get("CapAmb", NO_CAPS) == NO_CAPS
    assert status["Seccomp"] == "2"
    if host.current:
        assert status["NoNewPrivs"] == "1"
    assert status["nproc"] == [64, 64]
    assert seen["euid"]["euid"] == user, "a setuid-root program of the image gave its user root"


@pytest.mark.parametrize("user", USERS)
def test_no_way_out(host, look, user):
    seen = look("escape", user=user)
    allowed = {"setuid:0"} if user == 0 else set()
    got = {name for name, row in seen.items() if name and row["ok"]} - allowed
    assert got == set(), "succeeded in the guest"
    assert seen["clone3:plain"]["errno"] == "ENOSYS", "glibc falls back to clone only on ENOSYS"


@pytest.mark.parametrize("user", USERS)
def test_root_is_read_only_and_nothing_writable_executes(host, look, user):
    seen = look("write", "--", "execplaces", user=user)
    written = {name for name, row in seen.items() if name.startswith("write:") and row["ok"]}
    assert written <= WRITABLE, "the guest could write there"
    assert "write:/tmp" in written
    executed = {name for name, row in seen.items() if name.startswith("exec:") and row["ok"]}
    assert executed == set(), "a file the guest had written was executed"
    if host.current:
        mapped = {name for name, row in seen.items() if name.startswith("map:") and row["ok"]}
        assert mapped == set(), "a file the guest had written was mapped executable"


def test_environment_is_what_was_asked_for(host):
    seen = host.probe("env", user=1000)
    assert sorted(e.split("=")[0] for e in seen["env"]["env"]) == ["HOME", "PATH"], \
        "HOME is runsc's"


@pytest.mark.core
def test_network_none_reaches_nothing(host):
    import socket
    listener = socket.socket(socket.AF_INET6)
    listener.bind(("::", 0))
    listener.listen()
    port = str(listener.getsockname()[1])
    probe = ["ifaces"]
    for address in ("198.18.0.1", "169.254.169.254", "fd00:ec2::254", "1.1.1.1", "fe80::1%lo"):
        probe += ["--", "connect", address, port]
    seen = host.probe(*probe)
    assert [a for a in seen["ifaces"]["addresses"] if not a.startswith("lo ")] == []
    assert [n for n, row in seen.items() if n.startswith("connect:") and row["ok"]] == []
    listener.close()


def test_it_is_gvisor(host):
    status, out, _ = host.run(["/bin/dmesg"])
    assert status == 0 and "gVisor" in out


def test_proc_and_sys_give_nothing_of_the_host(host):
    with open("/proc/sys/kernel/random/boot_id") as f:
        boot = f.read().strip()
    script = "cat /proc/1/cmdline /proc/mounts /proc/sys/kernel/random/boot_id 2>/dev/null; ls /proc /sys; exit 0"
    status, out, _ = host.run(["/bin/sh", "-c", script])
    assert status == 0
    assert boot not in out
    assert host.space.root not in out, "a host path shows inside"


def test_threads_of_glibc_work(host):
    seen = host.probe("threadbomb", "5", "0.1", user=1000)
    assert seen["threadbomb"]["ok"]
