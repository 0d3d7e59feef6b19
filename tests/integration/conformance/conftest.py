"""critest and the program without rules: one containerd for all tests of this folder."""
import glob
import os
import re
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.path.insert(0, HERE)

from critest import Suite  # noqa: E402


def critest_program():
    """critest as tests/peers builds it."""
    with open(os.path.join(TOP, "tests/peers/cri-tools/go.mod")) as f:
        version = re.search(r"^require \S+ v(\S+)", f.read(), re.M).group(1)
    store = os.environ.get("UTTER_PEERS", "/var/cache/utter-peers")
    found = glob.glob(os.path.join(store, "cri-tools-" + version, "critest"))
    if not found:
        pytest.skip("critest %s is not built (tests/peers/build cri-tools)" % version)
    return found[0]


@pytest.fixture(scope="session")
def conformance_bin(request):
    return os.path.join(os.path.abspath(request.config.getoption("--build")), "conformance")


@pytest.fixture(scope="session")
def suite(space, request, conformance_bin):
    option = request.config.getoption
    program = critest_program()
    made = Suite(space, option("--containerd"), option("--runsc"), [conformance_bin], program)
    yield made
    made.close()
    assert "no_rules" in made.daemon.log_tail(0, 1 << 30), "the program without rules did not say so"
