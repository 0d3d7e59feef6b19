"""The program without rules: never installed, never outside a test's own directory, and it says what it is."""
import os
import subprocess

import pytest

pytestmark = pytest.mark.once
NAME = "containerd-shim-utterconf-v1"


def start(conformance_bin, address, **env):
    words = [os.path.join(conformance_bin, NAME), "-namespace", "k8s.io", "-id", "c1", "-address", address,
             "-publish-binary", "/bin/true", "start"]
    return subprocess.run(words, capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL,
                          env=dict({"PATH": "/usr/bin:/bin"}, **env))


@pytest.mark.parametrize("address, folder", [
    ("/run/containerd/containerd.sock", None),
    ("/run/containerd/containerd.sock", "/run/containerd"),
    ("/run/containerd/containerd.sock", ""),
    ("/run/containerd/containerd.sock", "/"),
    ("/run/containerd/containerd.sock", "/tmp/"),
    ("/run/containerd/containerd.sock", "/tmp/../run/containerd"),
    ("/tmp/other/c.sock", "/tmp/mine"),
    ("/tmp/mine-not/c.sock", "/tmp/mine"),
    ("/tmp/mine", "/tmp/mine"),
    ("/tmp/mine/../../run/containerd/containerd.sock", "/tmp/mine"),
])
def test_refuses_outside_a_tests_directory(conformance_bin, address, folder):
    done = start(conformance_bin, address, **({} if folder is None else {"UTTERCONF_DIR": folder}))
    assert done.returncode == 1, done
    assert "applies no rule and runs in tests only" in done.stderr
    assert done.stdout == ""


def test_is_not_installed(request, space):
    build = os.path.abspath(request.config.getoption("--build"))
    root = space.path("installed")
    subprocess.run(["cmake", "--install", build, "--prefix", root + "/usr"], check=True, capture_output=True,
                   env=dict(os.environ, DESTDIR=""))
    found = [name for _, _, names in os.walk(root) for name in names]
    assert "containerd-shim-utter-v1" in found
    assert [name for name in found if "utterconf" in name] == []
