"""A client of namespace k8s.io that is hostile: a real pod's container taken over and changed, as neither kubelet nor
crictl would write it. Whatever it says, it gets no other pod's sandbox, no second sandbox and no more than the pod has."""
import copy
import json

import grpc
import pytest

from harness import client as api
from harness.refusal import refused

CRI = "io.kubernetes.cri."


@pytest.fixture
def pods(host):
    """Two pods, and what is needed to put a changed container beside the first one's."""
    return Pods(host)


class Pods:
    def __init__(self, host):
        self.host, self.cri = host, host.cri()
        self.a, self.b = self.cri.pod(), self.cri.pod()
        self.client = api.Client(host.containerd, "k8s.io")
        self.model = self.a.container(["/bin/probe", "true"])
        self.spec_a = self.spec_of(self.model.id)
        self.spec_b = self.spec_of(self.b.container(["/bin/probe", "true"]).id)

    def spec_of(self, id):
        pb = self.client.pb
        box = self.client.call("containers.v1.Containers", "Get", pb.Id(id=id), pb.ContainerBox)
        return json.loads(box.container.spec.value)

    def own_spec(self, id):
        """The model's spec as its own: another container of pod a."""
        spec = copy.deepcopy(self.spec_a)
        spec["linux"]["cgroupsPath"] = spec["linux"]["cgroupsPath"].rsplit("/", 1)[0] + "/" + id
        spec["mounts"] = [m for m in spec["mounts"] if self.model.id not in json.dumps(m)]
        return spec

    def try_one(self, change, id=None):
        id = id or api.unique("atk")
        spec = self.own_spec(id)
        change(spec, self)
        task = api.Task(self.client, id, self.host.space.path("io-" + id))
        self.host.tasks.append(task)
        return task.setup(spec, self.host.parent, self.host.runtime).create()


def note(key, value):
    return lambda spec, pods: spec["annotations"].__setitem__(CRI + key, value)


def from_b(key):
    return lambda spec, pods: spec["annotations"].__setitem__(CRI + key, pods.spec_b["annotations"][CRI + key])


def without(key):
    return lambda spec, pods: spec["annotations"].pop(CRI + key)


def namespaces_of_b(*kinds):
    def change(spec, pods):
        other = {row["type"]: row for row in pods.spec_b["linux"]["namespaces"]}
        spec["linux"]["namespaces"] = [other[row["type"]] if row["type"] in kinds else row
                                       for row in spec["linux"]["namespaces"]]
    return change


def host_namespace(kind, path):
    def change(spec, pods):
        rows = [row for row in spec["linux"]["namespaces"] if row["type"] != kind]
        spec["linux"]["namespaces"] = rows + [{"type": kind, "path": path}]
    return change


def all_of(*changes):
    return lambda spec, pods: [change(spec, pods) for change in changes]


def limit(**resources):
    return lambda spec, pods: spec["linux"]["resources"].update(copy.deepcopy(resources))


