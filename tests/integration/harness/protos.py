"""Compiles the tests' own .proto files with protoc once per run and hands out the modules."""
import atexit
import importlib
import os
import shutil
import subprocess
import sys
import tempfile

SOURCE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "protos")
_out = None


def load(name):
    """The module for protos/NAME.proto."""
    global _out
    if _out is None:
        _out = tempfile.mkdtemp(prefix="ut-int-protos.")
        atexit.register(shutil.rmtree, _out, True)
        files = [os.path.join(SOURCE, f) for f in sorted(os.listdir(SOURCE)) if f.endswith(".proto")]
        subprocess.run(["protoc", "-I" + SOURCE, "--python_out=" + _out] + files, check=True)
        sys.path.insert(0, _out)
    return importlib.import_module(name + "_pb2")
