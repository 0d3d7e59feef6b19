"""What the shim costs: memory beside a running container, calls over ttrpc, start-up against bare runsc, exec.

Straight over ttrpc, without containerd, in a private mount and network namespace with its own /run and /etc/utter.
Each runsc that the machine has is measured: Debian's and, where the peers were built, the current release.
"""
import glob
import json
import os
import re
import shutil
import stat
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
DEBIAN = "/usr/bin/runsc"
CURRENT = sorted(glob.glob("/var/cache/utter-peers/gvisor-*/runsc"))[-1:]
PAIRS = int(os.environ.get("UTTER_BENCH_PAIRS", "25"))  # a figure to be quoted is of 25
PEER_ONE, PEER_TEN = 34.5, 13.3  # MiB, recorded: containerd-shim-runsc-v1 with its `runsc wait`, one and five containers
NAMESPACE = "default"


class Bench:
    """Runs inside the private space, prints one JSON array per figure: see figure()."""

    def __init__(self, build, runsc):
        from harness.space import Space
        self.space = Space()
        self.tool = os.path.join(build, "bench/shim_bench")
        self.shim = os.path.join(build, "bin/containerd-shim-utter-v1")
        self.runsc = runsc
        self.serial = 0
        with open("/etc/utter/policy.json", "w") as f:
            # Two CPUs, so that start-up is measured and not how its bursts fall into the quota's periods.
            json.dump({"runsc": runsc, "max": {"cpus": 2}}, f)
        self.state = self.space.path("state")
        self.root = self.space.path("root")
        self.rootfs = os.path.join(self.root, "io.containerd.snapshotter.v1.overlayfs/snapshots/1/fs")
        for folder in ("bin", "proc", "sys", "dev", "tmp", "etc"):
            os.makedirs(os.path.join(self.rootfs, folder))
        shutil.copy("/bin/busybox", os.path.join(self.rootfs, "bin/busybox"))
        for name in ("sh", "sleep", "echo", "true"):
            os.symlink("busybox", os.path.join(self.rootfs, "bin", name))

    def bundle(self):
        """As containerd makes one: a folder with config.json and rootfs, and `work` beside the snapshots."""
        from harness.spec import hardened
        self.serial += 1
        id = "bench-%d-%d" % (os.getpid(), self.serial)
        bundle = os.path.join(self.state, "io.containerd.runtime.v2.task", NAMESPACE, id)
        work = os.path.join(self.root, "io.containerd.runtime.v2.task", NAMESPACE, id)
        os.makedirs(os.path.join(bundle, "rootfs"), mode=0o711)
        os.chmod(bundle, 0o700)
        os.makedirs(work)
        os.symlink(work, os.path.join(bundle, "work"))
        spec = hardened(NAMESPACE, id, ["/bin/sh", "-c", "echo x; exec sleep 1000"], quota=200000)
        with open(os.path.join(bundle, "config.json"), "w") as f:
            json.dump(spec, f)
        return id, bundle

    def hold(self):
        id, bundle = self.bundle()
        proc = subprocess.Popen([self.tool, "hold", self.shim, bundle, NAMESPACE, id, self.rootfs],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        proc.stdout.readline()
        address, shim_pid, task_pid = proc.stdout.readline().split()
        return {"id": id, "proc": proc, "address": address, "shim": int(shim_pid), "sandbox": int(task_pid)}

    def release(self, held):
        held["proc"].stdin.close()
        if held["proc"].wait() != 0:
            raise RuntimeError("shim_bench failed")

    def life(self):
        id, bundle = self.bundle()
        done = subprocess.run([self.tool, "life", self.shim, bundle, NAMESPACE, id, self.rootfs], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        return float(done.stdout.split()[0])

    def flags_of(self, held):
        """The flags and the spec that this sandbox was made with, as its own command line has them."""
        with open("/proc/%d/cmdline" % held["sandbox"], "rb") as f:
            words = f.read().decode().split("\0")
        at = words.index("boot")
        skip = re.compile(r"--(root|log|log-fd|panic-log|panic-log-fd|debug-log|debug-log-fd|systemd-cgroup)=")
        flags = [w for w in words[1:at] if w.startswith("--") and not skip.match(w)]
        bundle = next(w.split("=", 1)[1] for w in words[at:] if w.startswith("--bundle="))
        with open(os.path.join(bundle, "config.json")) as f:
            return flags, json.load(f)

    def bare(self, flags, spec):
        self.serial += 1
        id = "bare-%d-%d" % (os.getpid(), self.serial)
        bundle = self.space.path(id)
        os.makedirs(os.path.join(bundle, "rootfs"))
        os.mkdir(os.path.join(bundle, "r"), 0o700)
        os.mknod(os.path.join(bundle, "null"), stat.S_IFCHR | 0o600, os.makedev(1, 3))
        spec = json.loads(json.dumps(spec))
        spec["root"]["path"] = "rootfs"
        spec["linux"]["cgroupsPath"] = "/%s/%s" % (NAMESPACE, id)
        with open(os.path.join(bundle, "config.json"), "w") as f:
            json.dump(spec, f)
        argv = [self.tool, "bare", self.rootfs, bundle, id, self.runsc, "--root=%s/r" % bundle, "--log=%s/log" % bundle,
                "--log-format=json", "--panic-log=%s/panic" % bundle] + flags
        done = subprocess.run(argv, capture_output=True, text=True)
        if done.returncode != 0:
            with open(os.path.join(bundle, "log")) as f:
                raise RuntimeError(done.stderr + f.read()[-2000:])
        return float(done.stdout.split()[0])


def figure(kind, *args):
    print(json.dumps([kind, *args]), flush=True)


def pss_mib(pid):
    with open("/proc/%d/smaps_rollup" % pid) as f:
        return next(int(line.split()[1]) for line in f if line.startswith("Pss:")) / 1024


def children(pid):
    """All descendants, as (pid, argv[0])."""
    found = []
    for task in glob.glob("/proc/%d/task/*/children" % pid):
        with open(task) as f:
            for child in map(int, f.read().split()):
                try:
                    with open("/proc/%d/cmdline" % child, "rb") as g:
                        found.append((child, g.read().split(b"\0")[0].decode()))
                except FileNotFoundError:
                    continue
                found += children(child)
    return found


def extra(held):
    """Processes beside sandbox, gofer and the sandbox's stubs, which alone have no command line."""
    inside = {pid for pid, _ in children(held["sandbox"])} | {held["sandbox"]}
    return [name for pid, name in children(held["shim"]) if pid not in inside and name and "gofer" not in name]


def measure(build, runsc, name):
    bench = Bench(build, runsc)
    held = bench.hold()
    flags, spec = bench.flags_of(held)
    one = pss_mib(held["shim"])
    figure("at_most", "shim: PSS for one container (%s)" % name, one, "MiB", 2, "shim-runsc-v1 (recorded)", PEER_ONE)
    figure("at_most", "shim: processes beside sandbox and gofer (%s)" % name, len(extra(held)), "", 0)
    out = subprocess.run([bench.tool, "rpc", held["address"], held["id"], "300"], check=True, capture_output=True, text=True)
    state, pids, stats = map(float, out.stdout.split())
    for call, value, limit in (("State", state, 100), ("Pids", pids, 500), ("Stats", stats, 500)):
        figure("at_most", "shim: %s, p50 (%s)" % (call, name), value, "us", limit, "shim-runsc-v1 (recorded)", 6900.0)
    if name == "current":
        measure_exec(bench, held, flags, spec)
    more = [bench.hold() for _ in range(9)]
    ten = statistics.mean(pss_mib(h["shim"]) for h in [held] + more)
    figure("at_most", "shim: PSS each for ten containers (%s)" % name, ten, "MiB", 0.8, "shim-runsc-v1, five (recorded)", PEER_TEN)
    for h in more + [held]:
        bench.release(h)
    ours, peer = [], []
    for _ in range(PAIRS):
        ours.append(bench.life())
        peer.append(bench.bare(flags, spec))
    limit = 1.05 if name == "current" else 0.85
    figure("ratio", "shim: Create to first byte, median of %d (%s)" % (PAIRS, name), "bare runsc", statistics.median(peer),
           statistics.median(ours), "ms", limit)
    bench.space.close()


def measure_exec(bench, held, flags, spec):
    """Start to exit of /bin/true over ttrpc; the peer is `runsc exec` in a container of its own making."""
    process = dict(spec["process"], args=["/bin/true"])
    process.pop("rlimits", None)
    path = bench.space.path("process.json")
    with open(path, "w") as f:
        json.dump(process, f)
    out = subprocess.run([bench.tool, "exec", held["address"], held["id"], "40", path], check=True, capture_output=True, text=True)
    ours = float(out.stdout)
    with open("/proc/%d/cmdline" % held["sandbox"], "rb") as f:
        root = next(w for w in f.read().decode().split("\0") if w.startswith("--root="))
    import time
    null = bench.space.path("null")
    os.mknod(null, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    samples = []
    with open(null, "r+b", buffering=0) as sink:
        for _ in range(20):
            start = time.monotonic()
            subprocess.run([bench.runsc, root, "--log=%s" % bench.space.path("exec.log")] + flags + ["exec", held["id"], "/bin/true"],
                           check=True, stdin=sink, stdout=sink, stderr=sink)
            samples.append((time.monotonic() - start) * 1000)
    figure("ratio", "shim: exec of /bin/true, Start to exit, p50 (current)", "runsc exec", statistics.median(samples), ours, "ms",
           1 / 1.5)


def run(build, report):
    for name, runsc in [("20240729", DEBIAN)] + [("current", path) for path in CURRENT]:
        if not os.path.exists(runsc):
            continue
        child = subprocess.Popen(["/usr/bin/python3", os.path.abspath(__file__), build, runsc, name], stdout=subprocess.PIPE, text=True)
        for line in child.stdout:
            kind, *args = json.loads(line)
            getattr(report, kind)(*args)
        if child.wait() != 0:
            raise RuntimeError("measuring %s failed" % runsc)


if __name__ == "__main__":
    sys.path.insert(0, os.path.join(TOP, "tests/integration"))
    measure(*sys.argv[1:4])
