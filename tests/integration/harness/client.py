"""containerd's gRPC API as the tests use it: the same calls that ctr and nerdctl make, and odd ones they never make."""
import itertools
import json
import os
import select
import threading

import grpc

from . import protos
from .wait import until

SPEC_TYPE = "types.containerd.io/opencontainers/runtime-spec/1/"
_count = itertools.count(1)


def unique(prefix="t"):
    return "%s%d-%d" % (prefix, os.getpid(), next(_count))


class Client:
    """One containerd namespace of one daemon. call() raises grpc.RpcError."""

    def __init__(self, daemon, namespace):
        self.daemon, self.namespace = daemon, namespace
        self.pb = protos.load("containerd")
        self.connect()

    def connect(self):
        """A fresh connection; needed after a restart of the daemon, so that no call meets the dead one."""
        self.channel = grpc.insecure_channel("unix://" + self.daemon.address,
                                             options=[("grpc.use_local_subchannel_pool", 1)])

    def call(self, service, method, request, reply, timeout=90):
        path = "/containerd.services.%s/%s" % (service, method)
        rpc = self.channel.unary_unary(path, request_serializer=lambda m: m.SerializeToString(),
                                       response_deserializer=reply.FromString)
        return rpc(request, timeout=timeout, metadata=(("containerd-namespace", self.namespace),), wait_for_ready=True)

    def task(self, method, request, reply=None, timeout=90):
        return self.call("tasks.v1.Tasks", method, request, reply or self.pb.Nothing, timeout)

    def any(self, kind, value):
        from google.protobuf.any_pb2 import Any
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        return Any(type_url=SPEC_TYPE + kind, value=data)

    # ---- containers and their root filesystem ----

    def container(self, id, spec, runtime="io.containerd.utter.v1", labels=None, options=None):
        record = self.pb.Container(id=id, image="utter.test/probe:1", spec=self.any("Spec", spec),
                                   snapshotter="overlayfs", snapshot_key=id, labels=labels or {})
        record.runtime.name = runtime
        if options is not None:
            record.runtime.options.CopyFrom(options)
        self.call("containers.v1.Containers", "Create", self.pb.ContainerBox(container=record), self.pb.ContainerBox)

    def remove_container(self, id):
        self.call("containers.v1.Containers", "Delete", self.pb.Id(id=id), self.pb.Nothing)

    def prepare(self, id, parent):
        request = self.pb.PrepareSnapshot(snapshotter="overlayfs", key=id, parent=parent,
                                          labels={"containerd.io/gc.root": "test"})
        return self.call("snapshots.v1.Snapshots", "Prepare", request, self.pb.SnapshotMounts).mounts

    def remove_snapshot(self, id):
        request = self.pb.RemoveSnapshot(snapshotter="overlayfs", key=id)
        self.call("snapshots.v1.Snapshots", "Remove", request, self.pb.Nothing)

    def events(self, *filters):
        return Events(self, filters)


class Events:
    """A subscription; rows() gives (topic, event payload) of this namespace so far."""

    def __init__(self, client, filters):
        pb = client.pb
        rpc = client.channel.unary_stream("/containerd.services.events.v1.Events/Subscribe",
                                          request_serializer=lambda m: m.SerializeToString(),
                                          response_deserializer=pb.Envelope.FromString)
        self.client, self.list = client, []
        self.stream = rpc(pb.Subscription(filters=filters), metadata=(("containerd-namespace", client.namespace),),
                          wait_for_ready=True)
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        try:
            for envelope in self.stream:
                if envelope.namespace == self.client.namespace:
                    self.list.append(envelope)
        except grpc.RpcError:
            pass

    def topics(self, id):
        """Topics of the events that concern task id, in order of arrival."""
        return [e.topic for e in list(self.list) if id.encode() in e.event.value]

    def close(self):
        self.stream.cancel()
        self.thread.join(5)


class Fifo:
    """The reading side of a task's output: collects until the last writer is gone."""

    def __init__(self, path):
        self.path, self.data, self.ended = path, b"", threading.Event()
        os.mkfifo(path, 0o600)
        self.fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self.stopping = False
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        while not self.stopping:
            for _, events in poll.poll(100):
                if events & select.POLLIN:
                    self.data += os.read(self.fd, 65536)
                elif events & select.POLLHUP:
                    self.ended.set()
                    return

    def text(self, seconds=30):
        assert self.ended.wait(seconds), "no end of output within %g s; so far: %r" % (seconds, self.data[-300:])
        return self.data.decode(errors="replace")

    def close(self):
        self.stopping = True
        self.thread.join(5)
        os.close(self.fd)
        if os.path.exists(self.path):
            os.unlink(self.path)


