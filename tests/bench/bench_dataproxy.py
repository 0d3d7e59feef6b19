"""What the data proxy adds to a call, beside squid as a plain forward proxy; its token; its memory."""
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from figures import median, percentile

HERE = os.path.dirname(os.path.abspath(__file__))
CALLS, ROUNDS = 400, 5


def timed(connection, path, headers):
    began = time.perf_counter()
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    spent = (time.perf_counter() - began) * 1000
    if answer.status != 200 or len(body) != 240:
        raise RuntimeError("%s: %d %r" % (path, answer.status, body[:100]))
    return spent


def rss(pid):
    rows = dict(line.split(":", 1) for line in open("/proc/%d/status" % pid) if ":" in line)
    return {name: int(rows[name].split()[0]) / 1024 for name in ("VmRSS", "RssAnon")}


class Proxy:
    def __init__(self, build, folder, upstream):
        sys.path.insert(0, os.path.join(HERE, "../integration/dataproxy"))
        import proxyrig

        class Address:
            port = upstream

        os.mkdir(os.path.join(folder, "proxy"))
        self.real = proxyrig.Proxy(os.path.join(folder, "proxy"), build, Address)
        self.gate = self.real.gate()
        self.gate.open("bench", calls=1000000, bytes=1 << 30, ms=600000)
        self.headers = {"Host": "data", "Utter-Data-Token": self.real.token("bench", calls=1000000, exp=int(time.time()) + 600)}
        self.port, self.pid = self.real.port, self.real.process.pid


def squid(folder):
    program = shutil.which("squid", path="/usr/sbin:/usr/bin:/sbin:/bin")
    if not program:
        return None, None
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    config = os.path.join(folder, "squid.conf")
    with open(config, "w") as f:
        f.write("http_port 127.0.0.1:%d\ncache deny all\nhttp_access allow localhost\naccess_log none\ncache_log /dev/null\n"
                "pid_filename none\nshutdown_lifetime 0 seconds\n" % port)
    process = subprocess.Popen([program, "-N", "-n", "utterbench%d" % os.getpid(), "-f", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return process, port
        except OSError:
            time.sleep(0.05)
    process.kill()
    return None, None


def run(build, report):
    bench = os.path.join(build, "bench")
    mint, first, again, verify = map(float, subprocess.run([bench + "/data_token_bench"], capture_output=True, check=True, text=True).stdout.split())
    report.at_most("data token: mint, CPU", mint, "us", 60)
    report.at_most("data token: check, CPU", again, "us", 120)
    report.ratio("data token: a token's first check, CPU", "OpenSSL's Ed25519 verification alone", verify, first, "us", 1.25)
    folder = tempfile.mkdtemp(prefix="ut-bench-")
    os.chmod(folder, 0o755)
    echo = subprocess.Popen([bench + "/echo_server"], stdout=subprocess.PIPE, text=True)
    proxy = peer = None
    try:
        upstream = int(echo.stdout.readline())
        proxy = Proxy(build, folder, upstream)
        idle = rss(proxy.pid)
        peer, peer_port = squid(folder)
        direct = http.client.HTTPConnection("127.0.0.1", upstream)
        ours = http.client.HTTPConnection("127.0.0.1", proxy.port)
        theirs = http.client.HTTPConnection("127.0.0.1", peer_port) if peer else None
        rows = {"direct": [], "ours": [], "theirs": []}
        for round_ in range(ROUNDS + 1):
            for _ in range(CALLS):
                samples = [("direct", timed(direct, "/fine", {})), ("ours", timed(ours, "/api/fine", proxy.headers))]
                if theirs:
                    samples.append(("theirs", timed(theirs, "http://127.0.0.1:%d/fine" % upstream, {})))
                if round_:  # the first round warms up
                    for name, value in samples:
                        rows[name].append(value)
        for p, limit in ((50, 0.4), (99, 1.5)):
            base = percentile(rows["direct"], p)
            added = percentile(rows["ours"], p) - base
            beside = percentile(rows["theirs"], p) - base if theirs else None
            report.at_most("data proxy: added latency p%d" % p, added, "ms", limit, "squid" if theirs else None, beside)
        report.at_most("data proxy: RSS idle", idle["VmRSS"], "MB", 16, "squid" if peer else None, rss(peer.pid)["VmRSS"] if peer else None)
        report.at_most("data proxy: RssAnon idle", idle["RssAnon"], "MB", 4, "squid" if peer else None, rss(peer.pid)["RssAnon"] if peer else None)
        report.line("data proxy: direct call p50", None, None, median(rows["direct"]), "ms", "-", True, recorded=True)
    finally:
        for process in (proxy and proxy.real.process, peer, echo):
            if process:
                process.terminate()
                process.wait(20)
        shutil.rmtree(folder)
