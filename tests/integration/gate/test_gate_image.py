"""The gate's image: small, without root, with its licences, the same wherever it is made; and it runs."""
import hashlib
import json
import os
import shutil
import subprocess
import tarfile

import pytest

from rig import fetch, free_port

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def make(program, folder, umask, date):
    """The image of a copy of `program` in `folder`, under another umask and with another date on the file."""
    os.makedirs(folder)
    copy = shutil.copy(program, folder)
    os.utime(copy, (date, date))
    out = os.path.join(folder, "gate.tar")
    done = subprocess.run([os.path.join(TOP, "gate/image"), copy, out], capture_output=True, text=True, umask=umask, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), out


@pytest.fixture
def image(request, tmp_path):
    program = os.path.join(os.path.abspath(request.config.getoption("--build")), "bin/utter-gate")
    return make(program, str(tmp_path / "image"), 0o022, 1)


def blob(archive, digest):
    data = archive.extractfile("blobs/sha256/" + digest.split(":")[1]).read()
    assert "sha256:" + hashlib.sha256(data).hexdigest() == digest
    return data


@pytest.mark.once
def test_same_digest_from_two_folders_umasks_and_dates(request, tmp_path):
    program = os.path.join(os.path.abspath(request.config.getoption("--build")), "bin/utter-gate")
    one, first = make(program, str(tmp_path / "a"), 0o077, 86400)
    two, second = make(program, str(tmp_path / "deeper" / "b"), 0o000, 1700000000)
    assert one == two
    with open(first, "rb") as a, open(second, "rb") as b:
        assert a.read() == b.read()


def compiled(folder):
    """The gate's program, compiled from a copy of the sources in `folder`."""
    shutil.copytree(TOP, folder, ignore=shutil.ignore_patterns("build", ".git"))
    for words in (["cmake", "--preset", "release", "-DUTTER_TESTS=OFF"],
                  ["cmake", "--build", "--preset", "release", "--target", "utter-gate"]):
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    return os.path.join(folder, "build/release/bin/utter-gate")


@pytest.mark.once
@pytest.mark.long
def test_same_digest_from_two_compiles(tmp_path):
    one, _ = make(compiled(str(tmp_path / "here")), str(tmp_path / "a"), 0o022, 1)
    two, _ = make(compiled(str(tmp_path / "deeper" / "there")), str(tmp_path / "b"), 0o022, 1)
    assert one == two


@pytest.mark.once
def test_what_is_in_it(image, tmp_path):
    digest, path = image
    with tarfile.open(path) as archive:
        manifest = json.loads(blob(archive, digest))
        config = json.loads(blob(archive, manifest["config"]["digest"]))
        layer = tmp_path / "layer"
        layer.write_bytes(blob(archive, manifest["layers"][0]["digest"]))
    assert os.path.getsize(path) <= 25 * 1000 * 1000
    assert config["config"]["User"] == "65532:65532"
    assert config["config"]["Labels"]["org.opencontainers.image.version"] == "0.1.0"
    assert config["config"]["Healthcheck"]["Test"][1:3] == ["/usr/bin/utter-gate", "probe"]
    with tarfile.open(layer) as files:
        members = {m.name: m for m in files}
    for name in ("usr/bin/utter-gate", "etc/ssl/certs/ca-certificates.crt", "etc/nsswitch.conf", "usr/share/doc/libc6/copyright"):
        assert members[name].isreg(), name
    assert not [n for n, m in members.items() if m.mode & 0o6000 or n in ("usr/bin/sh", "bin/sh")]
    assert sum(m.size for m in members.values()) <= 25 * 1024 * 1024
    assert {n for n, m in members.items() if m.uid} == {"var/lib/utter-gate", "run/utter-gate"}


@pytest.mark.once
def test_it_runs_with_nothing_but_its_own_files(image, tmp_path):
    """No loader, library or file of this machine: the layer alone as root folder, as the user it names."""
    with tarfile.open(image[1]) as archive:
        manifest = json.loads(blob(archive, image[0]))
        layer = tmp_path / "layer"
        layer.write_bytes(blob(archive, manifest["layers"][0]["digest"]))
    root = tmp_path / "root"
    root.mkdir()
    with tarfile.open(layer) as files:
        files.extractall(root)
    done = subprocess.run(["/usr/sbin/chroot", "--userspec=65532:65532", str(root), "/usr/bin/utter-gate", "version"],
                          capture_output=True, text=True, env={})
    assert (done.returncode, done.stderr) == (0, ""), done
    assert "0.1.0" in done.stdout


# ---- the image at work: TLS by name, killed, restarted on its volume ----

NAME = "facilitator.test"


