"""Many at once: idle connections beside paying ones, and what the memory of calls in flight comes to."""
import resource
import socket
import threading
import time

import pytest

from evm import Key
from rig import fetch, ok

IDLE, BUYERS, EACH = 10000, 8, 5
LARGE, HELD = 1 << 20, 32


def rss_anon_kb(pid):
    with open("/proc/%d/status" % pid) as f:
        return next(int(line.split()[1]) for line in f if line.startswith("RssAnon:"))


def idle_connection(port):
    """Accepted for sure: it has had its 402, and is kept alive."""
    s = socket.create_connection(("127.0.0.1", port), timeout=30)
    s.sendall(b"HEAD /a HTTP/1.1\r\nHost: shop.test\r\n\r\n")
    got = b""
    while b"\r\n\r\n" not in got:
        more = s.recv(65536)
        assert more, "closed while it was made"
        got += more
    assert got.startswith(b"HTTP/1.1 402 ")
    return s


@pytest.mark.once
def test_ten_thousand_idle_connections_beside_paid_calls(cold):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < IDLE + 2000:
        pytest.skip("only %d descriptors may be opened here" % hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    idle, answers = [], []
    try:
        cold.start_facilitator()
        cold.start_gate()
        assert cold.buy().status == 200  # what is made once is made
        before = rss_anon_kb(cold.gate.pid)
        idle += [idle_connection(cold.port) for _ in range(IDLE)]
        assert cold.metric("utter_gate_connections") >= IDLE
        grown = rss_anon_kb(cold.gate.pid) - before

        def buyer():
            for _ in range(EACH):
                answers.append(cold.buy().status)

        buyers = [threading.Thread(target=buyer) for _ in range(BUYERS)]
        for t in buyers:
            t.start()
        for t in buyers:
            t.join()
        assert answers == [200] * (BUYERS * EACH)
        assert cold.metric("utter_gate_connections") >= IDLE, "idle ones were closed for the paying"
        for s in idle[::500]:
            s.sendall(b"GET /a HTTP/1.1\r\nHost: shop.test\r\n\r\n")
            assert s.recv(12) == b"HTTP/1.1 402"
        print("%.3f KB an idle connection" % (grown / IDLE))
        assert grown <= IDLE, "%d KB for %d idle connections" % (grown, IDLE)
    finally:
        for s in idle:
            s.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.once
def test_memory_of_large_calls_in_flight(cold):
    """Requests and answers of 1 MiB each, all held at the settlement: at most 2.2 MiB a call, at the peak."""
    cold.start_facilitator()
    cold.start_gate()
    cold.handler.answer = lambda r: ok(b"a" * LARGE)
    body = b"b" * LARGE
    assert cold.buy(method="POST", body=body).status == 200
    before = peak = rss_anon_kb(cold.gate.pid)
    cold.script(settle={"mode": "delay", "ms": 3000})
    answers = []
    payments = [cold.payment(key=Key()) for _ in range(HELD)]  # one payer may have only so many in flight

    def call(paid):
        answer = fetch(cold.port, "/a?call=%s" % paid["PAYMENT-SIGNATURE"][-40:-8].replace("+", "-").replace("/", "_"), "POST", paid, body)
        answers.append((answer.status, len(answer.body)))

    calls = [threading.Thread(target=call, args=(paid,)) for paid in payments]
    for t in calls:
        t.start()
    while any(t.is_alive() for t in calls):
        peak = max(peak, rss_anon_kb(cold.gate.pid))
        time.sleep(0.01)
    assert answers == [(200, LARGE)] * HELD
    each = (peak - before) / HELD / 1024
    print("%.2f MiB a call in flight" % each)
    assert each <= 2.2
