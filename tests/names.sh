#!/bin/sh
# Fails where two files of the integration tests have one name: pytest imports them by it, and collects neither.
# usage: names.sh SOURCE_DIR
set -eu
twice=$(find "$1/tests/integration" -name '*.py' ! -name conftest.py ! -name __init__.py -exec basename {} \; | sort | uniq -d)
[ -z "$twice" ] || { echo "names.sh: more than one file is called $twice"; exit 1; }
