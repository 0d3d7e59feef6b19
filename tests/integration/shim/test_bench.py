"""The shim's bench runs to its end on this machine; what it finds is judged by who runs it, not here."""
import os
import subprocess
import sys

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


@pytest.mark.once
def test_every_figure_is_printed(host, request):
    words = [os.path.join(TOP, "tests/bench/run"), "--build", os.path.abspath(request.config.getoption("--build")), "shim"]
    done = subprocess.run([sys.executable] + words, capture_output=True, text=True, env=dict(os.environ, UTTER_BENCH_PAIRS="1"))
    assert done.returncode in (0, 1), done.stdout + done.stderr
    for name in ("PSS for one", "processes beside", "State", "Pids", "Stats", "PSS each", "Create to first byte"):
        assert "shim: " + name in done.stdout, done.stdout
