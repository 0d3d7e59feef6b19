"""Fixtures of the integration tests. Real containerd, real runsc; which ones is told by tests/run, one pair per run."""
import json
import os
import shutil
import subprocess
import sys
import tarfile

import grpc
import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)

from harness import client as api  # noqa: E402
from harness import spec as specs  # noqa: E402
from harness.cri import Cri  # noqa: E402
from harness.daemon import Containerd  # noqa: E402
from harness.probe import lines  # noqa: E402
from harness.space import Space, difference  # noqa: E402
from harness.wait import until  # noqa: E402


def pytest_addoption(parser):
    group = parser.getgroup("utter")
    group.addoption("--pair-name", default="debian")
    group.addoption("--containerd", default="/usr/bin/containerd")
    group.addoption("--runsc", default="/usr/bin/runsc")
    group.addoption("--build", default=os.path.join(TOP, "build/release"))
    group.addoption("--runtime", default="io.containerd.utter.v1", help="another one, to judge the tests themselves")
    group.addoption("--no-leak-check", action="store_true", help="for work on a test, never in tests/run")
    group.addoption("--extra-bin", nargs="*", help="more folders in containerd's PATH")
    group.addoption("--long", action="store_true", help="also the tests marked long")


def pytest_configure(config):
    for line in ("core: runs on every pair of containerd and runsc", "long: only with --all",
                 "once: does not depend on the pair; runs with the first only"):
        config.addinivalue_line("markers", line)


def pytest_collection_modifyitems(config, items):
    for item in items:
        if item.get_closest_marker("long") and not config.getoption("--long"):
            item.add_marker(pytest.mark.skip(reason="long; tests/run --all runs it"))
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(240))
    if config.getoption("--pair-name") != "debian":
        items[:] = [item for item in items if not item.get_closest_marker("once")]


class Host:
    """What a test gets: the daemon, a client, and containers that are removed after it."""

    def __init__(self, space, config):
        self.space = space
        self.runsc = config.getoption("--runsc")
        self.runtime = config.getoption("--runtime")
        self.bin = os.path.join(os.path.abspath(config.getoption("--build")), "bin")
        self.namespace = "ut-int-%d" % os.getpid()
        self.policy = space.path("etc", "policy.json")
        self.write_policy()
        self.image = space.path("image.tar")
        subprocess.run([os.path.join(TOP, "tests/image/make"), self.image], check=True)
        self.parent = self._layer()
        self.containerd = Containerd(space, config.getoption("--containerd"),
                                     [self.bin] + (config.getoption("--extra-bin") or []), self.runtime).start()
        self.imported = []
        self.import_image(self.namespace)
        self.client = api.Client(self.containerd, self.namespace)
        self.tasks, self.cris = [], []

    def cri(self):
        """A CRI client whose pods are removed after the test."""
        if "k8s.io" not in self.imported:
            self.import_image("k8s.io")
        made = Cri(self)
        self.cris.append(made)
        made.ready()
        return made

    def _layer(self):
        with tarfile.open(self.image) as tar:
            index = json.load(tar.extractfile("index.json"))
            blob = lambda row: json.load(tar.extractfile("blobs/sha256/" + row["digest"][7:]))
            return blob(blob(index["manifests"][0])["config"])["rootfs"]["diff_ids"][0]

    def start_containerd(self):
        """After containerd.kill9(): starts it again and connects anew."""
        self.containerd.start()
        for client in [self.client] + self.cris:
            client.connect()

    def import_image(self, namespace):
        self.imported.append(namespace)
        self.containerd.ctr_run("images", "import", self.image, ns=namespace)

    @property
    def current(self):
        """Is this runsc new enough for all features (exec included)?"""
        return "20240729" not in subprocess.run([self.runsc, "--version"], capture_output=True, text=True).stdout

    def write_policy(self, **values):
        """Writes /etc/utter/policy.json of the tests' space: our runsc, and what a test adds."""
        with open(self.policy + ".new", "w") as f:
            json.dump(dict({"runsc": self.runsc}, **values), f)
        os.chmod(self.policy + ".new", 0o644)
        os.rename(self.policy + ".new", self.policy)

    def task(self, args, runtime=None, change=None, id=None, client=None, labels=None, **kw):
        """A container with a hardened spec, not yet created as a task. change(spec) may return another spec."""
        client = client or self.client
        id = id or api.unique()
        spec = specs.hardened(client.namespace, id, args, **kw)
        if change:
            spec = change(spec) or spec
        task = api.Task(client, id, self.space.path("io-" + id))
        self.tasks.append(task)
        return task.setup(spec, self.parent, runtime or self.runtime, labels)

    def run(self, args, **kw):
        """Runs to the end: (status, stdout, stderr)."""
        task = self.task(args, **kw).create().start()
        result = task.finish()
        task.delete()
        return result

    def probe(self, *args, **kw):
        """Runs the probe: {name: line} of what it printed, and '' : exit status."""
        status, out, err = self.run(["/bin/probe"] + list(args), **kw)
        return lines(out, status, err)

    def close_tasks(self):
        problems = []
        while self.cris:
            problems += self.cris.pop().close()
        while self.tasks:
            try:
                self.tasks.pop().close()
            except (grpc.RpcError, AssertionError, OSError) as error:
                problems.append(str(error))
        return problems


@pytest.fixture(scope="session")
def space():
    if os.geteuid() != 0:
        pytest.exit("the integration tests need root")
    made = Space()
    yield made
    made.close()


@pytest.fixture(scope="session")
def session_host(space, request):
    made = Host(space, request.config)
    yield made
    made.containerd.stop()


# Not leaks: a lock file of iptables, and what the shim keeps between starts on purpose.
KEPT = ("files: /run/xtables.lock", "files: /run/utter-shim/cache/")


@pytest.fixture
def host(session_host, space, request):
    """The host, with a check that the test left nothing: no process, mount, cgroup, socket, file or link."""
    made = session_host
    made.write_policy()
    start = made.containerd.log_size()
    before = space.snapshot()
    yield made
    problems = made.close_tasks()
    left = []

    def clean():
        space.reap({made.containerd.process.pid})
        left[:] = [line for line in difference(before, space.snapshot())
                   if not line.startswith(KEPT + ("processes: %d " % made.containerd.process.pid,))]
        return not left or request.config.getoption("--no-leak-check")

    try:
        until(clean, 20, "nothing is left", 0.1)
    except AssertionError:
        problems.append("left behind:\n  " + "\n  ".join(left))
    report = getattr(request.node, "report", None)
    if problems or (report and report.failed):
        print("---- containerd's log of this test ----\n" + made.containerd.log_tail(start))
    assert not problems, "\n".join(problems)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if call.when == "call":
        item.report = outcome.get_result()
