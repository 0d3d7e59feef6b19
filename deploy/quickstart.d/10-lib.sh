# Progress, checks and clean-up of the quickstart.
run=/run/utter-quickstart      # sockets and pids
home=/var/lib/utter-quickstart # programs, images, state: /run may be mounted noexec, and a clone may lie anywhere
bin=$home/bin

bold() { printf '\n\033[1m%s\033[0m\n' "$*"; }
say() { printf '  %s\n' "$*"; }

# step TEXT COMMAND…: a quiet step with its time; its output is shown when it fails.
step() {
    local text=$1 log=build/quickstart/step.log start=$SECONDS
    shift
    mkdir -p build/quickstart
    printf '%-46s' "$text"
    if "$@" >"$log" 2>&1 </dev/null; then
        printf 'ok  %d s\n' $((SECONDS - start))
    else
        printf 'FAILED\n'
        tail -n 40 "$log"
        exit 1
    fi
}

# claim TEXT COMMAND…: something the quickstart says is so; it is, or the run fails.
claim() {
    local text=$1
    shift
    if "$@"; then
        printf '  \033[32m✓\033[0m %s\n' "$text"
    else
        printf '  \033[31m✗\033[0m %s\n' "$text"
        [ -z "${out:-}" ] || printf '%s\n' "$out" | tail -n 8 | sed 's/^/      found: /' # the caller's
        failed=1
    fi
}

has() { printf '%s\n' "$1" | grep -qE "$2"; }
lacks() { ! has "$@"; }

# daemon NAME COMMAND…: in the background, away from this terminal and without its lock; its pid is kept by NAME.
daemon() {
    local name=$1
    shift
    setsid "$@" >>"$home/$name.log" 2>&1 </dev/null 9<&- &
    echo "$! $(cut -d' ' -f22 "/proc/$!/stat")" >"$run/$name.pid"
}

# Is the process of NAME still that one, not another with its number? Its start time tells.
runs() {
    local pid=0 started=0
    read -r pid started 2>/dev/null <"$run/$1.pid" || return 1
    [ "$(cut -d' ' -f3,22 "/proc/$pid/stat" 2>/dev/null | sed '/^Z/d; s/^. //')" = "$started" ]
}

daemon_end() {
    local pid
    if runs "$1"; then
        read -r pid _ <"$run/$1.pid"
        kill "$pid"
        for _ in $(seq 100); do runs "$1" || break; sleep 0.05; done
        ! runs "$1" || kill -9 "$pid"
    fi
    rm -f "$run/$1.pid"
}

packages_install() { deploy/packages install build run; }

# UTTER_PROGRAMS: a folder of built programs, for the test of this.
programs_build() {
    [ -z "${UTTER_PROGRAMS:-}" ] || return 0
    cmake --preset release -DUTTER_TESTS=OFF -B build/quickstart/programs
    cmake --build build/quickstart/programs -j "$(nproc)"
}

image_make() { tests/image/make build/quickstart/image.tar; }

# What has to be there to clean up must outlive the clone, and what root starts must not be changed by others.
place_programs() {
    mkdir -p -m 0711 "$run"
    mkdir -p -m 0755 "$home" "$bin"
    cp "${UTTER_PROGRAMS:-build/quickstart/programs/bin}"/{containerd-shim-utter-v1,utter-*} "$bin/"
    cp build/quickstart/image.tar "$home/"
}

stop_here() {
    endpoint_stop
    traefik_stop
    containerd_stop
}

# Idempotent: what a run that was killed or --keep left goes as well.
stop_all() {
    if host_own_runs; then
        host_own_enter --stop-inside || :
    else
        [ ! -e "$home" ] || stop_here
    fi
    host_own_stop
    rm -rf "$run" "$home"
} >/dev/null 2>&1

finish() {
    if [ -n "$keep" ] && runs containerd; then
        keep_say
        return
    fi
    stop_all || :
}

show() {
    step 'a containerd of its own' containerd_start
    show_runtime
    show_endpoint
    summary
}

summary() {
    bold 'Summary'
    say "installation and build $((shown - began)) s, the show $((SECONDS - shown)) s"
    [ ! -e /etc/apt/sources.list.d/utter-backports.sources ] ||
        say 'apt source added: /etc/apt/sources.list.d/utter-backports.sources (bookworm-backports, priority 100)'
    say 'packages used: deploy/packages list build run'
    if [ $failed -eq 0 ]; then say 'every claim above was checked as it was shown'; else say 'A CLAIM FAILED'; fi
}
