#!/bin/sh
# Fails on an include against the arrows of docs/architecture.md.
# usage: includes.sh SOURCE_DIR
set -eu
cd "$1"
bad=0
allow() { # ROOM, then the rooms it may include
    room=$1
    shift
    [ -d "$room" ] || return 0
    ok="^#include \"($room"
    for other; do ok="$ok|$other"; done
    ok="$ok)/"
    wrong=$(grep -nE '^#include "' "$room"/*.c "$room"/*.h 2>/dev/null |
        grep -vE '\.pb-c\.h"' | grep -vE "^[^:]*:[0-9]*:${ok#^}" || :)
    if [ -n "$wrong" ]; then
        printf '%s may not include:\n%s\n' "$room" "$wrong"
        bad=1
    fi
}
allow base
allow proto base
allow http base
allow policy base
allow shim policy proto base
allow gate http proto base
allow dataproxy http proto base
allow deploy policy proto http dataproxy base
exit $bad
