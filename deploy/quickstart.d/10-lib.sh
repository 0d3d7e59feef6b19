# Progress, checks and clean-up of the quickstart.
bold() { printf '\n\033[1m%s\033[0m\n' "$*"; }
say() { printf '  %s\n' "$*"; }

# step TEXT COMMAND…: a quiet step with its time; its output is shown when it fails.
step() {
    local text=$1 log=build/quickstart/step.log began=$SECONDS
    shift
    mkdir -p build/quickstart
    printf '%-46s' "$text"
    if "$@" >"$log" 2>&1 </dev/null; then
        printf 'ok  %d s\n' $((SECONDS - began))
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
        failed=1
    fi
}

packages_install() { deploy/packages install build run; }

programs_build() {
    cmake --preset release -DUTTER_TESTS=OFF -B build/quickstart/programs
    cmake --build build/quickstart/programs -j "$(nproc)"
}
bin=$PWD/build/quickstart/programs/bin

image_make() { tests/image/make build/quickstart/image.tar; }

finish() {
    if [ -n "$keep" ] && [ -e "$run/containerd.pid" ]; then
        bold 'Left running (--keep)'
        say "containerd: $run/containerd.sock, namespace $namespace"
        say "try:        PATH=$bin:\$PATH ctr -a $run/containerd.sock -n $namespace tasks ls"
        say 'stop:       deploy/quickstart --stop'
        [ -z "$ours" ] || say "endpoint:   $bin/utter-deploy status shop"
        return
    fi
    endpoint_stop >/dev/null 2>&1
    containerd_stop
}

summary() {
    bold 'Summary'
    say "installation and build $((shown - began)) s, the show $((SECONDS - shown)) s"
    [ ! -e /etc/apt/sources.list.d/utter-backports.sources ] ||
        say 'apt source added: /etc/apt/sources.list.d/utter-backports.sources (bookworm-backports, priority 100)'
    say 'packages used: deploy/packages list build run'
    if [ $failed -eq 0 ]; then say 'every claim above was checked as it was shown'; else say 'A CLAIM FAILED'; fi
}
