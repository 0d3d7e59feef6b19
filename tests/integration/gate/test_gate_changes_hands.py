"""Drain, standby, shared claims, stale starts: what happens when gates come and go."""
import json
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from evm import Key
from rig import fetch, free_port, ok

pytestmark = [pytest.mark.once, pytest.mark.timeout(60)]


def test_a_retry_during_drain_gets_its_answer_and_a_new_payment_503(rig):
    rig.handler.answer = lambda r: [1.0, ok(b"slow")]
    running, fresh = rig.payment(), rig.payment()
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(fetch, rig.port, "/a", "GET", running)
        time.sleep(0.3)
        rig.gate.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        refused = fetch(rig.port, "/a", headers=fresh)
        assert refused.status == 503 and refused.get("Retry-After")
        retry = pool.submit(fetch, rig.port, "/a", "GET", running)
        assert first.result().status == 200 and retry.result().status == 200
    assert rig.gate.wait(10) == 0
    assert rig.stats()["transfers"] == 1 and len(rig.handler.runs) == 1


def second_gate(rig, *args, **change):
    config = json.loads(json.dumps(rig.config))
    config["admin"] = "127.0.0.1:%d" % free_port()
    config.update(change)
    path = rig.write_config(config, "second.json")
    process = rig._start([rig.bin + "/utter-gate", "serve", *args, path], "second.log")
    return process, int(config["admin"].split(":")[1]), config


def test_a_standby_takes_nothing_from_the_gate_it_waits_for(rig):
    """Both listen on one port; every connection is the first one's until it goes."""
    second, admin, _ = second_gate(rig, "--standby")
    rig._until(lambda: rig._answers(admin, "/healthz"), "standby")
    waiting = fetch(admin, "/readyz")
    assert waiting.status == 503 and "standing by" in waiting.json()["why"]
    assert [rig.buy().status for _ in range(60)] == [200] * 60
    third, _, _ = second_gate(rig, "--standby")  # one may stand by: who else would get the connections?
    assert third.wait(10) == 1 and "stands by for ledger" in rig.log("second.log")
    assert rig.stop_gate() == 0
    rig._until(lambda: rig._answers(admin, "/readyz"), "standby")
    fourth, admin, _ = second_gate(rig, "--standby")  # and one again
    rig._until(lambda: rig._answers(admin, "/healthz"), "standby")
    assert fetch(admin, "/readyz").status == 503 and rig.buy().status == 200


def test_a_standby_takes_over_with_a_short_gap(rig):
    """Eight buyers all the time: no connection is refused or reset, and none waits longer than a second."""
    second, admin, _ = second_gate(rig, "--standby")
    rig._until(lambda: rig._answers(admin, "/healthz"), "standby")
    paid = rig.payment()
    assert fetch(rig.port, "/a", headers=paid).status == 200
    stop, gaps, refused = threading.Event(), [], []

    def buy_all_the_time(_):
        last, mine = time.monotonic(), Key()
        while not stop.is_set():
            try:
                fresh = rig.payment(key=mine)
                while (answer := fetch(rig.port, "/a", headers=fresh)).status == 503 and not stop.is_set():
                    time.sleep(0.02)
                assert answer.status in (200, 503), answer.status
            except OSError as error:
                refused.append(error)
                continue
            now = time.monotonic()
            gaps.append(now - last)
            last = now

    with ThreadPoolExecutor(8) as pool:
        buyers = [pool.submit(buy_all_the_time, i) for i in range(8)]
        time.sleep(0.7)
        began = time.monotonic()
        rig.gate.send_signal(signal.SIGTERM)
        rig._until(lambda: rig._answers(admin, "/readyz"), "second gate")
        took = time.monotonic() - began
        time.sleep(0.7)
        stop.set()
        for buyer in buyers:
            buyer.result()
    assert rig.gate.wait(10) == 0
    print("took %.3f, longest gap %.3f of %d" % (took, max(gaps), len(gaps)))
    assert took < 1 and max(gaps) < 1.5 and refused == [], (took, max(gaps), refused)
    assert fetch(rig.port, "/a", headers=paid).status == 200  # what the first sold, the second still knows
    book = rig.book()["transfers"]
    assert len(book) == len({row["key"] for row in book})
    second.terminate()


def test_a_draining_gate_waits_for_no_newcomer_and_cuts_no_answer(rig):
    """Half-sent requests and unpaid ones do not keep a gate that was told to end; an answer on its way goes out whole."""
    body = b"x" * 1000000
    rig.handler.answer = lambda r: [0.5, ok(body)]
    paid = rig.payment()
    half = [socket.create_connection(("127.0.0.1", rig.port)) for _ in range(3)]
    for s in half:
        s.sendall(b"POST /free HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 100\r\n\r\nhalf")
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.connect(("127.0.0.1", rig.port))
    s.sendall(("GET /a HTTP/1.1\r\nHost: shop.test\r\nPAYMENT-SIGNATURE: %s\r\n\r\n" % paid["PAYMENT-SIGNATURE"]).encode())
    time.sleep(0.3)
    rig.gate.send_signal(signal.SIGTERM)
    began, got = time.monotonic(), b""
    time.sleep(0.6)
    s.settimeout(5)
    while more := s.recv(65536):
        got += more
    assert got.startswith(b"HTTP/1.1 200 ") and got.endswith(body)
    assert rig.gate.wait(10) == 0 and time.monotonic() - began < 5
    for h in half:
        h.close()


