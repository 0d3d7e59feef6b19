"""The same through the tools that people type: ctr of the pair."""
import pytest

CAPS = """CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP NET_BIND_SERVICE SYS_CHROOT KILL
AUDIT_WRITE""".split()
HARD = ["--runtime", "io.containerd.utter.v1", "--read-only", "--memory-limit", str(128 << 20), "--cpus", "0.5"]
DROP = [word for cap in CAPS for word in ("--cap-drop", "CAP_" + cap)]
IMAGE = "utter.test/probe:1"


def ctr_run(host, id, args, flags, check=True):
    done = host.containerd.ctr_run("run", "--rm", *flags, IMAGE, id, *args, ns=host.namespace, check=False, timeout=120)
    return done


@pytest.mark.core
def test_ctr_run_hardened(host):
    done = ctr_run(host, "ctr1", ["/bin/probe", "status"], HARD + DROP)
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"CapBnd":"0000000000000000"' in done.stdout


def test_ctr_statuses_of_short_runs(host):
    """20 each of true, exit 7 and echo; the peer shim got 6 of 60 right."""
    wrong = []
    for n in range(20):
        for args, status, out in ((["/bin/true"], 0, ""), (["/bin/sh", "-c", "exit 7"], 7, ""),
                                  (["/bin/echo", "hello"], 0, "hello\n")):
            done = ctr_run(host, "c%d" % n, args, HARD + DROP)
            if (done.returncode, done.stdout) != (status, out):
                wrong.append((args, done.returncode, done.stdout, done.stderr[-200:]))
    assert wrong == []


@pytest.mark.core
def test_ctr_run_plain_is_refused_with_one_line(host):
    done = ctr_run(host, "ctr2", ["/bin/true"], ["--runtime", "io.containerd.utter.v1"])
    assert done.returncode != 0
    text = done.stdout + done.stderr
    assert "utter: refused: " in text and "--cap-drop" in text and "--memory-limit" in text and "--cpus" in text, text
    host.containerd.ctr_run("containers", "rm", "ctr2", ns=host.namespace, check=False)


def test_ctr_privileged_and_host_network_are_refused(host):
    for flags in (["--privileged"], ["--net-host"]):
        done = ctr_run(host, "ctr3", ["/bin/true"], HARD + DROP + flags)
        assert done.returncode != 0 and "utter: refused: " in done.stdout + done.stderr
        host.containerd.ctr_run("containers", "rm", "ctr3", ns=host.namespace, check=False)
