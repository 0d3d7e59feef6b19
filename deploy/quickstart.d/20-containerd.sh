# The quickstart's own containerd.
namespace=utter-quickstart
image=utter.test/probe:1

ctl() { ctr -a "$run/containerd.sock" -n "$namespace" "$@"; }

containerd_config() {
    cat <<X
version = 2
root = "$home/containerd"
state = "$run/state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
    "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper"]
[grpc]
  address = "$run/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "$home/containerd/opt"
X
}

containerd_run() {
    # containerd looks for the shim by name in its PATH.
    daemon containerd env "PATH=$bin:$PATH" containerd --config "$home/containerd.toml"
    for _ in $(seq 200); do
        ! ctl version >/dev/null 2>&1 || return 0
        sleep 0.1
    done
    return 1
}

containerd_start() {
    [ -e /run/utter-shim ] || touch "$home/first-shim" # then its cache is ours to remove
    containerd_config >"$home/containerd.toml"
    containerd_run
    ctl images import "$home/image.tar"
}

# A daemon that was killed comes back, so that what it kept running can be ended.
containerd_again() { [ ! -e "$home/containerd.toml" ] || runs containerd || { mkdir -p -m 0711 "$run" && containerd_run; }; }

containerd_stop() {
    local id
    containerd_again || :
    if runs containerd; then
        for id in $(ctl tasks ls -q 2>/dev/null); do
            ctl tasks kill -s SIGKILL "$id" || :
            for _ in $(seq 50); do ctl tasks rm -f "$id" >/dev/null 2>&1 && break || sleep 0.1; done
        done
        for id in $(ctl containers ls -q 2>/dev/null); do ctl containers rm "$id" || :; done
        daemon_end containerd
    fi
    [ ! -e "$home/first-shim" ] || rm -rf /run/utter-shim
}
