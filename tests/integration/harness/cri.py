"""A CRI client: pods as kubelet makes them, with hardened defaults that a test changes."""
import os

import grpc

from . import protos
from .client import unique
from .wait import until

CREATED, RUNNING, EXITED = 0, 1, 2
CONTAINER_PID = 1  # what the kubelet asks for unless shareProcessNamespace is set


class Cri:
    def __init__(self, host):
        self.host, self.pb = host, protos.load("cri")
        self.pods = []
        self.connect()

    def connect(self):
        self.channel = grpc.insecure_channel("unix://" + self.host.containerd.address,
                                             options=[("grpc.use_local_subchannel_pool", 1)])

    def call(self, method, request, reply=None, timeout=90):
        rpc = self.channel.unary_unary("/runtime.v1.RuntimeService/" + method,
                                       request_serializer=lambda m: m.SerializeToString(),
                                       response_deserializer=(reply or self.pb.Empty).FromString)
        return rpc(request, timeout=timeout, wait_for_ready=True)

    def ready(self):
        """Waits until CRI says that runtime and network are ready."""
        def check():
            rows = self.call("Status", self.pb.Empty(), self.pb.StatusReply).status.conditions
            return all(r.status for r in rows if r.type in ("RuntimeReady", "NetworkReady")) and rows
        return until(check, 30, "CRI is ready", 0.1)

    def pod(self, memory=256 << 20, quota=50000, change=None, run=True):
        pb, uid = self.pb, unique("pod")
        config = pb.SandboxConfig(metadata=pb.SandboxMetadata(name=uid, uid=uid, namespace="default"), hostname=uid,
                                  log_directory=self.host.space.path("logs-" + uid))
        config.linux.cgroup_parent = "/kubepods-%s/%s" % (self.host.namespace, uid)
        config.linux.security_context.seccomp.profile_type = 0
        config.linux.security_context.namespace_options.pid = CONTAINER_PID
        config.linux.resources.memory_limit_in_bytes = memory
        config.linux.resources.cpu_quota, config.linux.resources.cpu_period = quota, 100000
        if change:
            change(config)
        pod = Pod(self, config)
        self.pods.append(pod)
        return pod.run() if run else pod

    def close(self):
        problems = []
        while self.pods:
            try:
                self.pods.pop().remove()
            except (grpc.RpcError, OSError) as error:
                problems.append(str(error))
        self.channel.close()
        return problems


class Pod:
    def __init__(self, cri, config):
        self.cri, self.pb, self.config, self.id = cri, cri.pb, config, None
        os.makedirs(config.log_directory)

    def run(self):
        request = self.pb.RunSandbox(config=self.config, runtime_handler="utter")
        self.id = self.cri.call("RunPodSandbox", request, self.pb.SandboxId).pod_sandbox_id
        return self

    def state(self):
        request = self.pb.SandboxId(pod_sandbox_id=self.id)
        return self.cri.call("PodSandboxStatus", request, self.pb.SandboxStatus).status.state

    def container(self, args, name=None, user=1000, memory=128 << 20, quota=25000, env=(), change=None):
        pb, name = self.pb, name or unique("c")
        config = pb.ContainerConfig(metadata=pb.ContainerMetadata(name=name), command=args,
                                    image=pb.ImageSpec(image="utter.test/probe:1"), log_path=name + ".log",
                                    envs=[pb.KeyValue(key=k, value=v) for k, v in env])
        resources, security = config.linux.resources, config.linux.security_context
        resources.memory_limit_in_bytes, resources.cpu_period, resources.cpu_quota = memory, 100000, quota
        resources.cpu_shares = 256
        security.capabilities.drop_capabilities.append("ALL")
        security.no_new_privs = security.readonly_rootfs = True
        security.run_as_user.value = security.run_as_group.value = user
        security.seccomp.profile_type = 0
        security.namespace_options.pid = CONTAINER_PID
        if change:
            change(config)
        request = pb.CreateContainer(pod_sandbox_id=self.id, config=config, sandbox_config=self.config)
        return PodContainer(self, name, self.cri.call("CreateContainer", request, pb.ContainerId).container_id)

    def log(self, name):
        """(stream, text) rows of a container's CRI log."""
        path = os.path.join(self.config.log_directory, name + ".log")
        if not os.path.exists(path):
            return ""
        with open(path) as f:
            return "".join(line.split(" ", 3)[3] for line in f)

    def stop(self):
        self.cri.call("StopPodSandbox", self.pb.SandboxId(pod_sandbox_id=self.id))

    def remove(self):
        if self.id:
            self.stop()
            self.cri.call("RemovePodSandbox", self.pb.SandboxId(pod_sandbox_id=self.id))
            self.id = None
        for name in os.listdir(self.config.log_directory):
            os.unlink(os.path.join(self.config.log_directory, name))
        os.rmdir(self.config.log_directory)


class PodContainer:
    def __init__(self, pod, name, id):
        self.pod, self.cri, self.pb, self.name, self.id = pod, pod.cri, pod.pb, name, id

    def start(self):
        self.cri.call("StartContainer", self.pb.ContainerId(container_id=self.id))
        return self

    def state(self):
        request = self.pb.ContainerId(container_id=self.id)
        return self.cri.call("ContainerStatus", request, self.pb.ContainerStatus).status

    def finish(self, seconds=60):
        """Waits for the end; (status, reason, log)."""
        state = until(lambda: (lambda s: s if s.state == EXITED else None)(self.state()), seconds,
                      "container %s ends" % self.name)
        return state.exit_code, state.reason, self.pod.log(self.name)

    def exec(self, *cmd, timeout=30):
        request = self.pb.ExecSync(container_id=self.id, cmd=cmd, timeout=timeout)
        reply = self.cri.call("ExecSync", request, self.pb.ExecResult)
        return reply.exit_code, reply.stdout.decode(), reply.stderr.decode()

    def stats(self):
        return self.cri.call("ContainerStats", self.pb.ContainerId(container_id=self.id), self.pb.StatsReply).stats

    def stop(self, timeout=2):
        self.cri.call("StopContainer", self.pb.StopContainer(container_id=self.id, timeout=timeout))

    def remove(self):
        self.cri.call("RemoveContainer", self.pb.ContainerId(container_id=self.id))
