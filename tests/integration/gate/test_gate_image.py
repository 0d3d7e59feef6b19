"""The gate's image: small, without root, with its licences, the same wherever it is made; and it runs."""
import hashlib
import json
import os
import shutil
import subprocess
import tarfile

import pytest

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
