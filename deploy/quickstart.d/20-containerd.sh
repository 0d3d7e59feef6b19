# The quickstart's own containerd.
run=/run/utter-quickstart
namespace=utter-quickstart
image=utter.test/probe:1

ctl() { ctr -a "$run/containerd.sock" -n "$namespace" "$@"; }

containerd_config() {
    local data=$top/build/quickstart/containerd
    cat <<EOF
version = 2
root = "$data"
state = "$run/state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
    "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper"]
[grpc]
  address = "$run/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "$data/opt"
EOF
}

containerd_start() {
    containerd_stop
    mkdir -p -m 0711 "$run"
    [ -e /run/utter-shim ] || touch "$run/first-shim" # then its cache is ours to remove
    containerd_config >build/quickstart/containerd.toml
    # containerd looks for the shim by name in its PATH.
    PATH=$bin:$PATH setsid containerd --config "$top/build/quickstart/containerd.toml" \
        >build/quickstart/containerd.log 2>&1 </dev/null &
    echo $! >"$run/containerd.pid"
    for _ in $(seq 200); do
        ctl version >/dev/null 2>&1 && break
        sleep 0.1
    done
    ctl images import build/quickstart/image.tar
}

# Idempotent: what a killed run or --keep left goes as well.
containerd_stop() {
    local pid id
    [ -e "$run/containerd.pid" ] || { rm -rf "$run" build/quickstart/containerd; return 0; }
    pid=$(cat "$run/containerd.pid")
    if [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = containerd ]; then
        for id in $(ctl tasks ls -q 2>/dev/null); do
            ctl tasks kill -s SIGKILL "$id" || :
            for _ in $(seq 50); do ctl tasks rm -f "$id" >/dev/null 2>&1 && break || sleep 0.1; done
        done
        for id in $(ctl containers ls -q 2>/dev/null); do ctl containers rm "$id" || :; done
        kill "$pid"
        for _ in $(seq 100); do
            [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = containerd ] || break
            sleep 0.1
        done
    fi >/dev/null 2>&1
    [ ! -e "$run/first-shim" ] || rm -rf /run/utter-shim
    rm -rf "$run" build/quickstart/containerd
}
