"""Expecting a refusal: an error with our prefix and the rule that refused, and nothing started."""
import contextlib
import json
import os
import re
import subprocess

import grpc

CODES = (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.INVALID_ARGUMENT)


def bare(details):
    """The shim's own text, without what containerd puts before and behind it."""
    text = re.sub(r"^(failed to create shim task|failed to create containerd task|failed to start [^:]*): ", "", details)
    return re.sub(r"(: (failed precondition|invalid argument|unknown))+$", "", text)


class Caught:
    text = ""
    code = None


@contextlib.contextmanager
def refused(*rules):
    """The block must end in a refusal that names each of rules; gives an object with text and code."""
    caught = Caught()
    try:
        yield caught
    except grpc.RpcError as error:
        caught.text, caught.code = bare(error.details()), error.code()
    assert caught.code is not None, "was accepted; expected a refusal by %s" % (rules,)
    assert caught.text.startswith("utter: "), "not our text: " + caught.text
    assert caught.code in CODES, "%s: %s" % (caught.code, caught.text)
    for rule in rules:
        assert rule in caught.text, "%r is not in: %s" % (rule, caught.text)


def policy_check(host, spec, id):
    """What utter-policy says of the same document: (exit code, list of lines)."""
    path = host.space.path("check-%s.json" % id)
    with open(path, "w") as f:
        json.dump(spec, f)
    command = [os.path.join(host.bin, "utter-policy"), "check", "--namespace", host.namespace, "--id", id, path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    os.unlink(path)
    return done.returncode, [line for line in (done.stdout + done.stderr).splitlines() if line]
