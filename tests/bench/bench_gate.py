"""What the gate costs: its 402 beside nginx `return 402`, a paid call beside nginx `proxy_pass` once, memory, latency.

Figures are CPU of the process named, of all its threads, by the scheduler's own count; ours and the peer's rounds alternate.
The handler and the facilitator are doubles in C that answer at once, so that the gate is what is measured. A paid figure
depends on how many changes one transaction of the ledger carries: that is printed beside it. The servers run on CPU 0 and
the load on CPU 1, so that neither takes the other's caches more than it must.
"""
import os
import re
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from figures import median, percentile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../integration/gate"))

import evm  # noqa: E402
import rig as gate_rig  # noqa: E402

CONNECTIONS, IDLE = 64, 2000
UNPAID_ROUNDS, UNPAID_SECONDS = 3, 2
PAID_ROUNDS, PAID_CALLS, HALF_SECONDS = 3, 256, 4
SERVER_CPU, LOAD_CPU = 0, max(os.sched_getaffinity(0))


def cpu_us(pid):
    total = 0
    for task in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/schedstat" % (pid, task)) as f:
            total += int(f.read().split()[0])
    return total / 1000


def memory(pid):
    with open("/proc/%d/status" % pid) as f:
        rows = dict(line.split(":", 1) for line in f if ":" in line)
    return {name: int(rows[name].split()[0]) for name in ("VmRSS", "RssAnon")}


def pin(pid, cpu):
    for task in os.listdir("/proc/%d/task" % pid):
        os.sched_setaffinity(int(task), {cpu})


class Nonces:
    """Signatures of a throw-away key, whose secret k goes up by one each time: one curve addition instead of a multiplication.
    That gives the key away to whoever sees two of them, which here is nobody."""

    def __init__(self):
        self.key = evm.Key()
        self.k = int.from_bytes(os.urandom(31), "big")
        self.point = evm._mul(self.k)
        self.address = self.key.address

    def sign(self, digest, _high_s=False):
        self.k, self.point = self.k + 1, evm._add(self.point, evm.G)
        r, v = self.point[0] % evm.N, self.point[1] & 1
        s = pow(self.k, -1, evm.N) * (int.from_bytes(digest, "big") + r * self.key.secret) % evm.N
        if s > evm.N // 2:
            s, v = evm.N - s, v ^ 1
        return r.to_bytes(32, "big") + s.to_bytes(32, "big") + bytes([27 + v])


def payments(rig, count):
    """Requests with a payment each; no two alike, or the gate would take the later for the same buyer signing again."""
    challenge = rig.challenge("/a")
    chosen = challenge["accepts"][0]
    buyers = [Nonces() for _ in range(8)]
    out = []
    for i in range(count):
        payload = evm.authorization(buyers[i % len(buyers)], chosen)
        name, value = next(iter(rig.header(payload, chosen).items()))
        out.append(("GET /a?call=%s HTTP/1.1\r\nHost: shop.test\r\n%s: %s\r\n\r\n" % (os.urandom(8).hex(), name, value)).encode())
    return out


class Nginx:
    """One worker that is the whole process; `answer` gives what its 402 has to equal in headers and bytes."""

    def __init__(self, folder, answer, upstream):
        self.port, self.proxy_port = gate_rig.free_port(), gate_rig.free_port()
        headers = "".join("add_header %s '%s' always;\n" % (k, v) for k, v in answer.headers
                          if k.lower() not in ("content-length", "content-type", "connection", "date", "server"))
        body = answer.body.decode().replace("\\", "\\\\").replace("'", "\\'")
        config = os.path.join(folder, "nginx.conf")
        with open(config, "w") as f:
            f.write("""daemon off; master_process off; worker_processes 1; pid %(d)s/nginx.pid; error_log %(d)s/nginx.err;
events { worker_connections 4096; }
http {
  access_log %(d)s/nginx.log; server_tokens off; keepalive_requests 100000000;
  client_body_temp_path %(d)s/t1; proxy_temp_path %(d)s/t2; fastcgi_temp_path %(d)s/t3; uwsgi_temp_path %(d)s/t4; scgi_temp_path %(d)s/t5;
  large_client_header_buffers 4 32k;
  server { listen 127.0.0.1:%(p)d; default_type %(type)s;
    location / { %(headers)s return 402 '%(body)s'; } }
  server { listen 127.0.0.1:%(q)d; location / { proxy_pass http://127.0.0.1:%(u)d; } }
}
""" % {"d": folder, "p": self.port, "q": self.proxy_port, "u": upstream, "headers": headers, "body": body,
                "type": (answer.get("Content-Type") or "text/plain").split(";")[0]})
        self.process = subprocess.Popen([shutil.which("nginx", path="/usr/sbin:/usr/bin"), "-c", config, "-p", folder],
                                        stderr=subprocess.DEVNULL)
        self.pid = self.process.pid
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                time.sleep(0.02)
        raise RuntimeError("nginx does not listen: " + open(os.path.join(folder, "nginx.err")).read()[-500:])


