"""What README.md says one should type, typed."""
import os
import re
import subprocess

import pytest

from deployrig import TOP

pytestmark = pytest.mark.once


def block(section, having):
    """The indented block of a section of README.md that holds `having`."""
    with open(os.path.join(TOP, "README.md")) as f:
        text = f.read().split("\n## " + section, 1)[1].split("\n## ", 1)[0]
    found = [b for b in re.findall(r"(?:^    .*\n|^\n(?=    ))+", text, re.M) if having in b]
    assert len(found) == 1, found
    return "".join(line[4:] if line.strip() else line for line in found[0].splitlines(True)).strip("\n")


def typed(rig, folder, text, end):
    script = rig.write(folder + "/typed", "set -m\ncd %s\n%s\n%s\n" % (rig.path(folder), text, end))
    return rig.run("env", "PATH=%s:/usr/sbin:/usr/bin:/sbin:/bin" % rig.bin, "bash", script)


def test_sell_calls(rig):
    text = block("Sell calls", "http.server")
    assert len(text.split("\n")) <= 10
    text = text.replace("/var/lib/shop", "/var/lib/utter/calls")  # the rig's /var/lib is an overlay, which a ledger refuses
    rig.write("calls/README.md", "a file that is sold\n")
    got = typed(rig, "calls", text, "kill %1 %2 %3")
    assert "a file that is sold" in got.stdout and "paid 0.01 USDC" in got.stderr, got.stdout + got.stderr


def test_sell_a_folder(rig):
    text = block("Sell a folder", "handler/main.py")
    os.mkdir(rig.path("typed"))
    got = typed(rig, "typed", text, "kill %1; utter-deploy audit --live shop; utter-deploy down --purge shop")
    assert "six times seven is 42" in got.stdout and "paid 0.01 USDC" in got.stderr, got.stdout + got.stderr
    assert "0 drifts" in got.stdout and "purged    shop" in got.stdout


def test_the_first_screen_has_two_commands():
    with open(os.path.join(TOP, "README.md")) as f:
        first = f.read().split("\n\n    ", 1)[1].split("\n\n", 1)[0].split("\n")
    commands = [line.split("#")[0].strip() for line in first]
    assert commands == ["deploy/quickstart", "tests/run"]
    for command in commands:
        assert subprocess.run(["bash", "-n", os.path.join(TOP, command)]).returncode == 0
