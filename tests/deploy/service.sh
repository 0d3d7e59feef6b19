#!/bin/sh
# utter-deploy.service as it is installed: it starts the program that is installed with it, and nothing in it makes
# systemd give it a mount namespace, in which the network namespaces that it mounts would be hidden from containerd.
# usage: service.sh UNIT BINDIR
set -eu
grep -qx "ExecStart=$2/utter-deploy watch" "$1" || { echo "service.sh: ExecStart is not $2/utter-deploy watch" >&2; exit 1; }
grep -qx 'WantedBy=multi-user.target' "$1" || { echo 'service.sh: it cannot be enabled' >&2; exit 1; }
if grep -nE '^(Protect(System|Home|KernelTunables|KernelModules|KernelLogs|ControlGroups|Proc|Hostname)|Private|ReadOnly|ReadWrite|Inaccessible|TemporaryFileSystem|Bind|Root|Mount|DynamicUser|RuntimeDirectory|StateDirectory|ProcSubset)' "$1"; then
    echo 'service.sh: these give it mounts of its own or take its folders away' >&2
    exit 1
fi
