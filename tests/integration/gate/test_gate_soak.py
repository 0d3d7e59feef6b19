"""Everybody is hostile at once: buyers, thieves, the handler, the facilitator's network, and whoever kills the gate.

Random histories with a printed seed (UTTER_SEED repeats the dice, not the timing); UTTER_SOAK=SECONDS makes them longer.
What must hold is checked over all that anybody was told:

  - an answer that was sold goes out with a receipt whose transfer is in the facilitator's book, to who asked for just that
  - one transfer, one answer; one answer, one transfer; not a byte of an answer that is not paid
  - nobody without the secret or for another request gets an answer, though he holds the whole payment
  - in the end every transfer has an answer that its buyer can have, and nothing is unresolved
"""
import csv
import io
import json
import os
import random
import signal
import subprocess
import threading
import time

import pytest

from evm import Key, authorization, b64, unb64
from rig import fetch, ok

SECONDS = float(os.environ.get("UTTER_SOAK", "10"))
SEED = int(os.environ.get("UTTER_SEED", time.time_ns() % 1000000))

pytestmark = [pytest.mark.once, pytest.mark.timeout(120 + 3 * SECONDS)]

SETTLES = ["ok"] * 6 + ["delay", "hang", "reset", "reset-before", "cut", "500", "500-after", "502", "429", "pending", "pending-500",
                        "pending-unmoved", "html", "empty", "truthy", "no-tx", "wrong-network", "wrong-payer", "huge", "refuse"]
VERIFIES = ["ok"] * 12 + ["reset", "500", "html", "refuse", "429"]


class Market:
    def __init__(self, rig):
        self.rig, self.dice = rig, random.Random(SEED)
        self.buyers = [Key() for _ in range(4)]
        self.payments, self.told, self.wrong, self.lock = [], [], [], threading.Lock()
        self.runs = iter(range(10**9))
        self.stop = threading.Event()
        self.terms, self.public = None, set()

    # ---- the handler ----

    def answer(self, request):
        run, dice = next(self.runs), random.random()
        sold = ok(json.dumps({"SOLD": run, "for": request.target}).encode())
        if dice < 0.55:
            return sold
        if dice < 0.65:
            return [random.random() * 0.5, sold]
        return random.choice([
            ok(b'{"FREE":1}', "500 Oops"), ok(b'{"FREE":1}', "404 Not Found"), ok(b'{"SOLD":"never"}', "402 Payment Required"),
            sold[:-5], sold + sold, [2.5, sold], sold.replace(b"Content-Length: ", b"Content-Length: 1"), b"",
            ok(b'{"SOLD":"never"}', "304 Not Modified"), ok(b'{"FREE":1}', "202 Accepted"),
            sold.replace(b"\r\n", b"\r\nPAYMENT-RESPONSE: e30=\r\n", 1),
            b"HTTP/1.1 101 Switching\r\n\r\n" + sold, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nSOL",
            ok(b"", "200 OK")])

    # ---- buyers and thieves ----

    def ask(self, payment, clothes):
        try:
            answer = fetch(self.rig.port, clothes["path"], clothes["method"], clothes["headers"], timeout=20)
        except Exception:
            answer = None
        self.judge(payment, clothes, answer)
        return answer

    def say(self, what, payment, clothes, answer):
        self.wrong.append("%s: nonce %s asked %s %s, got %s %s" % (
            what, payment["nonce"][:12], clothes["method"], clothes["path"], answer.status, answer.body[:100]))

    def judge(self, payment, clothes, answer):
        with self.lock:
            if answer is None:
                payment["lost"] += 1
                return
            if answer.status != 200:
                if b"SOLD" in answer.body:
                    self.say("unpaid bytes", payment, clothes, answer)
                return
            body, receipt = json.loads(answer.body), answer.receipt()
            if not receipt or not receipt.get("success") or not receipt.get("transaction"):
                self.say("an answer without a receipt", payment, clothes, answer)
                return
            if body.get("for") != clothes["path"]:
                self.say("another's answer", payment, clothes, answer)
            if clothes["thief"]:
                self.say("a thief was served (%s)" % clothes["thief"], payment, clothes, answer)
            self.told.append((receipt["transaction"], body["SOLD"], payment))

    def buy(self, dice):
        buyer, challenge = dice.choice(self.buyers), self.terms
        identifier = dice.choice([None] * 4 + ["identifier-%016d" % dice.randrange(6)])
        version = 1 if not identifier and dice.random() < 0.3 else 2
        chosen = challenge["accepts"][0]
        header = self.rig.header(authorization(buyer, chosen), chosen, challenge, 2, identifier)
        nonce = unb64(header["PAYMENT-SIGNATURE"])["payload"]["authorization"]["nonce"]
        if version == 1:
            header = as_v1(header)
        if dice.random() < 0.6:
            header["Utter-Resume"] = "%064x" % dice.getrandbits(256)
        clothes = {"path": "/a?n=%d" % dice.randrange(8), "method": dice.choice(["GET", "GET", "POST"]), "headers": header, "thief": ""}
        payment = {"nonce": nonce, "buyer": buyer.address, "clothes": clothes, "lost": 0}
        with self.lock:
            self.payments.append(payment)
        for _ in range(dice.choice([1, 1, 2, 3])):
            threading.Thread(target=self.ask, args=(payment, clothes)).start()

    def steal(self, payment, dice):
        """Only what is on the chain: its first request is decided then. Whoever has the chain has all of it but the secret."""
        mine = dict(payment["clothes"], headers=dict(payment["clothes"]["headers"]))
        how = dice.choice(["secret", "path", "method", "query", "version"])
        if how in ("secret", "version"):
            if not mine["headers"].pop("Utter-Resume", None):
                return
            if how == "version" and "PAYMENT-SIGNATURE" in mine["headers"]:
                mine["headers"] = as_v1(mine["headers"])
            elif dice.random() < 0.5:
                mine["headers"]["Utter-Resume"] = "%064x" % dice.getrandbits(256)
        elif how == "method":
            mine["method"] = "POST" if mine["method"] == "GET" else "GET"
        else:
            mine["path"] = {"path": "/b", "query": mine["path"] + "0"}[how]
        self.ask(payment, dict(mine, thief=how))

    def trade(self, seed):
        dice = random.Random(seed)
        while not self.stop.is_set():
            with self.lock:
                known = dice.choice(self.payments) if self.payments else None
            if known is None or dice.random() < 0.4:
                self.buy(dice)
            elif known["nonce"] in self.public and dice.random() < 0.6:
                self.steal(known, dice)
            else:
                self.ask(known, known["clothes"])
            time.sleep(dice.random() * 0.1)

    # ---- who breaks things ----

    def chain(self):
        book = fetch(self.rig.facilitator_port, "/book?bodies=1").json()["transfers"]
        return {json.loads(row["body"])["paymentPayload"]["payload"]["authorization"]["nonce"]: row for row in book}

    def trouble(self):
        while not self.stop.is_set():
            self.rig.script(settle=[self.refusing(m) for m in self.dice.choices(SETTLES, k=12)],
                        verify=[self.refusing(m) for m in self.dice.choices(VERIFIES, k=12)])
            time.sleep(0.3 + self.dice.random())
            self.public = set(self.chain())
            what = self.dice.random()
            if what < 0.12:
                self.rig.gate.kill()
                self.rig.gate.wait()
                self.rig.start_gate(wait=False)
            elif what < 0.2:
                self.rig.gate.send_signal(signal.SIGTERM)
                self.rig.gate.wait(40)
                self.rig.start_gate(wait=False)
            elif what < 0.3:
                self.rig.gate.send_signal(signal.SIGHUP)

    def refusing(self, mode):
        step = {"mode": mode, "ms": self.dice.choice([50, 400, 1500])}
        if mode == "refuse":
            step["reason"] = self.dice.choice(["insufficient_funds", "invalid_exact_evm_payload_signature", "something_new",
                                               "invalid_exact_evm_nonce_already_used"])
        return step

    # ---- the end ----

    def settle_all(self):
        self.rig.script(settle=[], verify=[])
        self.rig._until(self.rig.ready, "gate", 20)
        moved = self.chain()
        end = time.monotonic() + 60
        for payment in self.payments:
            if payment["nonce"] not in moved:
                continue
            while (answer := self.ask(payment, payment["clothes"])) is None or answer.status in (503, 429):
                assert time.monotonic() < end, "no end of %s: %s" % (payment, answer and answer.body)
                time.sleep(0.1)
            if answer.status == 409 and answer.json()["error"] == "payment_spent":
                tx = answer.receipt()["transaction"]
                given = sum(t[0] == tx for t in self.told)
                lost = sum(p["lost"] for p in self.payments if p["buyer"] == payment["buyer"])
                if given + lost < 5:
                    self.say("spent after %d answers" % given, payment, payment["clothes"], answer)
            elif answer.status != 200:
                self.say("charged without an answer", payment, payment["clothes"], answer)
        return moved

    def check(self, moved):
        by_tx, by_run = {}, {}
        known = {row["tx"].lower() for row in moved.values()}
        for tx, run, payment in self.told:
            by_tx.setdefault(tx.lower(), set()).add(run)
            by_run.setdefault(run, set()).add(tx.lower())
        self.wrong += ["no transfer %s" % tx for tx in by_tx if tx not in known]
        self.wrong += ["%s bought %s" % item for item in by_tx.items() if len(item[1]) != 1]
        self.wrong += ["run %s sold for %s" % item for item in by_run.items() if len(item[1]) != 1]
        for tx in by_tx:
            if sum(t[0].lower() == tx for t in self.told) > 5:
                self.wrong.append("%s was released more than five times" % tx)


