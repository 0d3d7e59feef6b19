"""critest against the mechanics of the shim: what must pass passes, what fails is in expected.json with its cause.

An unexpected failure and an unexpected pass are both told: the list says what is so, not what may be so.
"""
import json
import os
import re

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
# What the project promises (docs/conformance.md), by the beginning of critest's names.
FLOOR = {
    "Runtime info": 2,
    "PodSandbox runtime should support basic operations": 4,
    "PodSandbox runtime should support metrics operations": 0,  # skipped where containerd 1.6 lacks it
    "Container runtime should support basic operations": 14,
    "Container runtime should support log": 2,
    "Streaming runtime should support streaming interfaces runtime should support exec": 2,
    "Streaming runtime should support streaming interfaces runtime should support attach": 1,
}


def expected():
    with open(os.path.join(HERE, "expected.json")) as f:
        return json.load(f)


def pair_of(config):
    return {"debian": "debian", "current": "current"}.get(config.getoption("--pair-name"))


def judge(rows, failures, pair):
    """Lines that say what is otherwise than the list has it."""
    listed = {name: row for name, row in failures.items() if pair in row["on"]}
    lines = ["unexpected failure: %s: %s" % (name, why[:300]) for name, (state, why, _) in sorted(rows.items())
             if state == "failed" and name not in listed]
    lines += ["unexpected pass: %s (take it out of expected.json for %s)" % (name, pair)
              for name, (state, _, _) in sorted(rows.items()) if state == "passed" and name in listed]
    return lines


def short_of_floor(rows):
    lines = []
    for begin, least in FLOOR.items():
        own = {name: row for name, row in rows.items() if name.startswith(begin)}
        lines += ["%s: %s" % (name, row[0]) for name, row in own.items() if row[0] == "failed"]
        passed = sum(row[0] == "passed" for row in own.values())
        if passed < least:
            lines.append("%s: only %d of %d passed" % (begin, passed, least))
    return lines


@pytest.mark.timeout(700)
def test_floor(suite, request):
    """The short run: runtime info, pods, containers, logs, stats, exec and attach."""
    pair = pair_of(request.config)
    if not pair:
        pytest.skip("on the two full pairs only")
    rows = suite.run(focus=["\\[k8s.io\\] " + re.escape(begin) for begin in FLOOR])
    assert short_of_floor(rows) == []
    assert judge(rows, expected()["failures"], pair) == []


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_whole(suite, request):
    pair = pair_of(request.config)
    if not pair:
        pytest.skip("on the two full pairs only")
    rows = suite.run(timeout=1700)
    counts = {state: sum(row[0] == state for row in rows.values()) for state in ("passed", "failed", "skipped")}
    print("critest: %(passed)d passed, %(failed)d failed, %(skipped)d skipped" % counts)
    assert short_of_floor(rows) == []
    assert judge(rows, expected()["failures"], pair) == []
    gone = [name for name, row in expected()["failures"].items() if pair in row["on"] and name not in rows]
    assert gone == [], "listed, but critest has no such spec"


@pytest.mark.once
def test_the_list_has_a_cause_for_each():
    for name, row in expected()["failures"].items():
        assert row["on"] and set(row["on"]) <= {"debian", "current"}, name
        assert row["kind"] in ("gvisor", "rule", "containerd", "host"), name
        assert len(row["cause"]) > 20 and "unknown" not in row["cause"].lower(), name


@pytest.mark.once
def test_the_page_tells_the_list():
    with open(os.path.join(TOP, "docs/conformance.md")) as f:
        page = f.read().split("\n## containerd")[0]
    for name, row in expected()["failures"].items():
        line = [line for line in page.splitlines() if "`%s`" % name in line]
        assert line, "docs/conformance.md lacks " + name
        assert row["cause"] in line[0], "docs/conformance.md gives another cause for " + name
    listed = re.findall(r"^\| `([^`]+)` \|", page, re.M)
    assert sorted(listed) == sorted(expected()["failures"])


@pytest.mark.once
def test_both_surprises_are_told():
    failures = {"a": {"on": ["current"]}, "b": {"on": ["debian"]}}
    rows = {"a": ("passed", "", 1), "b": ("failed", "boom", 1), "c": ("passed", "", 1)}
    lines = judge(rows, failures, "current")
    assert [line.split(":")[0] for line in lines] == ["unexpected failure", "unexpected pass"]
    assert judge({"a": ("failed", "", 1), "b": ("passed", "", 1)}, failures, "current") == []
    assert short_of_floor(rows) != []
