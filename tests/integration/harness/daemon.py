"""A private containerd of either version: own root, state, sockets and configuration."""
import json
import os
import re
import signal
import subprocess

from .wait import until

CONFIG_V2 = """version = 2
root = "{root}"
state = "{state}"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
  address = "{address}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{opt}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "utter.test/pause:1"
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{cni}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "utter"
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.utter]
      runtime_type = "{runtime}"
"""
CONFIG_V3 = """version = 3
root = "{root}"
state = "{state}"
disabled_plugins = ["io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
    "io.containerd.tracing.processor.v1.otlp", "io.containerd.nri.v1.nri"]
[grpc]
  address = "{address}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{opt}"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "utter.test/pause:1"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = "{cni}"
  [plugins."io.containerd.cri.v1.runtime".containerd]
    default_runtime_name = "utter"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.utter]
      runtime_type = "{runtime}"
[plugins."io.containerd.grpc.v1.cri"]
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
"""


def cni_internal(folder):
    """A network without a way out: a bridge that has no address, addresses without routes."""
    return {"cniVersion": "0.4.0", "name": "ut-int", "plugins": [
        {"type": "bridge", "bridge": "utint0", "isGateway": False, "ipMasq": False,
         "ipam": {"type": "host-local", "dataDir": folder, "ranges": [[{"subnet": "198.18.0.0/24"}]]}}]}


class Containerd:
    """start(), stop(), kill9() and restart(); every shim it starts finds our programs first in PATH.

    address, network (a conflist) and env are for the tests that need others than ours.
    """

    def __init__(self, space, binary, bin_dirs, runtime="io.containerd.utter.v1", name="c", address=None, network=None,
                 env=None):
        self.space, self.binary, self.name = space, binary, name
        self.ctr = os.path.join(os.path.dirname(binary), "ctr")
        self.version = self._version()
        self.root, self.state = space.path(name + "-root"), "/run/%s-state" % name
        self.address = address or "/run/%s.sock" % name
        self.cni, self.config = space.path(name + "-cni"), space.path(name + ".toml")
        self.log = space.path(name + ".log")
        self.process = None
        self.env = {"PATH": ":".join(bin_dirs + [os.path.dirname(binary), "/usr/sbin", "/usr/bin", "/sbin", "/bin"]),
                    "HOME": "/root", "LC_ALL": "C.UTF-8", **(env or {})}
        os.makedirs(self.cni, exist_ok=True)
        with open(os.path.join(self.cni, "10-internal.conflist"), "w") as f:
            json.dump(network or cni_internal(space.path(name + "-ipam")), f)
        text = CONFIG_V2 if self.version < (2, 0) else CONFIG_V3
        with open(self.config, "w") as f:
            f.write(text.format(root=self.root, state=self.state, address=self.address, opt=space.path("opt"),
                                cni=self.cni, runtime=runtime))

    def _version(self):
        out = subprocess.run([self.binary, "--version"], capture_output=True, text=True, check=True).stdout
        return tuple(int(n) for n in re.search(r"v?(\d+)\.(\d+)\.(\d+)", out).groups())

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([self.binary, "--config", self.config, "--log-level", "debug"],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env,
                                            start_new_session=True)
        until(self._ready, 60, "containerd answers")
        return self

    def _ready(self):
        assert self.process.poll() is None, "containerd ended: " + self.log_tail()
        if not os.path.exists(self.address):
            return False
        return self.ctr_run("version", check=False, timeout=10).returncode == 0

    def log_tail(self, start=0, limit=6000):
        with open(self.log, "rb") as f:
            f.seek(start)
            return f.read().decode(errors="replace")[-limit:]

    def log_size(self):
        return os.path.getsize(self.log)

    def ctr_run(self, *args, ns=None, check=True, timeout=60, **kw):
        command = [self.ctr, "--address", self.address] + (["-n", ns] if ns else []) + list(args)
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL,
                              env=self.env, **kw)
        if check:
            assert done.returncode == 0, "%s: %s%s" % (" ".join(command), done.stdout, done.stderr)
        return done

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def kill9(self):
        self.process.kill()
        self.process.wait()
