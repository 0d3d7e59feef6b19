"""critest against a containerd of its own whose default runtime is the program without rules."""
import json
import os
import subprocess

from harness.daemon import Containerd

import images

# What needs a public registry (the image service, not the shim) or is not on this runtime's path at all.
LEFT_OUT = ("Image Manager", "Image Consistency", "Image Identifier Consistency", "Image Volume", "NRI")


def network(folder):
    """As a cluster's: a bridge that has an address, a default route, host ports."""
    return {"cniVersion": "0.4.0", "name": "utconf", "plugins": [
        {"type": "bridge", "bridge": "utconf0", "isGateway": True, "ipMasq": False, "hairpinMode": True,
         "ipam": {"type": "host-local", "dataDir": folder, "ranges": [[{"subnet": "198.18.64.0/24"}]],
                  "routes": [{"dst": "0.0.0.0/0"}]}},
        {"type": "portmap", "capabilities": {"portMappings": True}, "snat": True}]}


class Suite:
    """One containerd with the images; run() runs critest against it."""

    def __init__(self, space, containerd, runsc, bin_dirs, critest, runtime="io.containerd.utterconf.v1"):
        self.space, self.critest = space, critest
        self.folder = space.path("critest")
        os.makedirs(self.folder)
        with open(space.path("etc", "policy.json"), "w") as f:
            json.dump({"runsc": runsc}, f)
        os.chmod(space.path("etc", "policy.json"), 0o644)
        self.daemon = Containerd(space, containerd, bin_dirs, runtime, name="cf", address=space.path("cf.sock"),
                                 network=network(space.path("cf-ipam")), env={"UTTERCONF_DIR": space.root})
        self.daemon.start()
        for archive in images.write(self.folder):
            self.daemon.ctr_run("images", "import", archive, ns="k8s.io")

    def run(self, focus=(), skip=(), timeout=600):
        """{name: (state, why)} of every spec that critest did not leave out; state: passed, failed, skipped."""
        report, listed = os.path.join(self.folder, "report.json"), os.path.join(self.folder, "images.yaml")
        with open(listed, "w") as f:
            f.write("defaultTestContainerImage: %s\nwebServerTestImage: %snginx:1.14-2\n" % (images.BUSYBOX, images.E2E))
        words = [self.critest, "--runtime-endpoint=unix://" + self.daemon.address, "--test-images-file=" + listed,
                 "--ginkgo.no-color", "--ginkgo.seed=1", "--ginkgo.json-report=" + report]
        words += ["--ginkgo.focus=" + f for f in focus]
        words += ["--ginkgo.skip=\\[k8s.io\\] " + name for name in LEFT_OUT] + ["--ginkgo.skip=" + name for name in skip]
        with open(os.path.join(self.folder, "log"), "ab") as log:
            subprocess.run(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, timeout=timeout,
                           env=dict(self.daemon.env))
        with open(report) as f:
            return dict(_rows(json.load(f)))

    def close(self):
        self.daemon.stop()


def _rows(report):
    for suite in report:
        for row in suite["SpecReports"] or ():
            if row["LeafNodeType"] != "It":
                continue
            failure = row.get("Failure") or {}
            name = " ".join((row["ContainerHierarchyTexts"] or []) + [row["LeafNodeText"]]).replace("[k8s.io] ", "")
            if row["State"] == "skipped" and not failure.get("Message"):
                continue  # left out by us
            yield name, (row["State"] if row["State"] in ("passed", "skipped") else "failed", failure.get("Message", ""),
                         row["RunTime"] / 1e9)
