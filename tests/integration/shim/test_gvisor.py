"""gVisor or nothing: every false runsc is a refusal with its own reason, never a fallback."""
import os
import shutil

import grpc
import pytest

from harness.refusal import refused


def attempt(host, path):
    host.write_policy(runsc=path)
    task = host.task(["/bin/probe", "true"])
    with refused("runsc") as caught:
        task.create()
    return caught.text


@pytest.fixture
def put(space):
    """put(name, text=…|copy=…, mode, owner): a file in a root-only folder."""
    folder = space.path("fake")
    os.makedirs(folder, mode=0o755)

    def make(name, text=None, copy=None, mode=0o755, owner=0):
        path = os.path.join(folder, name)
        if copy:
            shutil.copy(copy, path)
        else:
            with open(path, "w") as f:
                f.write(text)
        os.chmod(path, mode)
        os.chown(path, owner, owner)
        return path
    yield make
    shutil.rmtree(folder)


def test_missing(host, space):
    assert "/none/runsc" in attempt(host, "/none/runsc")


def test_shell_script(host, put):
    attempt(host, put("runsc", '#!/bin/sh\necho "runsc version release-20991231.0"\necho "spec: 1.2.1"\n'))


def test_runc_called_runsc(host, put):
    attempt(host, put("runsc", copy="/usr/sbin/runc"))


def test_writable_by_others(host, put):
    attempt(host, put("runsc", copy=host.runsc, mode=0o777))


def test_owned_by_another(host, put):
    attempt(host, put("runsc", copy=host.runsc, owner=1000))


def test_in_a_folder_that_others_write(host, space):
    folder = space.path("open")
    os.makedirs(folder)
    os.chmod(folder, 0o777)
    shutil.copy(host.runsc, folder + "/runsc")
    try:
        attempt(host, folder + "/runsc")
    finally:
        shutil.rmtree(folder)


def stops(host, *words):
    """No shim starts at all; the line says why."""
    task = host.task(["/bin/probe", "true"])
    with pytest.raises(grpc.RpcError) as error:
        task.create()
    for word in ("/etc/utter/policy.json",) + words:
        assert word in error.value.details(), error.value.details()


def test_policy_file_writable_by_others(host):
    os.chmod(host.policy, 0o666)
    stops(host, "writable by others")


@pytest.mark.parametrize("text", ["{", '{"no_such_key":1}', '{"runsc":"/usr/bin/runsc","runsc":"/bin/sh"}', "[]"])
def test_policy_file_that_does_not_parse(host, text):
    with open(host.policy, "w") as f:
        f.write(text)
    stops(host)


@pytest.mark.core
def test_runtime_options_change_nothing(host):
    """Options of a caller name a config file; security settings never come from there."""
    from google.protobuf.any_pb2 import Any
    task = host.task(["/bin/probe", "status"])
    try:
        task.create(options=Any(type_url="runtimeoptions.v1.Options", value=b"\x12\x0c/etc/whatever"))
    except Exception:
        return
    status, out, _ = task.start().finish()
    assert status == 0 and '"Seccomp":"2"' in out
