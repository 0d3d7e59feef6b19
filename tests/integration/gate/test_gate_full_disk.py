"""The whole gate on a disk that fills up at each moment of a payment: 503, no handler run, nothing lost, nothing sold twice."""
import os
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from rig import USER, fetch, ok

pytestmark = [pytest.mark.once, pytest.mark.timeout(90)]


@pytest.fixture
def small(cold):
    """A ledger on a file system of 8 MiB; fill() leaves nothing of it, free() gives all back."""
    where = os.path.join(cold.folder, "small")
    os.mkdir(where)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", where], check=True)
    shutil.chown(where, USER)
    ballast = os.path.join(where, "ballast")

    def fill():
        with open(ballast, "ab", buffering=0) as f:
            for size in (65536, 4096):
                try:
                    while True:
                        f.write(b"x" * size)
                except OSError:
                    pass

    cold.fill, cold.free = fill, lambda: os.path.exists(ballast) and os.unlink(ballast)
    try:
        cold.start_facilitator("--resettle", "pending-store")
        cold.start_gate(ledger={"path": os.path.join(where, "ledger.db"), "sealed_max_bytes": 4 << 20},
                        limits={"response_body": 4096, "per_payer": 64}, deadlines={"settle_hold_ms": 1500})
        yield cold
    finally:
        for p in cold.processes:
            if p.poll() is None:
                p.kill()
            p.wait()
        subprocess.run(["umount", where], check=True)


def until_sold(rig, paid, seconds=20):
    end = time.monotonic() + seconds
    while (answer := fetch(rig.port, "/a", headers=paid)).status != 200 and time.monotonic() < end:
        assert answer.status == 503 and answer.get("Retry-After"), (answer.status, answer.body)
        time.sleep(0.2)
    return answer


def test_full_before_a_payment_nothing_runs(small):
    kept = small.payment()
    assert fetch(small.port, "/a", headers=kept).status == 200
    small.fill()
    runs, settles = len(small.handler.runs), small.stats()["settle"]
    payments = [small.payment() for _ in range(6)]
    for paid in payments:
        answer = fetch(small.port, "/a", headers=paid)
        assert answer.status == 503 and answer.get("Retry-After"), (answer.status, answer.body)
    assert len(small.handler.runs) == runs and small.stats()["settle"] == settles
    assert fetch(small.port, "/a").status == 402
    small.free()
    for paid in payments + [kept]:  # the payments are whole, and what was sold before is still to be had
        assert until_sold(small, paid).status == 200
    assert small.stats()["transfers"] == 7


def test_full_while_the_handler_runs_nobody_is_charged(small):
    def answer(request):
        small.fill()
        return ok(b"worked")
    small.handler.answer = answer
    paid = small.payment()
    got = fetch(small.port, "/a", headers=paid)
    assert got.status == 503 and b"worked" not in got.body
    assert small.stats()["settle"] == 0
    small.handler.answer = lambda request: ok(b"worked")
    small.free()
    assert until_sold(small, paid).body == b"worked"
    assert small.stats()["transfers"] == 1


def test_full_while_it_settles_the_answer_comes_later(small):
    """The money has moved and that cannot be written: no byte goes out, and the answer is kept for the retry."""
    small.script(settle=[{"mode": "delay", "ms": 700}])
    paid = small.payment()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(fetch, small.port, "/a", "GET", paid)
        time.sleep(0.35)
        assert len(small.handler.runs) == 1
        small.fill()
        got = first.result()
    assert got.status in (200, 503)
    if got.status == 503:
        assert b"answer" not in got.body
    assert small.stats()["transfers"] == 1
    small.free()
    assert until_sold(small, paid).body == b'{"answer":42}'
    assert small.stats()["transfers"] == 1 and len(small.handler.runs) == 1


def test_killed_on_a_full_disk_then_started_again(small):
    small.script(settle=[{"mode": "delay", "ms": 700}])
    paid = small.payment()
    with ThreadPoolExecutor(1) as pool:
        def ask():
            try:
                return fetch(small.port, "/a", headers=paid)
            except Exception as error:
                return error
        first = pool.submit(ask)
        time.sleep(0.35)
        small.fill()
        small.gate.kill()
        small.gate.wait()
        first.result()
    small.free()
    small.start_gate()
    assert until_sold(small, paid).body == b'{"answer":42}'
    assert small.stats()["transfers"] == 1 and len(small.handler.runs) == 1
