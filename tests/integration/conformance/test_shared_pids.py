"""A pod whose containers share one PID namespace, as critest makes it: the rules refuse such pods, the mechanics hold."""
import time
from types import SimpleNamespace

import pytest

from harness.cri import Cri

POD_PID = 0


@pytest.fixture
def cri(suite, space):
    made = Cri(SimpleNamespace(space=space, containerd=suite.daemon, namespace="ut-int-conf"))
    made.ready()
    yield made
    assert made.close() == []


def shared(config):
    config.linux.security_context.namespace_options.pid = POD_PID


@pytest.mark.parametrize("how", ["killed", "ends by itself"])
def test_what_a_container_leaves_behind_ends_with_it(cri, how):
    """It held the container's output open: containerd never saw the end, StopContainer took its whole time."""
    pod = cri.pod(change=shared)
    last = "exec sleep 1000" if how == "killed" else "true"
    container = pod.container(["/bin/sh", "-c", "sleep 1001 & " + last], change=shared).start()
    began = time.monotonic()
    if how == "killed":
        container.stop(timeout=1)
        assert container.state().exit_code in (137, 143)
    else:
        assert container.finish(30)[0] == 0
    container.remove()
    assert time.monotonic() - began < 30
    other = pod.container(["/bin/ps"], change=shared).start()
    status, _, log = other.finish(30)
    assert status == 0 and "sleep 1001" not in log, log
