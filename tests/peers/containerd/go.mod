// Current containerd, its ctr and runc's shim (a peer in tests/bench).
module utter.test/peers/containerd

go 1.26.6

toolchain go1.26.8

require github.com/containerd/containerd/v2 v2.4.2
