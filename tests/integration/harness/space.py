"""The tests' own corner of the machine.

The test process gives itself a private mount namespace with a fresh tmpfs on /run and its own /etc/utter, a private
network namespace that plays the host, and becomes the reaper of all that it starts. So the machine's containerd,
sockets, policy and network are neither seen nor touched, and everything left behind is found: processes are
descendants, mounts are in our own mount table, files are below /run, links in our namespace.
"""
import ctypes
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

CLONE_NEWNS, CLONE_NEWNET = 0x20000, 0x40000000
MS_REC, MS_PRIVATE, MS_BIND = 0x4000, 1 << 18, 0x1000
PR_SET_CHILD_SUBREAPER = 36
CGROUPS = "/sys/fs/cgroup"
libc = ctypes.CDLL(None, use_errno=True)


def _call(what, result):
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, "%s: %s" % (what, os.strerror(error)))


def mount(source, target, kind=None, flags=0, data=None):
    encode = lambda s: s.encode() if s is not None else None
    _call("mount " + target, libc.mount(encode(source), encode(target), encode(kind), flags, encode(data)))


def hold_folder(name):
    """Makes the folder where it is missing and holds it: (fd, name, whether we made it).

    Several test runs may mount over the same folder at once. Who removed it while another has something mounted there
    would take that mount away, in its namespace too: hence the shared lock.
    """
    while True:
        made = not os.path.isdir(name)
        os.makedirs(name, exist_ok=True)
        try:
            fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue
        fcntl.flock(fd, fcntl.LOCK_SH)
        if os.path.isdir(name) and os.path.samestat(os.fstat(fd), os.stat(name)):
            return fd, name, made
        os.close(fd)


def let_go(fd, name, made):
    """Removes the folder if it is empty, ours and nobody else holds it."""
    try:
        if made:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.rmdir(name)
    except OSError:
        pass
    os.close(fd)


class Space:
    """Made once per run; `root` is a folder of its own, removed at the end."""

    def __init__(self):
        self.held = [hold_folder(name) for name in ("/etc/utter", "/var/lib/utter")]
        _call("unshare", libc.unshare(CLONE_NEWNS | CLONE_NEWNET))
        mount("none", "/", None, MS_REC | MS_PRIVATE)
        self._own_run()
        self._own_sys()
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        self._bridge("utint0")
        self.root = tempfile.mkdtemp(prefix="ut-int.")
        os.chmod(self.root, 0o711)
        for name in ("etc", "var"):
            os.mkdir(os.path.join(self.root, name))
        mount(self.path("etc"), "/etc/utter", None, MS_BIND)
        mount(self.path("var"), "/var/lib/utter", None, MS_BIND)
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.kept = set()

    def _own_run(self):
        """A fresh /run. The host's system bus stays where there is one: by it runsc asks systemd for a scope."""
        bus = os.open("/run/dbus", os.O_PATH) if os.path.exists("/run/dbus/system_bus_socket") else None
        mount("tmpfs", "/run", "tmpfs", 0, "mode=755,size=256m")
        if bus is not None:
            os.mkdir("/run/dbus")
            mount("/proc/self/fd/%d" % bus, "/run/dbus", None, MS_BIND)
            os.close(bus)

    def _own_sys(self):
        """A sysfs that shows our network namespace, with the same cgroup mounts."""
        os.mkdir("/run/sys")
        mount("sysfs", "/run/sys", "sysfs")
        mount("/sys/fs/cgroup", "/run/sys/fs/cgroup", None, MS_BIND | MS_REC)
        mount("/run/sys", "/sys", None, MS_BIND | MS_REC)
        libc.umount2(b"/run/sys", 2)
        os.rmdir("/run/sys")

    def _bridge(self, name):
        """The pods' bridge, made before its first use so that it never gets an IPv6 address."""
        subprocess.run(["ip", "link", "add", name, "type", "bridge"], check=True)
        with open("/proc/sys/net/ipv6/conf/%s/disable_ipv6" % name, "w") as f:
            f.write("1")
        subprocess.run(["ip", "link", "set", name, "up"], check=True)

    def path(self, *parts):
        return os.path.join(self.root, *parts)

    # ---- processes ----

    def descendants(self):
        """{pid: command line} of every live process below this one."""
        parents, names = {}, {}
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                with open("/proc/%s/stat" % entry) as f:
                    state, parent = f.read().rpartition(")")[2].split()[:2]
                with open("/proc/%s/cmdline" % entry, "rb") as f:
                    command = f.read().replace(b"\0", b" ").decode(errors="replace").strip()
            except OSError:
                continue
            if state not in "ZX":
                parents[int(entry)] = int(parent)
                names[int(entry)] = command
        found, grew = {os.getpid()}, True
        while grew:
            more = {pid for pid, parent in parents.items() if parent in found} - found
            found, grew = found | more, bool(more)
        return {pid: names[pid] for pid in found - {os.getpid()}}

    def reap(self, own):
        """Collects orphans that came to us; the pids in own belong to subprocess objects."""
        for entry in os.listdir("/proc"):
            if entry.isdigit() and int(entry) not in own:
                try:
                    with open("/proc/%s/stat" % entry) as f:
                        state, parent = f.read().rpartition(")")[2].split()[:2]
                    if state == "Z" and int(parent) == os.getpid():
                        os.waitpid(int(entry), os.WNOHANG)
                except (OSError, ChildProcessError):
                    pass

    # ---- what is there, for the leak check ----

    def mounts(self):
        with open("/proc/self/mountinfo") as f:
            return sorted(line.split()[4] for line in f)

    def cgroups(self):
        """Folders of our namespaces in every hierarchy."""
        found = []
        for top in [CGROUPS] + [os.path.join(CGROUPS, d) for d in os.listdir(CGROUPS)]:
            if os.path.isdir(top) and not os.path.islink(top):
                for name in os.listdir(top):
                    if name.startswith(("ut-int", "kubepods-ut-int")):
                        found += [folder for folder, _, _ in os.walk(os.path.join(top, name))]
        return sorted(found)

    def files(self):
        """Everything below /run, and below containerd's state."""
        found = []
        for top in ("/run", self.path("state")):
            for folder, _, names in os.walk(top):
                found += [os.path.join(folder, name) for name in names]
        return sorted(found)

    def links(self):
        """Network interfaces of this namespace."""
        return sorted(name for _, name in socket.if_nameindex())

    def snapshot(self):
        return {"processes": sorted("%d %s" % row for row in self.descendants().items()),
                "mounts": self.mounts(), "cgroups": self.cgroups(), "files": self.files(), "links": self.links()}

    def close(self):
        for _ in range(50):
            left = self.descendants()
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            self.reap(set())
            if not left:
                break
            time.sleep(0.1)
        for folder in reversed(self.cgroups()):
            try:
                os.rmdir(folder)
            except OSError:
                pass
        for target in sorted(self.mounts(), reverse=True):
            if target.startswith(self.root + "/") or target in ("/etc/utter", "/var/lib/utter"):
                libc.umount2(target.encode(), 2)
        shutil.rmtree(self.root, ignore_errors=True)
        for fd, name, made in self.held:
            let_go(fd, name, made)


def difference(before, after):
    """Lines that say what is new in after."""
    out = []
    for kind in before:
        old = list(before[kind])
        for item in after[kind]:
            if item in old:
                old.remove(item)
            else:
                out.append("%s: %s" % (kind, item))
    return out