def check_same(ours, theirs):
    """The peer's 402 has our body and, but for one of its own server's, our headers."""
    sizes = [sum(len(k) + len(v) for k, v in a.headers if k.lower() not in ("connection", "server")) for a in (ours, theirs)]
    if theirs.status != 402 or theirs.body != ours.body or abs(sizes[0] - sizes[1]) > 64:
        raise RuntimeError("nginx's 402 is not ours: %d, %r and %r" % (theirs.status, ours.headers, theirs.headers))


def wrk(port, pid, seconds):
    """(CPU us per request of `pid`, requests per second); every answer has to be a 402."""
    before = cpu_us(pid)
    done = subprocess.run(["taskset", "-c", str(LOAD_CPU), "wrk", "-t1", "-c%d" % CONNECTIONS, "-d%ds" % seconds,
                           "-H", "Host: shop.test", "http://127.0.0.1:%d/a" % port], capture_output=True, text=True, check=True)
    spent = cpu_us(pid) - before
    requests = int(re.search(r"(\d+) requests in", done.stdout).group(1))
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", done.stdout)
    if "Socket errors" in done.stdout or not bad or int(bad.group(1)) != requests:
        raise RuntimeError("not every answer was a 402:\n" + done.stdout)
    return spent / requests, requests / seconds


class Client:
    """Keep-alive connections driven by one thread: as fast as they go, or at a fixed rate (`latency` then counts from
    when the call was due, not from when a connection was free)."""

    def __init__(self, port):
        self.selector = selectors.DefaultSelector()
        self.free = []
        for _ in range(CONNECTIONS):
            s = socket.create_connection(("127.0.0.1", port))
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.selector.register(s, selectors.EVENT_READ, s)
            self.free.append(s)

    def run(self, requests, rate=None):
        """Milliseconds of each; an answer that is not 200 ends the bench."""
        began, sent, busy, out, buffers = time.perf_counter(), 0, {}, [], {}
        while len(out) < len(requests):
            now = time.perf_counter()
            while sent < len(requests) and self.free and (not rate or began + sent / rate <= now):
                s = self.free.pop()
                busy[s], buffers[s] = began + sent / rate if rate else time.perf_counter(), b""
                s.sendall(requests[sent])
                sent += 1
            wait = 10
            if rate and sent < len(requests) and self.free:
                wait = max(0, began + sent / rate - time.perf_counter())
            events = self.selector.select(wait)
            if not events and wait == 10:
                raise RuntimeError("no answer for 10 s")
            for key, _ in events:
                s = key.data
                data = buffers[s] = buffers.get(s, b"") + s.recv(65536)
                head, found, body = data.partition(b"\r\n\r\n")
                if not found and data:
                    continue
                length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
                if not head.startswith(b"HTTP/1.1 200 ") or not length:
                    raise RuntimeError("not a sale: %r … %r" % (head[:40], body))
                if len(body) >= int(length.group(1)):
                    out.append((time.perf_counter() - busy.pop(s)) * 1000)
                    self.free.append(s)
        return out

    def close(self):
        for s in list(self.selector.get_map().values()):
            s.data.close()
        self.selector.close()


def fdatasync_p99(folder, calls=200):
    path, out = os.path.join(folder, "sync"), []
    fd = os.open(path, os.O_CREAT | os.O_WRONLY)
    for _ in range(calls):
        os.write(fd, bytes(4096))
        began = time.perf_counter()
        os.fdatasync(fd)
        out.append((time.perf_counter() - began) * 1000)
    os.close(fd)
    os.unlink(path)
    return percentile(out, 99)


def bench_unpaid(rig, nginx, report):
    ours, theirs, rates = [], [], []
    for i in range(UNPAID_ROUNDS + 1):
        pairs = [(ours, rig.port, rig.gate.pid)]
        if nginx:
            pairs.insert(i % 2, (theirs, nginx.port, nginx.pid))
        for rows, port, pid in pairs:
            value, rate = wrk(port, pid, UNPAID_SECONDS if i else 1)
            if i:  # the first round warms up
                rows.append(value)
                if rows is ours:
                    rates.append(rate)
    report.ratio("gate: unpaid 402, CPU", "nginx return 402", median(theirs) if nginx else 0, median(ours), "us", 1.0, not nginx)
    report.line("gate: unpaid 402, one CPU", None, None, median(rates), "1/s", "-", True, recorded=True)


