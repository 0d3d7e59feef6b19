// Current gVisor: runsc and its own containerd-shim-runsc-v1 (a peer in tests/bench).
module utter.test/peers/gvisor

go 1.26.3

toolchain go1.26.8

require gvisor.dev/gvisor v0.0.0-20260905035102-160fafc42237
