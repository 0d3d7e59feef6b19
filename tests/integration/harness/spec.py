"""A hardened spec, as utter-policy's documentation asks for it, and the small changes tests make to it."""
import copy

PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MASKED = ["/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
          "/proc/timer_stats", "/proc/sched_debug", "/sys/firmware", "/proc/scsi"]
READONLY = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]
CAPS = ("bounding", "effective", "inheritable", "permitted", "ambient")


def process(args, user=0, env=(), cwd="/", **kw):
    return dict({"terminal": False, "user": {"uid": user, "gid": user}, "args": list(args), "env": [PATH] + list(env),
                 "cwd": cwd, "capabilities": {k: [] for k in CAPS}, "noNewPrivileges": True,
                 "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 1024}]}, **kw)


def hardened(namespace, id, args, memory=128 << 20, pids=64, quota=50000, annotations=None, tmp_mb=16, **kw):
    mounts = [
        {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
         "options": ["nosuid", "noexec", "strictatime", "mode=755", "size=65536k"]},
        {"destination": "/dev/pts", "type": "devpts", "source": "devpts",
         "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]},
        {"destination": "/dev/shm", "type": "tmpfs", "source": "shm",
         "options": ["nosuid", "noexec", "nodev", "mode=1777", "size=1024k"]},
        {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["nosuid", "noexec", "nodev", "ro"]},
        {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs",
         "options": ["rw", "nosuid", "noexec", "nodev", "mode=1777", "size=%dm" % tmp_mb]},
    ]
    resources = {"memory": {"limit": memory, "swap": memory}, "cpu": {"quota": quota, "period": 100000},
                 "devices": [{"allow": False, "access": "rwm"}]}
    if pids:
        resources["pids"] = {"limit": pids}
    linux = {"resources": resources, "cgroupsPath": "/%s/%s" % (namespace, id), "maskedPaths": MASKED,
             "readonlyPaths": READONLY, "namespaces": [{"type": t} for t in ("pid", "ipc", "uts", "mount", "network")]}
    return {"ociVersion": "1.0.2", "process": process(args, **kw), "root": {"path": "rootfs", "readonly": True},
            "hostname": "probe", "mounts": mounts, "annotations": annotations or {}, "linux": linux}


def changed(spec, pointer, value):
    """A copy of spec with the value at a JSON pointer set; `-` appends to a list; None removes."""
    out = copy.deepcopy(spec)
    parts = pointer.strip("/").split("/")
    at = out
    for part in parts[:-1]:
        at = at[int(part)] if isinstance(at, list) else at.setdefault(part, {})
    last = parts[-1]
    if isinstance(at, list):
        if last == "-":
            at.append(value)
        else:
            at[int(last)] = value
    elif value is None:
        at.pop(last, None)
    else:
        at[last] = value
    return out
