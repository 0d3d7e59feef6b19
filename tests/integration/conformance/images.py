"""The images that critest names, made from what the machine has: busybox-static with all its applets, Debian's nginx and
ipcs with the libraries they need. Nothing is fetched.

They carry the names that critest has built in, in the tests' own containerd only. Its httpd is busybox's.
"""
import io
import os
import re
import subprocess
import tarfile
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader

HERE = os.path.dirname(os.path.abspath(__file__))
E2E = "registry.k8s.io/e2e-test-images/"
CRI_TOOLS = "gcr.io/k8s-staging-cri-tools/"
BUSYBOX = E2E + "busybox:1.29-2"
# What critest looks for in the log of a container that runs httpd.
HTTPD = ["sh", "-c", "echo httpd; exec httpd -f -h /www -p 80"]
PROGRAMS = ("/usr/sbin/nginx", "/usr/bin/ipcs")
NGINX_CONF = """error_log stderr; daemon off; worker_processes 1;
events { worker_connections 16; }
http { access_log off; server { listen %d; root /www; } }
"""
PASSWD = """root:x:0:0:root:/root:/bin/sh
www-data:x:33:33:www-data:/www:/bin/sh
nobody:x:65534:65534::/:/bin/false
default-user:x:1000:1000::/home:/bin/sh
"""
GROUP = "root:x:0:\nwww-data:x:33:\nnogroup:x:65534:\ndefault-user:x:1000:\n"
MORE_GROUPS = GROUP + "group-defined-in-image:x:50000:default-user\n"
# busybox-static has no pgrep; critest asks for one by name only.
PGREP = """#!/bin/sh
for d in /proc/[0-9]*; do
    [ "$(cat "$d/comm" 2>/dev/null)" != "$1" ] || echo "${d#/proc/}"
done | grep .
"""
DIRS = """bin dev etc home mnt proc root run sys tmp usr usr/bin usr/sbin var var/log var/log/nginx var/lib var/lib/nginx
etc/nginx www""".split()


def _make():
    path = os.path.join(os.path.dirname(os.path.dirname(HERE)), "image", "make")
    loader = SourceFileLoader("utter_image_make", path)
    module = module_from_spec(spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def _nnp(folder):
    out = os.path.join(folder, "nnp")
    subprocess.run(["gcc", "-O2", "-static", "-s", "-o", out, os.path.join(HERE, "nnp.c")], check=True)
    with open(out, "rb") as f:
        return f.read()


def _closure(programs):
    """The programs and every file that their loader maps, by the path where it is asked for."""
    out = set(programs)
    for program in programs:
        text = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        out |= set(re.findall(r"(?:=> |^\s)(/\S+) \(", text, re.M))
    return sorted(out)


def _add_programs(make, tar):
    made = set(DIRS)
    for path in _closure(PROGRAMS):
        parts = path.strip("/").split("/")
        for n in range(1, len(parts)):
            folder = "/".join(parts[:n])
            if folder not in made:
                made.add(folder)
                make.add(tar, folder, kind=tarfile.DIRTYPE, mode=0o755)
        with open(path, "rb") as f:
            make.add(tar, path.strip("/"), f.read(), mode=0o755)


def _layer(make, nnp, groups):
    applets = subprocess.run([make.BUSYBOX, "--list"], capture_output=True, text=True, check=True).stdout.split()
    files = {"etc/passwd": PASSWD, "etc/group": groups, "www/index.html": "utter\n", "etc/hosts": "", "etc/resolv.conf": "",
             "etc/nginx/nginx.conf": NGINX_CONF % 80, "etc/nginx/hostnet.conf": NGINX_CONF % 12003}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in DIRS:
            make.add(tar, name, kind=tarfile.DIRTYPE, mode=0o1777 if name == "tmp" else 0o755)
        for name, text in files.items():
            make.add(tar, name, text.encode())
        with open(make.BUSYBOX, "rb") as f:
            make.add(tar, "bin/busybox", f.read(), mode=0o755)
        _add_programs(make, tar)
        make.add(tar, "var/run", kind=tarfile.SYMTYPE, mode=0o777, link="/run")
        make.add(tar, "bin/pgrep", PGREP.encode(), mode=0o755)
        make.add(tar, "nnp", nnp, mode=0o4755)
        for name in sorted(set(applets) - {"busybox", "pgrep"}):
            make.add(tar, "bin/" + name, kind=tarfile.SYMTYPE, mode=0o777, link="busybox")
    return out.getvalue()


def write(folder):
    """Writes folder/critest.tar and folder/pause.tar for `ctr images import`; gives their paths."""
    make = _make()
    nnp = _nnp(folder)
    plain, grouped = _layer(make, nnp, GROUP), _layer(make, nnp, MORE_GROUPS)
    env = ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
    layout = make.Layout()
    config = lambda cmd, **more: dict({"Env": env, "Cmd": cmd, "WorkingDir": "/"}, **more)
    layout.image(BUSYBOX, plain, config(["sh"]))
    layout.image(E2E + "nginx:1.14-2", plain, config(["nginx"]))
    layout.image(CRI_TOOLS + "hostnet-nginx-" + make.ARCH + ":latest", plain, config(["nginx", "-c", "/etc/nginx/hostnet.conf"]))
    layout.image(E2E + "httpd:2.4.39-4", plain, config(HTTPD))
    layout.image(E2E + "nonewprivs:1.3", plain, config(["/nnp"]))
    layout.image(CRI_TOOLS + "test-image-predefined-group:latest", grouped, config(["sh"], User="1000"))
    path, pause = os.path.join(folder, "critest.tar"), os.path.join(folder, "pause.tar")
    layout.write(path)
    subprocess.run([os.path.join(os.path.dirname(os.path.dirname(HERE)), "image", "make"), pause], check=True)
    return path, pause