class Tls:
    """nginx with a certificate for NAME of an authority of our own, in front of `upstream`."""

    def __init__(self, folder, upstream):
        self.port, self.ca = free_port(), os.path.join(folder, "ca.pem")
        path = os.path.join(folder, "tls.conf")
        key = os.path.join(folder, "key.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key,
                        "-out", self.ca, "-days", "2", "-subj", "/CN=" + NAME, "-addext", "subjectAltName=DNS:" + NAME],
                       check=True, capture_output=True)
        os.chmod(self.ca, 0o644)
        with open(path, "w") as f:
            f.write("""daemon off; master_process off; pid %(d)s/nginx.pid; error_log %(d)s/nginx.err;
events { worker_connections 256; }
http { access_log off; client_body_temp_path %(d)s/t1; proxy_temp_path %(d)s/t2; fastcgi_temp_path %(d)s/t3; uwsgi_temp_path %(d)s/t4;
  scgi_temp_path %(d)s/t5;
  server { listen 127.0.0.1:%(p)d ssl; server_name %(n)s; ssl_certificate %(ca)s; ssl_certificate_key %(key)s;
    location / { proxy_pass http://127.0.0.1:%(u)d; } } }
""" % {"d": folder, "p": self.port, "n": NAME, "ca": self.ca, "key": key, "u": upstream})
        self.process = subprocess.Popen([shutil.which("nginx", path="/usr/sbin:/usr/bin"), "-c", path, "-p", folder], stderr=subprocess.DEVNULL)


def bundle(folder, root, binds):
    """A bundle of plain defaults: the user of the image, no capability, a root that cannot be written."""
    mounts = [{"destination": "/proc", "type": "proc", "source": "proc"},
              {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=65536k"]},
              {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev"]}]
    mounts += [{"destination": at, "type": "bind", "source": source, "options": ["rbind", how]} for at, source, how in binds]
    spec = {"ociVersion": "1.0.2", "hostname": "gate", "mounts": mounts, "root": {"path": root, "readonly": True},
            "process": {"terminal": False, "user": {"uid": 65532, "gid": 65532}, "args": ["/usr/bin/utter-gate", "serve", "/etc/utter/gate.json"],
                        "env": ["PATH=/usr/bin"], "cwd": "/", "noNewPrivileges": True,
                        "capabilities": {k: [] for k in ("bounding", "effective", "permitted")}},
            "linux": {"namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")]}}
    os.makedirs(folder)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(spec, f)


@pytest.mark.once
@pytest.mark.timeout(180)
@pytest.mark.parametrize("runtime", [["runc"], ["runsc", "--network=host", "--ignore-cgroups"]], ids=["runc", "runsc"])
def test_a_sale_over_tls_by_name_then_killed_and_released(image, cold, tmp_path, runtime):
    program = shutil.which(runtime[0], path="/usr/sbin:/usr/bin:/usr/local/bin")
    if not program or not shutil.which("nginx", path="/usr/sbin:/usr/bin"):
        pytest.skip("%s or nginx is missing" % runtime[0])
    with tarfile.open(image[1]) as archive:
        layer = tmp_path / "layer"
        layer.write_bytes(blob(archive, json.loads(blob(archive, image[0]))["layers"][0]["digest"]))
    folder = cold.folder
    root, volume, hosts = (os.path.join(folder, n) for n in ("root", "volume", "hosts"))
    with tarfile.open(layer) as files:
        files.extractall(root)
    os.chmod(folder, 0o755)
    os.mkdir(volume, 0o700)
    os.chown(volume, 65532, 65532)
    cold.start_facilitator()
    tls = Tls(folder, cold.facilitator_port)
    with open(hosts, "w") as f:
        f.write("127.0.0.1 localhost\n127.0.0.1 %s\n" % NAME)
    config = cold.make_config(facilitator={"url": "https://%s:%d" % (NAME, tls.port), "ca_file": "/etc/utter/ca.pem"},
                              ledger={"path": "/var/lib/utter-gate/ledger.db", "any_filesystem": False})
    del config["user"]
    file = cold.write_config(config)
    os.chmod(file, 0o644)
    bundle(os.path.join(folder, "bundle"), root, [("/var/lib/utter-gate", volume, "rw"), ("/etc/utter/gate.json", file, "ro"),
                                                  ("/etc/utter/ca.pem", tls.ca, "ro"), ("/etc/hosts", hosts, "ro")])
    command = [program, "--root", os.path.join(folder, "state"), *runtime[1:]]

    def run(name):
        """The container in the foreground; ready when its own probe says so."""
        cold._start(command + ["run", "--bundle", os.path.join(folder, "bundle"), name], "gate.log")
        cold.gate = cold.processes[-1]
        cold._until(cold.ready, "gate in its image", 60)
        probe = subprocess.run(command + ["exec", name, "/usr/bin/utter-gate", "probe", "127.0.0.1:%d" % cold.admin_port],
                               capture_output=True, text=True, timeout=60)
        assert probe.returncode == 0, (probe, cold.log())

    def end(name):
        subprocess.run(command + ["kill", name, "KILL"], check=True, capture_output=True, timeout=60)
        cold.gate.wait(60)
        subprocess.run(command + ["delete", "--force", name], capture_output=True, timeout=60)

    names = ["ut-image-%d-%d" % (os.getpid(), n) for n in (1, 2)]
    try:
        run(names[0])
        paid = cold.payment()
        first = fetch(cold.port, "/a", headers=paid)
        assert first.status == 200 and first.receipt()["success"], (first.body, cold.log())
        end(names[0])
        run(names[1])
        again = fetch(cold.port, "/a", headers=paid)
        assert (again.status, again.body) == (200, first.body) and again.receipt()["transaction"] == first.receipt()["transaction"]
        assert len(cold.handler.runs) == 1 and cold.stats()["transfers"] == 1
        end(names[1])
    finally:
        for name in names:
            subprocess.run(command + ["delete", "--force", name], capture_output=True, timeout=60)
        tls.process.terminate()
        tls.process.wait(20)
