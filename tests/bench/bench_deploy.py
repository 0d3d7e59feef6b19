"""What deploying costs: `up` to the first paid answer beside a bare runsc start of the same handler to its first 200, and a
paid call through Traefik, gate (durable ledger) and handler beside a plain call to the same handler bare under runsc.

Containerd, Traefik, facilitator and networks are those of the integration tests' rig; ours and the peer's rounds alternate.
"""
import ctypes
import http.client
import json
import os
import shutil
import subprocess
import sys
import time

from figures import median, percentile

HERE = os.path.dirname(os.path.abspath(__file__))
for room in ("deploy", "gate"):
    sys.path.insert(0, os.path.join(HERE, "../integration", room))

import deployrig  # noqa: E402
import evm  # noqa: E402
from bench_gate import Nonces  # noqa: E402

STARTS, CALLS, WARM, BLOCK = 5, 400, 40, 20
BARE = "10.99.99.2"
HOST = "bench.example:18080"
NEWNET = 0x40000000


# One write an answer: two of them would show the 40 ms of a delayed acknowledgement, not the work.
HANDLER = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version, wbufsize = "HTTP/1.1", 65536
    def do_GET(self):
        body = b"bench " + self.path.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words):
        pass
http.server.ThreadingHTTPServer(("0.0.0.0", 8080), Handler).serve_forever()
"""


class Bare:
    """The deployed handler's own root and spec, by `runsc run` alone, on a veth pair; runsc's own defaults."""

    def __init__(self, rig):
        self.rig, self.id = rig, "ut-bench-bare"
        self.bundle = rig.path("bare")
        self.root = rig.path("bare-root")
        os.makedirs(os.path.join(self.bundle, "rootfs"))
        ctr = ["ctr", "-a", rig.sock, "-n", "utter"]
        info = json.loads(self.must(*ctr, "container", "info", "bench.h1"))
        self.must(*ctr, "image", "mount", "--rw", info["Image"], os.path.join(self.bundle, "rootfs"))
        spec = info["Spec"]
        spec["root"]["path"] = os.path.join(self.bundle, "rootfs")
        spec["annotations"] = {}
        spec["linux"]["cgroupsPath"] = "/ut-bench-bare"
        for n in spec["linux"]["namespaces"]:
            if n["type"] == "network":
                n["path"] = "/run/netns/ut-bench"
        for m in spec["mounts"]:  # of a slug that goes down meanwhile
            if m["source"].startswith("/run/utter/"):
                copy = os.path.join(self.bundle, os.path.basename(m["source"]))
                self.must("cp", m["source"], copy)
                m["source"] = copy
        with open(os.path.join(self.bundle, "config.json"), "w") as f:
            json.dump(spec, f)

    def must(self, *command):
        got = self.rig.run(*command)
        if got.returncode:
            raise RuntimeError("%s: %s" % (" ".join(command), got.stderr[-500:]))
        return got.stdout

    def start(self):
        """Seconds from `runsc run` to the handler's first 200. A fresh network each time: a sandbox takes its addresses."""
        self.must("sh", "-c", "ip netns add ut-bench && ip link add bare0 type veth peer name eth0 netns ut-bench && "
                  "ip address add 10.99.99.1/30 dev bare0 && ip link set bare0 up && "
                  "ip -n ut-bench address add %s/30 dev eth0 && ip -n ut-bench link set eth0 up && "
                  "ip -n ut-bench link set lo up" % BARE)
        began = time.monotonic()
        # An old runsc takes any namespace for the host's where the kernel shows it net.core's entries; the shim hides them too.
        self.process = self.rig.spawn("bare.log", "unshare", "-m", "sh", "-c",
                                      'mount -t tmpfs none /proc/sys/net && exec runsc --root "$0" run --bundle "$1" "$2"',
                                      self.root, self.bundle, self.id)
        while time.monotonic() < began + 30:
            try:
                connection = http.client.HTTPConnection(BARE, 8080, timeout=1)
                connection.request("GET", "/hello")
                if connection.getresponse().status == 200:
                    return time.monotonic() - began
            except OSError:
                time.sleep(0.005)
        raise RuntimeError("the bare handler did not answer: " + self.rig.tail("bare.log"))

    def stop(self):
        self.rig.run("runsc", "--root", self.root, "kill", self.id, "KILL")
        self.process.wait(20)
        self.rig.run("runsc", "--root", self.root, "delete", "--force", self.id)
        self.rig.run("sh", "-c", "ip link del bare0; ip netns del ut-bench")

    def end(self):
        self.rig.run("umount", os.path.join(self.bundle, "rootfs"))


def up_to_paid(rig, file):
    """Seconds of `up`, and of `up` and the paid call after it. Image present, key made."""
    began = time.monotonic()
    rig.ok("up", file)
    up = time.monotonic() - began
    got = rig.pay("bench", retry=5)
    if got.returncode:
        raise RuntimeError("the first paid call failed: " + got.stderr)
    return up, time.monotonic() - began