class Process:
    """The first process of a task (exec_id "") or an exec of it."""

    def __init__(self, task, exec_id=""):
        self.task, self.client, self.pb, self.exec_id = task, task.client, task.client.pb, exec_id
        folder = task.folder
        base = exec_id or "init"
        self.out, self.err = Fifo(os.path.join(folder, base + "-out")), Fifo(os.path.join(folder, base + "-err"))
        self.pid = 0

    def ref(self, cls=None, **kw):
        return (cls or self.pb.TaskProcess)(container_id=self.task.id, exec_id=self.exec_id, **kw)

    def start(self):
        self.pid = self.client.task("Start", self.ref(), self.pb.StartedTask).pid
        return self

    def wait(self, timeout=90):
        return self.client.task("Wait", self.ref(), self.pb.ExitReply, timeout).exit_status

    def state(self):
        return self.client.task("Get", self.ref(), self.pb.ProcessBox, 20).process

    def kill(self, signal=9, everything=False):
        self.client.task("Kill", self.ref(self.pb.KillTask, signal=signal, all=everything))

    def finish(self, timeout=90):
        """Waits for the end; (status, stdout, stderr)."""
        status = self.wait(timeout)
        return status, self.out.text(), self.err.text()

    def close(self):
        self.out.close()
        self.err.close()


class Task(Process):
    """A container with its snapshot and task; close() removes all three whatever state they are in."""

    def __init__(self, client, id, folder):
        self.client, self.id, self.folder, self.execs, self.made = client, id, folder, [], []
        os.makedirs(folder)
        super().__init__(self)

    def setup(self, spec, parent, runtime, labels=None, options=None):
        self.mounts = list(self.client.prepare(self.id, parent))
        self.made.append("snapshot")
        self.client.container(self.id, spec, runtime, labels, options)
        self.made.append("container")
        return self

    def create(self, rootfs=None, stdin="", stdout=None, stderr=None, terminal=False, **kw):
        request = self.pb.CreateTask(container_id=self.id, rootfs=self.mounts if rootfs is None else rootfs,
                                     stdin=stdin, stdout=self.out.path if stdout is None else stdout,
                                     stderr=self.err.path if stderr is None else stderr, terminal=terminal, **kw)
        self.pid = self.client.task("Create", request, self.pb.CreatedTask).pid
        self.made.append("task")
        return self

    def exec(self, process, exec_id=None, stdin="", terminal=False):
        new = Process(self, exec_id or unique("e"))
        self.execs.append(new)
        request = self.pb.ExecTask(container_id=self.id, exec_id=new.exec_id, stdin=stdin, stdout=new.out.path,
                                   stderr="" if terminal else new.err.path, terminal=terminal,
                                   spec=self.client.any("Process", process))
        self.client.task("Exec", request)
        return new

    def pids(self):
        reply = self.client.task("ListPids", self.ref(), self.pb.PidList, 20)
        return [p.pid for p in reply.processes]

    def metrics(self):
        query = self.pb.MetricsQuery(filters=["id==" + self.id])
        rows = self.client.task("Metrics", query, self.pb.MetricList, 20).metrics
        return rows[0] if rows else None

    def update(self, resources, **kw):
        request = self.pb.UpdateTask(container_id=self.id, resources=self.client.any("LinuxResources", resources), **kw)
        self.client.task("Update", request)

    def delete(self):
        reply = self.client.task("Delete", self.ref(), self.pb.DeleteReply)
        self.made.remove("task")
        return reply.exit_status

    def close(self):
        if "task" in self.made:
            try:
                self.kill()
            except grpc.RpcError:
                pass
            until(self._gone, 30, "task %s can be deleted" % self.id, 0.1)
        for kind, remove in (("container", self.client.remove_container), ("snapshot", self.client.remove_snapshot)):
            if kind in self.made:
                remove(self.id)
        for process in self.execs:
            process.close()
        Process.close(self)
        os.rmdir(self.folder)

    def _gone(self):
        try:
            self.delete()
            return True
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.NOT_FOUND:
                return True
            return False
