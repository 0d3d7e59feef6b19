import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from deployrig import Rig, traefik_binary  # noqa: E402


@pytest.fixture(scope="module")
def rig(request):
    rig = Rig(request.config.getoption("--containerd"), request.config.getoption("--build"),
              getattr(request.module, "TURN", "rig"))
    rig.gate_image()
    yield rig
    rig.stop()


@pytest.fixture(scope="module")
def traefik(rig):
    binary, why = traefik_binary()
    if not binary:
        pytest.skip(why)
    rig.start_traefik(binary)
    return binary
