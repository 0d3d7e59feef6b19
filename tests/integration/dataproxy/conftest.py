"""Fixtures of the data proxy's tests; what they are made of is in proxyrig.py."""
import os
import shutil
import sys
import tempfile

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../gate")]

from proxyrig import Proxy, Upstream  # noqa: E402
from rig import USER, Rig  # noqa: E402


@pytest.fixture
def folder():
    """On a real file system, reachable by the user that gate and proxy become."""
    made = tempfile.mkdtemp(prefix="ut-data.", dir="/var/tmp")
    os.chmod(made, 0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def cold(request, folder):
    """A gate's rig, nothing started."""
    os.mkdir(folder + "/gate")
    shutil.chown(folder + "/gate", USER)
    made = Rig(folder + "/gate", os.path.join(os.path.abspath(request.config.getoption("--build")), "bin"))
    yield made
    made.close()


@pytest.fixture
def upstream():
    server = Upstream()
    yield server
    server.done()


@pytest.fixture
def make_proxy(folder, request, upstream):
    made = []

    def make(change=lambda config: None):
        place = "%s/proxy%d" % (folder, len(os.listdir(folder)))
        os.mkdir(place)
        made.append(Proxy(place, request.config.getoption("--build"), upstream, change))
        return made[-1]

    yield make
    for proxy in made:
        if proxy.process.poll() is None:
            proxy.stop()


@pytest.fixture
def proxy(make_proxy):
    return make_proxy()