def as_v1(header):
    body = unb64(header["PAYMENT-SIGNATURE"])
    return {"X-PAYMENT": b64({"x402Version": 1, "scheme": "exact", "network": "base-sepolia", "payload": body["payload"]})}


@pytest.mark.parametrize("resettle", ["pending-store", "idempotent"])
def test_everybody_is_hostile_at_once(cold, resettle):
    rig = cold
    print("seed", SEED)
    rig.start_facilitator("--resettle", resettle, book="book.db")
    rig.start_gate(deadlines={"settle_ms": 800, "settle_hold_ms": 4000, "verify_ms": 800}, handler={"timeout_s": 2},
                   limits={"per_payer": 64, "uncharged_per_payer": 10000, "uncharged_per_payment": 1000, "waiters": 64})
    market = Market(rig)
    rig.handler.answer = market.answer
    market.terms = rig.challenge()
    threads = [threading.Thread(target=market.trade, args=(SEED + i,)) for i in range(5)]
    threads.append(threading.Thread(target=market.trouble))
    for t in threads:
        t.start()
    time.sleep(SECONDS)
    market.stop.set()
    for t in threads:
        t.join()
    time.sleep(1)
    moved = market.settle_all()
    market.check(moved)
    print("%d payments, %d transfers, %d answers" % (len(market.payments), len(moved), len(market.told)))
    assert not market.wrong, "\n".join(market.wrong)
    assert moved and market.told
    done = subprocess.run([rig.bin + "/utter-gate", "ledger", "unresolved", "--format", "csv", "--ledger", rig.config["ledger"]["path"]],
                          capture_output=True, check=True, text=True)
    left = list(csv.DictReader(io.StringIO(done.stdout)))
    assert left == [], left