def batch_counts(rig):
    return [rig.metric("utter_gate_ledger_%s_total" % name) for name in ("writes", "commits")]


def bench_paid(rig, nginx, report):
    stock = payments(rig, PAID_CALLS * (PAID_ROUNDS + 1))
    plain = [b"GET /a HTTP/1.1\r\nHost: shop.test\r\n\r\n"] * (4 * PAID_CALLS)
    ours, theirs, rates, batches = [], [], [], []
    for i in range(PAID_ROUNDS + 1):
        changes = batch_counts(rig)
        client, requests = Client(rig.port), stock[i * PAID_CALLS:(i + 1) * PAID_CALLS]
        before, began = cpu_us(rig.gate.pid), time.perf_counter()
        client.run(requests)
        spent, took = cpu_us(rig.gate.pid) - before, time.perf_counter() - began
        client.close()
        if i:
            ours.append(spent / len(requests))
            rates.append(len(requests) / took)
            writes, commits = (now - then for now, then in zip(batch_counts(rig), changes))
            batches.append(writes / commits)
        if nginx:
            client, before = Client(nginx.proxy_port), cpu_us(nginx.pid)
            client.run(plain)
            if i:
                theirs.append((cpu_us(nginx.pid) - before) / len(plain))
            client.close()
    report.ratio("gate: paid call, %d in flight, CPU" % CONNECTIONS, "nginx proxy_pass once", median(theirs) if nginx else 0,
                 median(ours), "us", 9, not nginx)
    report.line("gate: changes in one transaction of the ledger, %d in flight" % CONNECTIONS, None, None, median(batches), "", "-",
                True, recorded=True)
    report.line("gate: paid calls, %d in flight" % CONNECTIONS, None, None, median(rates), "1/s", "-", True, recorded=True)
    return median(rates)


def bench_latency(rig, full, report):
    requests = payments(rig, int(full / 2 * HALF_SECONDS))
    syncs = [fdatasync_p99(rig.folder)]
    client = Client(rig.port)
    spent = client.run(requests, full / 2)
    client.close()
    syncs.append(fdatasync_p99(rig.folder))
    sync = max(syncs)
    report.line("gate: paid call p50 at half load", None, None, percentile(spent, 50), "ms", "-", True, recorded=True)
    report.at_most("gate: paid call p99 at half load", percentile(spent, 99), "ms", 8 * sync + 5, "fdatasync p99", sync)


def bench_idle(rig, report):
    idle = memory(rig.gate.pid)
    report.at_most("gate: RSS idle", idle["VmRSS"] / 1024, "MB", 16)
    report.at_most("gate: RssAnon idle", idle["RssAnon"] / 1024, "MB", 4)
    open_ones = [socket.create_connection(("127.0.0.1", rig.port)) for _ in range(IDLE)]
    gate_rig.fetch(rig.port, "/a")  # accepted after all of them
    time.sleep(0.2)
    grown = memory(rig.gate.pid)["RssAnon"] - idle["RssAnon"]
    for s in open_ones:
        s.close()
    report.at_most("gate: memory an idle connection, of %d" % IDLE, grown / IDLE, "KB", 1)


def run(build, report):
    folder = tempfile.mkdtemp(prefix="ut-bench-", dir="/var/tmp")
    shutil.chown(folder, gate_rig.USER)
    rig = gate_rig.Rig(folder, os.path.join(build, "bin"))
    rig.handler.close()
    echo, facilitator = (subprocess.Popen([build + "/bench/" + name], stdout=subprocess.PIPE, text=True)
                         for name in ("echo_server", "facilitator_double"))
    nginx = None
    try:
        upstream = int(echo.stdout.readline())
        rig.facilitator_port = int(facilitator.stdout.readline())
        rig.start_gate(handler={"url": "http://127.0.0.1:%d" % upstream},
                       limits={"concurrent": CONNECTIONS, "per_payer": CONNECTIONS})
        bench_idle(rig, report)
        if shutil.which("nginx", path="/usr/sbin:/usr/bin"):
            challenge = gate_rig.fetch(rig.port, "/a")
            nginx = Nginx(folder, challenge, upstream)
            check_same(challenge, gate_rig.fetch(nginx.port, "/a"))
        for pid in [rig.gate.pid, facilitator.pid, echo.pid] + ([nginx.pid] if nginx else []):
            pin(pid, SERVER_CPU)
        if shutil.which("wrk"):
            bench_unpaid(rig, nginx, report)
        else:
            print("gate: unpaid 402 left out: wrk is missing", file=sys.stderr)
        bench_latency(rig, bench_paid(rig, nginx, report), report)
    finally:
        for process in (nginx and nginx.process, echo, facilitator):
            if process:
                process.terminate()
                process.wait(20)
        rig.close()
        shutil.rmtree(folder)
