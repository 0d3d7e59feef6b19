"""The harness itself, shown with runc: what the other tests rely on, and that a leak is seen."""
import os

import pytest

from harness.space import difference, hold_folder, let_go

RUNC = "io.containerd.runc.v2"

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True)
def parents(host, space):
    """runc leaves the parents of a container's cgroup; ours must not, so the leak check asks for them."""
    yield
    for folder in reversed(space.cgroups()):
        os.rmdir(folder)


def test_run_gives_status_and_output(host):
    status, out, err = host.run(["/bin/sh", "-c", "echo out; echo err >&2; exit 7"], runtime=RUNC)
    assert (status, out, err) == (7, "out\n", "err\n")


def test_probe_sees_a_broken_promise(host):
    seen = host.probe("status", "--", "escape", runtime=RUNC)
    assert seen["status"]["CapEff"] == "0000000000000000"
    assert seen["clone3:plain"]["ok"], "runc without a seccomp profile lets clone3 through; the probe must see that"


def test_leak_is_seen(host, space):
    before = space.snapshot()
    open("/run/leaked", "w").close()
    try:
        assert difference(before, space.snapshot()) == ["files: /run/leaked"]
    finally:
        os.unlink("/run/leaked")


def test_cri_client_runs_a_pod(host):
    """With runc as the handler's runtime where the daemon is told so; here only that CRI answers as ready."""
    assert host.cri().ready()


def test_a_folder_that_another_run_holds_stays(tmp_path):
    name = str(tmp_path / "held")
    first, second = hold_folder(name), hold_folder(name)
    assert (first[2], second[2]) == (True, False)
    let_go(*first)
    assert os.path.isdir(name), "removed under another run that has something mounted there"
    let_go(*second)
    assert os.path.isdir(name)
    os.rmdir(name)
    let_go(*hold_folder(name))
    assert not os.path.exists(name)
