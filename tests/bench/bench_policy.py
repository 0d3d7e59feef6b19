"""What judging a spec costs before runsc is started: from config.json's bytes to the canonical document."""
import os
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
SPEC = os.path.join(HERE, "../data/specs/nerdctl23-hardened-internal-net.json")


def run(build, report):
    out = subprocess.run([os.path.join(build, "bench/policy_bench"), SPEC], check=True, capture_output=True, text=True).stdout
    parse, check, harden, canonical, whole = map(float, out.split())
    report.at_most("policy: check, harden and canonical spec (nerdctl)", check + harden + canonical, "us", 300)
    report.at_most("policy: the same from the file's bytes", whole, "us", 300, recorded=True)