def test_three_gates_one_wallet_one_payment(cold):
    """One authorization presented at three gates of one wallet at once: one run, one answer."""
    for mode in ("official", "idempotent"):
        cold.start_facilitator("--resettle", mode)
        claims = cold.folder + "/claims.%s.db" % mode
        ports, gates = [], []
        for i in range(3):
            cold.port = cold.admin_port = 0
            cold.make_config(claims=claims, ledger={"path": cold.folder + "/l%d%s.db" % (i, mode)})
            gates.append(cold.start_gate())
            ports.append(cold.port)
        paid = cold.payment()
        runs = len(cold.handler.runs)
        cold.handler.answer = lambda r: [0.2, ok(b"once")]
        with ThreadPoolExecutor(3) as pool:
            answers = list(pool.map(lambda p: fetch(p, "/a", headers=paid), ports))
        assert sorted(a.status for a in answers) == [200, 409, 409], [a.status for a in answers]
        assert len(cold.handler.runs) == runs + 1
        for gate in gates:
            gate.terminate()
            gate.wait()
        cold.facilitator.kill()
        cold.facilitator.wait()


def test_an_unreachable_facilitator_starts_unready_and_mends(cold):
    cold.facilitator_port = free_port()
    cold.start_gate(wait=False)
    cold._until(lambda: cold._answers(cold.admin_port, "/healthz"), "gate")
    assert fetch(cold.admin_port, "/readyz").status == 503
    assert fetch(cold.port, "/a").status == 402
    cold.start_facilitator()
    cold._until(cold.ready, "gate")
    assert cold.buy().status == 200


def test_an_unsupported_network_is_refused_at_start_by_name(cold):
    cold.start_facilitator()
    cold.start_gate(wait=False, pay=[{"network": "eip155:424242", "asset": "0x" + "44" * 20, "to": "0x" + "55" * 20,
                                      "name": "X", "version": "1", "decimals": 6}])
    code = cold.gate.wait(10)
    assert code == 1 and "424242" in cold.log() and "/a" in cold.log(), cold.log()


def test_check_names_every_fault(cold):
    import subprocess
    config = cold.make_config(routes=[{"path": "/a", "price": "0.0000001"}, {"path": "b", "price": "1"}], surprise=1)
    done = subprocess.run([cold.bin + "/utter-gate", "check", cold.write_config(config)], capture_output=True, text=True)
    assert done.returncode == 1
    for word in ("routes[0]", "routes[1]", "surprise"):
        assert word in done.stderr, done.stderr


def test_probe_follows_readiness(rig):
    import subprocess
    def probe():
        return subprocess.run([rig.bin + "/utter-gate", "probe", "127.0.0.1:%d" % rig.admin_port], capture_output=True).returncode
    assert probe() == 0
    rig.stop_gate()
    assert probe() == 1


def test_a_broken_disk_is_503_and_runs_nothing(cold):
    import os
    cold.start_facilitator()
    cold.start_gate()
    os.unlink(cold.config["ledger"]["path"])
    time.sleep(1.2)
    answer = cold.buy()
    assert answer.status in (200, 503)
    if answer.status == 503:
        assert cold.stats()["settle"] == 0


def test_probe_facilitator_says_what_is_taken(cold):
    """Asked before any buyer comes: networks, the payload form, the token; and nothing moves."""
    import subprocess

    def probe(**change):
        path = cold.write_config(cold.make_config(**change))
        done = subprocess.run([cold.bin + "/utter-gate", "probe-facilitator", path], capture_output=True, text=True, timeout=20)
        return done.returncode, done.stdout + done.stderr
    code, said = probe(facilitator={"url": "http://127.0.0.1:%d" % free_port()})
    assert code == 1 and "no answer to /supported" in said
    cold.start_facilitator()
    code, said = probe(facilitator={"url": "http://127.0.0.1:%d" % cold.facilitator_port})
    assert code == 0 and "/a: exact on eip155:84532: taken" in said, said
    assert "payload exact: understood" in said and "payload minimal: understood" in said
    cold.script(verify=[{"mode": "422"}, {"mode": "ok"}])  # refuses what it does not know
    code, said = probe()
    assert code == 1 and "payload exact: NOT UNDERSTOOD" in said and 'set facilitator.payload to "minimal"' in said, said
    cold.script(verify=[{"mode": "422"}, {"mode": "ok"}])
    assert probe(facilitator={"payload": "minimal"})[0] == 0
    cold.script(supported=[{"mode": "401"}])
    code, said = probe()
    assert code == 1 and "token" in said
    code, said = probe(pay=[{"network": "eip155:424242", "asset": "0x" + "44" * 20, "to": "0x" + "55" * 20,
                             "name": "X", "version": "1", "decimals": 6}])
    assert code == 1 and "/a: exact on eip155:424242: NOT TAKEN" in said, said
    assert cold.stats()["settle"] == 0 and cold.stats()["transfers"] == 0
