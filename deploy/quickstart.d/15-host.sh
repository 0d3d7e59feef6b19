# Where the endpoint is shown: on this host, or, where Utter is in use already, in a network and with mounts of its own.
# utter-deploy and the shim read and write these; what is there is somebody's.
places=(/etc/utter /run/utter /var/lib/utter)

host_is_free() {
    local path
    for path in "${places[@]}"; do
        [ ! -d "$path" ] || [ -n "$(find "$path" -mindepth 1 -not -path "$path/runsc*" -print -quit)" ] || continue
        [ ! -e "$path" ] || return 1
    done
    ! ip link show utter-edge >/dev/null 2>&1
}

# What is not there yet is ours to remove; an empty folder stays, and the runtime's notes on runsc in it.
places_note() {
    local path
    for path in "${places[@]}"; do [ -e "$path" ] || echo "$path" >>"$home/made"; done
}

places_clear() {
    local path
    for path in "${places[@]}"; do
        if grep -qxF "$path" "$home/made" 2>/dev/null; then
            rm -rf "$path"
        elif [ -d "$path" ]; then
            find "$path" -mindepth 1 -maxdepth 1 -not -name runsc -exec rm -rf {} +
        fi
    done
}

host_own_runs() { runs host; }

# Only what must be hidden is: the rest of the file system is this host's.
host_own_start() {
    local path
    for path in "${places[@]}"; do mkdir -p "$path"; done
    daemon host unshare -m -n --propagation private bash -c '
        set -e
        ip link set lo up
        for path in "$@"; do
            mkdir -p -m 755 "$0/own$path" # on a disk: a ledger on tmpfs is refused
            mount --bind "$0/own$path" "$path"
        done
        touch "$0/host.ready"
        exec sleep infinity' "$home" "${places[@]}"
    for _ in $(seq 100); do [ ! -e "$home/host.ready" ] || return 0; sleep 0.05; done
    return 1
}

host_own_enter() {
    local pid
    read -r pid _ <"$run/host.pid"
    nsenter -t "$pid" -m -n "$top/deploy/quickstart" "$@"
}

host_own_stop() {
    local path
    daemon_end host
    [ ! -e "$home/made" ] || while read -r path; do rmdir "$path" || :; done <"$home/made"
}

show_inside_own_host() {
    say 'this host uses Utter already; it is left alone, and the show gets a network and mounts of its own'
    step 'network and mounts of its own' host_own_start
    export UTTER_QUICKSTART_BEGAN=$((began - SECONDS)) UTTER_QUICKSTART_TRAEFIK=$traefik
    host_own_enter --inside || failed=1
}

# How to reach what --keep left.
keep_prefix() { ! host_own_runs || printf 'nsenter -t %s -m -n ' "$(cut -d' ' -f1 "$run/host.pid")"; }

keep_say() {
    [ -z "$traefik" ] || tls_port=$(cat "$home/tls.port")
    if [ "$failed" -ne 0 ]; then
        bold 'Left as it failed (--keep)'
        say 'stop: deploy/quickstart --stop'
        return
    fi
    bold 'Left running (--keep)'
    say "buy:    $(keep_prefix)$(pay_words) $(url /)"
    say "look:   $(keep_prefix)$bin/utter-deploy status shop"
    say "        $(keep_prefix)ctr -a $run/containerd.sock -n utter tasks ls"
    say "change: $shop/shop/handler/main.py, then $(keep_prefix)$bin/utter-deploy up $shop/shop/endpoint.yaml"
    say 'stop:   deploy/quickstart --stop'
}
