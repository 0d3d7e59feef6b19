// crictl and critest: other people's judgement of the CRI that containerd gives with our shim.
module utter.test/peers/cri-tools

go 1.26.6

toolchain go1.26.8

require sigs.k8s.io/cri-tools v1.37.0
