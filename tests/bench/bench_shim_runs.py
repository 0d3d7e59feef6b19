"""Exit statuses of sixty short `ctr run`, twenty each of true, exit 7 and echo, through Utter's shim and through gVisor's.

The full command line of a hardened container, on each containerd that the machine has. The peer is containerd-shim-runsc-v1
as tests/peers builds it (one constant replaced: `patched`), with the CRI annotation without which it hangs. Where it does not
start (from containerd 1.6 never; on a host that denies it even an oom_score_adj of 0) the value is the recorded one.
"""
import glob
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
PEERS = "/var/cache/utter-peers"
CURRENT = sorted(glob.glob(PEERS + "/gvisor-0*/runsc"))[-1:]
CONTAINERD = sorted(glob.glob(PEERS + "/containerd-2*/containerd"))[-1:]
PEER = sorted(glob.glob(PEERS + "/gvisor-shim-*/containerd-shim-runsc-v1"))[-1:]
ROUNDS = int(os.environ.get("UTTER_BENCH_ROUNDS", "20"))  # a figure to be quoted is of 20
CAPS = """CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP NET_BIND_SERVICE SYS_CHROOT KILL
AUDIT_WRITE""".split()
HARD = ["--read-only", "--memory-limit", str(128 << 20), "--cpus", "0.5"] + [
    word for cap in CAPS for word in ("--cap-drop", "CAP_" + cap)]
RUNS = ((["/bin/true"], 0, ""), (["/bin/sh", "-c", "exit 7"], 7, ""), (["/bin/echo", "hello"], 0, "hello\n"))
RECORDED = {"1.6": 60, "2.4": 54}  # of 60: no start at all; 6 right
NAMESPACE, IMAGE = "ut-int-runs", "utter.test/probe:1"


def wrong(containerd, runtime, peer):
    """How many of the runs do not end with their own status and output. A run that hangs is the last one tried. None: a peer
    that does not start."""
    count = 0
    for n in range(ROUNDS * len(RUNS)):
        args, status, out = RUNS[n % len(RUNS)]
        id = "%s%d" % ("p" if peer else "u", n)
        more = ["--annotation", "io.kubernetes.cri.container-type=sandbox", "--annotation",
                "io.kubernetes.cri.sandbox-id=" + id] if peer else []
        try:
            done = containerd.ctr_run("run", "--rm", "--runtime", runtime, *HARD, *more, IMAGE, id, *args, ns=NAMESPACE,
                                      check=False, timeout=30)
        except subprocess.TimeoutExpired:
            return count + ROUNDS * len(RUNS) - n
        if peer and "failed to start shim" in done.stderr:
            print(done.stderr[-300:], file=sys.stderr)
            return None
        if (done.returncode, done.stdout) != (status, out):
            count += 1
            if not peer:
                print(args, done.returncode, done.stdout, done.stderr[-300:], file=sys.stderr)
    return count


def measure(build, binary, runsc, peer):
    from harness.daemon import Containerd
    from harness.space import Space
    space = Space()
    with open("/etc/utter/policy.json", "w") as f:
        json.dump({"runsc": runsc}, f)
    image = space.path("image.tar")
    subprocess.run([os.path.join(TOP, "tests/image/make"), image], check=True, stdout=sys.stderr)
    folders = [os.path.join(build, "bin")] + ([os.path.dirname(peer)] if peer else []) + [os.path.dirname(runsc)]
    containerd = Containerd(space, binary, folders).start()
    containerd.ctr_run("images", "import", image, ns=NAMESPACE)
    ours = wrong(containerd, "io.containerd.utter.v1", False)
    theirs = wrong(containerd, "io.containerd.runsc.v1", True) if peer else None
    print(json.dumps([".".join(map(str, containerd.version)), ours, theirs]), flush=True)
    containerd.stop()
    space.close()


def run(build, report):
    pairs = [("/usr/bin/containerd", "/usr/bin/runsc", "20240729")]
    pairs += [(binary, runsc, "current") for binary in CONTAINERD for runsc in CURRENT]
    for binary, runsc, name in pairs:
        if not os.path.exists(binary) or not os.path.exists(runsc):
            continue
        words = ["/usr/bin/python3", os.path.abspath(__file__), build, binary, runsc] + PEER
        out = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout
        version, ours, theirs = json.loads(out.splitlines()[-1])
        figure = "shim: wrong of %d ctr runs (containerd %s, %s)" % (ROUNDS * len(RUNS), version, name)
        peer = "shim-runsc-v1 (patched)"
        if theirs is None:
            peer, theirs = "shim-runsc-v1 (recorded)", RECORDED[version.rpartition(".")[0]] * ROUNDS / 20
        report.at_most(figure, ours, "runs", 0, peer, theirs)


if __name__ == "__main__":
    sys.path.insert(0, os.path.join(TOP, "tests/integration"))
    measure(*sys.argv[1:4], sys.argv[4] if len(sys.argv) > 4 else None)
