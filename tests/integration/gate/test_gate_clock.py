"""A15c: the wall clock jumps by an hour, under a running gate and between two lives: no answer is lost, none is sold twice.

libfaketime moves CLOCK_REALTIME alone, as a step of the machine's clock does."""
import glob
import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from rig import fetch, ok

pytestmark = [pytest.mark.once, pytest.mark.timeout(90)]

LIBRARY = glob.glob("/usr/lib/*/faketime/libfaketime.so.1")


class Clock:
    def __init__(self, rig):
        self.rig, self.path = rig, os.path.join(rig.folder, "clock")
        self.step(0)
        self.env = {"LD_PRELOAD": LIBRARY[0], "FAKETIME_TIMESTAMP_FILE": self.path, "FAKETIME_NO_CACHE": "1",
                    "FAKETIME_DONT_FAKE_MONOTONIC": "1"}

    def step(self, seconds):
        with open(self.path + ".new", "w") as f:
            f.write("%+d\n" % seconds)
        os.chmod(self.path + ".new", 0o644)
        os.rename(self.path + ".new", self.path)


@pytest.fixture
def clock(cold):
    if not LIBRARY:
        pytest.skip("libfaketime is not installed")
    cold.start_facilitator("--resettle", "idempotent")
    clock = Clock(cold)
    cold.start_gate(env=clock.env)
    return clock


@pytest.mark.parametrize("hours", [1, -1])
def test_a15c_a_step_under_a_running_gate(clock, hours):
    rig = clock.rig
    sold, running = rig.payment(), rig.payment()
    first = fetch(rig.port, "/a", headers=sold)
    assert first.status == 200
    rig.handler.answer = lambda request: [0.8, ok(b"slow")]
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(fetch, rig.port, "/a", "GET", running)
        time.sleep(0.3)
        clock.step(3600 * hours)
        assert call.result().status == 200
    assert fetch(rig.port, "/a", headers=sold).body == first.body
    assert fetch(rig.port, "/a", headers=running).body == b"slow"
    rig.handler.answer = lambda request: ok(b"new")
    fresh = rig.payment(validAfter=str(int(time.time()) - 60))
    assert fetch(rig.port, "/a", headers=fresh).status == 402  # by this clock it is not valid: that is what steps do
    clock.step(0)
    assert fetch(rig.port, "/a", headers=fresh).status == 200
    stats = rig.stats()
    assert stats["transfers"] == 3 == len(rig.handler.runs)


@pytest.mark.parametrize("hours", [1, -1])
@pytest.mark.parametrize("mode", ["delay", "reset", "pending"])
def test_a15c_a_step_between_two_lives(clock, hours, mode):
    """Killed while it settles, started an hour away: the retry gets the answer, whatever the clock says of its window."""
    rig = clock.rig
    rig.script(settle=[{"mode": mode, "ms": 3000}])
    paid = rig.payment()
    with ThreadPoolExecutor(1) as pool:
        def ask():
            try:
                return fetch(rig.port, "/a", headers=paid)
            except Exception:
                return None
        call = pool.submit(ask)
        time.sleep(0.4)
        rig.gate.kill()
        rig.gate.wait()
        call.result()
    clock.step(3600 * hours)
    rig.start_gate(env=clock.env)
    end = time.monotonic() + 20
    while (answer := fetch(rig.port, "/a", headers=paid)).status != 200 and time.monotonic() < end:
        assert answer.status == 503, (answer.status, answer.body)
        time.sleep(0.2)
    assert answer.status == 200 and answer.body == b'{"answer":42}'
    assert rig.stats()["transfers"] == 1 and len(rig.handler.runs) == 1
