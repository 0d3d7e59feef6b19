"""Gate and data proxy together: a paid call's handler gets its upstream, and nothing outlives the call."""
import base64
import os
import pwd
import shutil
import signal
import subprocess
import threading
import time

import pytest

from rig import USER, ok

pytestmark = pytest.mark.once


@pytest.fixture
def shop(cold, make_proxy):
    """A gate whose route /a has the upstream "api" behind a real data proxy."""
    proxy = make_proxy(lambda config: config.update(gate_uid=pwd.getpwnam(USER).pw_uid))
    shutil.chown(proxy.private + "/data.key", USER)
    cold.start_facilitator()
    cold.make_config(slug="weather", data={
        "socket": proxy.config["session"], "key_file": proxy.private + "/data.key", "upstreams": ["api"], "calls": 5,
        "bytes": 100000})
    cold.config["routes"][1]["upstreams"] = []
    cold.start_gate()
    cold.proxy = proxy
    return cold


def token_of(request):
    return request.get("Utter-Data-Token")


def test_works_during_the_paid_call_and_not_after(shop, upstream):
    seen = []

    def handler(request):
        seen.append(token_of(request))
        status, body, _ = shop.proxy.ask("/api/fine", token_of(request))
        return ok(b'{"upstream":"%d %s"}' % (status, body))

    shop.handler.answer = handler
    answer = shop.buy()
    assert (answer.status, answer.body) == (200, b'{"upstream":"200 fine"}')
    assert shop.stats()["transfers"] == 1
    assert shop.proxy.ask("/api/fine", seen[0])[0] == 403
    assert len(upstream.seen) == 1
    assert "upstreams_used" in shop.log() and seen[0] not in shop.log()


def test_a_clients_copy_of_the_header_is_stripped(shop):
    shop.handler.answer = lambda request: ok(b"%d %s" % (len(request.all("Utter-Data-Token")), b"forged" in request.head and b"yes" or b"no"))
    answer = shop.buy(headers={"Utter-Data-Token": "forged"})
    assert answer.body == b"1 no"


def test_routes_without_upstreams_get_no_token(shop):
    shop.handler.answer = lambda request: ok(b"%d" % len(request.all("Utter-Data-Token")))
    assert shop.buy("/b").body == b"0"


FORMS = {
    "raw": lambda t: t, "base64": lambda t: base64.b64encode(t), "shifted": lambda t: base64.b64encode(b"x" + t + b"yz"),
    "base64url": lambda t: base64.urlsafe_b64encode(b"xy" + t), "hex": lambda t: t.hex().encode(), "HEX": lambda t: t.hex().upper().encode(),
    "percent": lambda t: t.replace(b".", b"%2E"), "all percent": lambda t: b"".join(b"%%%02x" % c for c in t),
}


@pytest.mark.parametrize("form", FORMS)
def test_b20_an_answer_with_the_token_is_not_sold(shop, form):
    shop.handler.answer = lambda request: ok(b"here: " + FORMS[form](token_of(request).encode()) + b" bye")
    answer = shop.buy()
    assert answer.status == 502 and shop.stats()["settle"] == 0


def test_b20_a_header_with_the_token_is_not_sold(shop):
    shop.handler.answer = lambda request: ok(b"fine", extra="X-T: %s\r\n" % token_of(request))
    assert shop.buy().status == 502 and shop.stats()["settle"] == 0


def test_a_leaking_upstream_taints_the_answer(shop):
    def handler(request):
        try:
            shop.proxy.ask("/api/late-leak", token_of(request))
        except Exception:
            pass
        return ok(b"a fine answer")

    shop.handler.answer = handler
    answer = shop.buy()
    assert answer.status == 502 and shop.stats()["settle"] == 0


def test_the_budget_is_the_configurations(shop, upstream):
    shop.handler.answer = lambda request: ok(b" ".join(b"%d" % shop.proxy.ask("/api/fine", token_of(request))[0] for _ in range(7)))
    assert shop.buy().body == b"200 200 200 200 200 429 429"
    assert len(upstream.seen) == 5


