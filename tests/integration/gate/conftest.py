import os
import shutil
import sys
import tempfile

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from rig import USER, Rig  # noqa: E402


@pytest.fixture
def cold(request):
    """A rig whose facilitator and gate the test starts itself."""
    folder = tempfile.mkdtemp(prefix="ut-gate.", dir="/var/tmp")  # a real file system, reachable by USER
    shutil.chown(folder, USER)
    rig = Rig(folder, os.path.join(os.path.abspath(request.config.getoption("--build")), "bin"))
    yield rig
    rig.close()
    shutil.rmtree(folder)


@pytest.fixture
def rig(cold):
    cold.start_facilitator()
    cold.start_gate()
    return cold
