import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from rig import Rig  # noqa: E402


@pytest.fixture
def cold(request, tmp_path):
    """A rig whose facilitator and gate the test starts itself."""
    rig = Rig(tmp_path, os.path.join(os.path.abspath(request.config.getoption("--build")), "bin"))
    yield rig
    rig.close()


@pytest.fixture
def rig(cold):
    cold.start_facilitator()
    cold.start_gate()
    return cold