def test_proxy_away_is_503_before_anything_runs(shop, upstream):
    shop.proxy.process.send_signal(signal.SIGKILL)
    shop.proxy.process.wait()
    time.sleep(0.2)
    answer = shop.buy()
    assert answer.status == 503 and answer.get("Retry-After")
    assert shop.handler.runs == [] and shop.stats()["verify"] == 0
    assert shop.buy("/b").status == 200
    shop.proxy.log.close()
    os.truncate(shop.proxy.dir + "/log", 0)
    shop.proxy.start()
    end = time.time() + 10
    while shop.buy().status != 200 and time.time() < end:
        time.sleep(0.2)
    assert shop.buy().status == 200


def test_proxy_killed_at_call_seven_of_ten(shop, upstream):
    shop.config["data"]["calls"] = 10
    shop.stop_gate()
    shop.start_gate()
    statuses = []

    def handler(request):
        for n in range(10):
            if n == 7:
                shop.proxy.process.send_signal(signal.SIGKILL)
                shop.proxy.process.wait()
            try:
                statuses.append(shop.proxy.ask("/api/fine", token_of(request))[0])
            except OSError:
                statuses.append(0)
        return ok(b"done")

    shop.handler.answer = handler
    answer = shop.buy()
    assert statuses == [200] * 7 + [0] * 3 and len(upstream.seen) == 7
    assert answer.status == 502 and shop.stats()["settle"] == 0


def test_gate_killed_mid_transfer_leaves_nothing_alive(shop, upstream):
    got = threading.Event()
    result = []

    def handler(request):
        got.token = token_of(request)
        got.set()
        try:
            shop.proxy.ask("/api/drip", got.token)
            result.append("completed")
        except Exception:
            result.append("cut")
        return ok(b"late")

    shop.handler.answer = handler
    buyer = threading.Thread(target=lambda: pytest.raises(Exception, shop.buy), daemon=True)
    buyer.start()
    assert got.wait(10)
    time.sleep(0.3)
    shop.stop_gate(signal.SIGKILL)
    end = time.time() + 5
    while not result and time.time() < end:
        time.sleep(0.02)
    assert result == ["cut"]
    assert shop.proxy.ask("/api/fine", got.token)[0] == 403


def test_a_handler_that_fails_has_its_request_ended_too(shop, upstream):
    seen = []

    def handler(request):
        seen.append(token_of(request))
        return ok(b"no", "500 Oops")

    shop.handler.answer = handler
    assert shop.buy().status == 502
    assert shop.proxy.ask("/api/fine", seen[0])[0] == 403
    assert upstream.seen == []


def test_a_rotated_key_is_picked_up(shop, upstream, tmp_path):
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    subprocess.run([shop.proxy.bin, "keygen", str(fresh), str(fresh)], check=True, capture_output=True)
    os.rename(fresh / "data.pub", shop.proxy.keys + "/second.pub")
    shop.proxy.process.send_signal(signal.SIGHUP)
    time.sleep(0.2)
    shutil.chown(fresh / "data.key", USER)
    os.rename(fresh / "data.key", shop.proxy.private + "/data.key")
    shop.gate.send_signal(signal.SIGHUP)
    os.unlink(shop.proxy.keys + "/data.pub")
    time.sleep(0.3)
    shop.proxy.process.send_signal(signal.SIGHUP)
    time.sleep(0.2)
    shop.handler.answer = lambda request: ok(b"%d" % shop.proxy.ask("/api/fine", token_of(request))[0])
    assert shop.buy().body == b"200"


@pytest.mark.parametrize("change,line", [
    ({"slug": None}, 'needs "slug"'), ({"route": ["other"]}, "not in data.upstreams"), ({"data": None}, "not in data.upstreams"),
    ({"upstreams": []}, "names none"), ({"upstreams": ["../x"]}, "no upstream's name"), ({"calls": 0}, "calls"),
])
def test_configuration_faults(cold, change, line):
    cold.facilitator_port = 1
    config = cold.make_config(slug="weather", data={"socket": "/s", "key_file": "/k", "upstreams": ["api"]})
    config["routes"][0]["upstreams"] = change.get("route", ["api"])
    for name, value in change.items():
        place = config["data"] if name in ("upstreams", "calls") else config
        if value is None:
            del place[name]
        elif name != "route":
            place[name] = value
    done = subprocess.run([cold.bin + "/utter-gate", "check", cold.write_config(config)], capture_output=True, text=True)
    assert done.returncode == 1 and line in done.stdout + done.stderr, done