def starts(rig, file, bare, report):
    ours, ups, theirs = [], [], []
    for _ in range(STARTS):
        rig.ok("down", "--purge", "--force", "bench")
        time.sleep(0.5)  # Traefik is quiet again
        up, paid = up_to_paid(rig, file)
        ups.append(up)
        ours.append(paid)
        theirs.append(bare.start())
        bare.stop()
    peer = median(theirs)
    report.line("up to first paid answer", "bare runsc to first 200, +1.5 s", peer + 1.5, median(ours), "s", "<= peer", median(ours) <= peer + 1.5)
    report.line("up alone", "bare runsc to first 200", peer, median(ups), "s", "-", True, recorded=True)


def paid_requests(count):
    connection = http.client.HTTPConnection("127.0.0.1", 18080)
    connection.request("GET", "/hello", headers={"Host": HOST})
    answer = connection.getresponse()
    answer.read()
    challenge = evm.unb64(answer.getheader("PAYMENT-REQUIRED"))
    chosen = challenge["accepts"][0]
    buyers = [Nonces() for _ in range(8)]
    out = []
    for i in range(count):
        payload = {"x402Version": 2, "accepted": chosen, "payload": evm.authorization(buyers[i % 8], chosen)}
        out.append({"Host": HOST, "PAYMENT-SIGNATURE": evm.b64(payload)})
    return out


def timed(connection, path, headers, fresh=True):
    if fresh:
        connection.close()
    began = time.perf_counter()
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    spent = (time.perf_counter() - began) * 1000
    if answer.status != 200 or not body.startswith(b"bench "):
        raise RuntimeError("%s: %d %r" % (path, answer.status, body[:200]))
    return spent


def disk_ms(rig):
    """The ledger's disk: what one fdatasync after a small append takes, now and here."""
    spent = []
    with open(rig.path("var/bench/sync"), "wb") as f:
        for _ in range(20):
            f.write(b"x" * 4096)
            f.flush()
            began = time.perf_counter()
            os.fdatasync(f.fileno())
            spent.append((time.perf_counter() - began) * 1000)
    return median(spent)


def calls(rig, bare, report):
    """A connection a call on both sides, as a buyer makes; the gate too opens one to the handler for each call."""
    bare.start()
    requests = paid_requests(CALLS + WARM)
    through = http.client.HTTPConnection("127.0.0.1", 18080)
    gate = http.client.HTTPConnection(rig.edge("bench"), 8402)
    direct = http.client.HTTPConnection(BARE, 8080)
    ours, theirs, kept, gates, syncs = [], [], [], [], []
    for i in range(0, len(requests), BLOCK):
        block = requests[i:i + BLOCK]
        way = gate if i // BLOCK % 4 == 3 else through
        paid = [timed(way, "/hello?%d" % (i + j), headers) for j, headers in enumerate(block)]
        plain = [timed(direct, "/hello?%d" % (i + j), {}) for j in range(len(block))]
        kept += [timed(direct, "/hello?%d" % (i + j), {}, fresh=False) for j in range(len(block))]
        syncs.append(disk_ms(rig))
        if i >= WARM:
            (gates if way is gate else ours).extend(paid)
            theirs += plain
    bare.stop()
    report.line("paid call at the gate p50, and one fdatasync", "fdatasync", median(syncs), median(gates), "ms", "-", True, recorded=True)
    added = median(ours) - median(theirs)
    report.at_most("paid call, added p50", added, "ms", 5, "bare runsc p50", median(theirs))
    report.line("bare call p50, a connection each", "the same kept alive", median(kept), median(theirs), "ms", "-", True, recorded=True)
    report.line("paid call p99", "bare runsc p99", percentile(theirs, 99), percentile(ours, 99), "ms", "-", True, recorded=True)


def run(build, report):
    binary, why = deployrig.traefik_binary()
    if not binary:
        raise RuntimeError(why)
    rig = deployrig.Rig(shutil.which("containerd"), build)
    bare = None
    try:
        # This process sees the rig's network from here on.
        with open("/proc/%d/ns/net" % rig.holder.pid) as ns, open("/proc/self/ns/net") as home:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.setns(ns.fileno(), NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
            try:
                rig.gate_image()
                rig.start_traefik(binary)
                file = rig.endpoint("bench", tag="bench")
                rig.write("bench/handler/main.py", HANDLER)
                rig.ok("up", file)
                rig.start_facilitator()
                rig.pay("bench")  # makes the buyer's key
                bare = Bare(rig)
                starts(rig, file, bare, report)
                calls(rig, bare, report)
            finally:
                if bare:
                    bare.end()
                libc.setns(home.fileno(), NEWNET)
    finally:
        rig.stop()