ATTACKS = {
    "uid of another pod": from_b("sandbox-uid"),
    "no uid of the pod": without("sandbox-uid"),
    "namespace of another tenant": note("sandbox-namespace", "kube-system"),
    "no namespace of the pod": without("sandbox-namespace"),
    "id of another pod, all else of this one": from_b("sandbox-id"),
    "id and uid of another pod, namespaces of this one": all_of(from_b("sandbox-id"), from_b("sandbox-uid")),
    "network of another pod": namespaces_of_b("network"),
    "ipc and uts of another pod": namespaces_of_b("ipc", "uts"),
    "a pod that is not there": note("sandbox-id", "0" * 64),
    "its own id as the pod": note("sandbox-id", "atk-self"),
    "a path as the pod": note("sandbox-id", "../../../etc"),
    "an empty pod": note("sandbox-id", ""),
    "a long pod": note("sandbox-id", "a" * 4096),
    "a second pause in the pod": note("container-type", "sandbox"),
    "a type that is none": note("container-type", "podsandbox"),
    "the host's network by pid 1": host_namespace("network", "/proc/1/ns/net"),
    "the shim's own network": host_namespace("network", "/proc/self/ns/net"),
    "the host's ipc": host_namespace("ipc", "/proc/1/ns/ipc"),
    "the host's pid namespace": host_namespace("pid", "/proc/1/ns/pid"),
    "a mount namespace": host_namespace("mount", "/proc/1/ns/mnt"),
    "a user namespace": host_namespace("user", "/proc/1/ns/user"),
    "a flag of gVisor": lambda spec, pods: spec["annotations"].__setitem__("dev.gvisor.flag.host-uds", "all"),
    "seccomp off by annotation": lambda spec, pods: spec["annotations"].__setitem__(
        "dev.gvisor.internal.seccomp.c1", "RuntimeDefault"),
    "a runc group": lambda spec, pods: spec["annotations"].__setitem__("io.containerd.runc.v2.group", pods.b.id),
    "more memory than the pod": limit(memory={"limit": 1 << 40}),
    "no memory limit": lambda spec, pods: spec["linux"]["resources"].pop("memory"),
    "the cgroup of the pod's sandbox": lambda spec, pods: spec["linux"].__setitem__(
        "cgroupsPath", spec["linux"]["cgroupsPath"].rsplit("/", 1)[0] + "/" + pods.a.id),
    "the cgroup of another pod's sandbox": lambda spec, pods: spec["linux"].__setitem__(
        "cgroupsPath", pods.spec_b["linux"]["cgroupsPath"].rsplit("/", 1)[0] + "/" + pods.b.id),
    "the log of the node": lambda spec, pods: spec["mounts"].append(
        {"destination": "/dev/termination-log", "type": "bind", "source": "/var/log/dpkg.log", "options": ["rbind", "rw"]}),
    "the node's kubelet folder": lambda spec, pods: spec["mounts"].append(
        {"destination": "/data", "type": "bind", "source": "/var/lib/kubelet/pods", "options": ["rbind", "rw"]}),
    "another pod's resolv.conf": lambda spec, pods: spec["mounts"].append(
        {"destination": "/etc/resolv.conf", "type": "bind", "options": ["rbind", "rw"],
         "source": "/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/%s/resolv.conf" % pods.b.id}),
}


def test_the_unchanged_copy_is_accepted(pods):
    """Else the refusals below would show nothing."""
    task = pods.try_one(lambda spec, _: None).start()
    assert task.wait() == 0


@pytest.mark.timeout(400)
def test_what_a_hostile_client_says_of_a_pod(pods):
    accepted = []
    for name, change in ATTACKS.items():
        try:
            with refused():
                pods.try_one(change, "atk-self" if "its own id" in name else None)
        except (AssertionError, grpc.RpcError) as error:
            accepted.append("%s: %s" % (name, error))
    assert accepted == []
    assert pods.a.state() == 0 and pods.b.state() == 0, "both pods live on"
    assert pods.model.start().finish()[0] == 0, "and the first still starts its own"


def test_update_in_a_pod_stays_within_the_pod(host):
    pod = host.cri().pod(memory=128 << 20)
    container = pod.container(["/bin/probe", "sleep"], memory=64 << 20).start()
    task = api.Task.__new__(api.Task)
    task.client, task.id, task.pb, task.exec_id = api.Client(host.containerd, "k8s.io"), container.id, None, ""
    task.pb = task.client.pb
    for resources in ({"memory": {"limit": 1 << 30}}, {"memory": {"limit": 0}}, {"memory": {"limit": -1}},
                      {"pids": {"limit": 1 << 20}}, {"pids": {"limit": -1}}, {"cpu": {"quota": -1, "period": 100000}},
                      {"devices": [{"allow": True, "access": "rwm"}]}, {"unified": {"memory.max": "max"}}):
        with refused():
            task.update(resources)
    assert container.state().state == 1
