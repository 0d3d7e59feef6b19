"""What judging a spec costs before runsc is started: from config.json's bytes to the canonical document.

The bytes are as containerd writes them, without blanks. From them on, jansson's parser alone takes most of what is over
300 us (214 of 264 us for 11 kB); it is the one reader of outside JSON in the project, and is not worth one of our own here:
the whole is half a millisecond before a create of a hundred.
"""
import json
import os
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SPEC = os.path.join(HERE, "../data/specs/nerdctl23-hardened-internal-net.json")


def run(build, report):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as compact:
        with open(SPEC) as f:
            json.dump(json.load(f), compact, separators=(",", ":"))
        compact.flush()
        words = [os.path.join(build, "bench/policy_bench"), compact.name]
        out = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    parse, check, harden, canonical, whole = map(float, out.split())
    report.at_most("policy: check, harden and canonical spec (nerdctl)", check + harden + canonical, "us", 300)
    report.at_most("policy: parsing its bytes", parse, "us", 300, recorded=True)
    report.at_most("policy: the whole, from its bytes", whole, "us", 300, recorded=True)
