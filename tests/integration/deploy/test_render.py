"""`render`: what it prints, before the other tools' own judges where they can be had."""
import copy
import json
import os
import subprocess
import sys

import pytest

CEL = "cel-python==0.5.0"
UPSTREAMS = """upstreams:
  - name: api
    url: "http://198.19.128.1:9000/v1"
    internal: true
    allow: [{methods: [GET], path: /fine}]
    inject: {header: {name: X-Api-Key, file: api.key}}
"""
pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def files(rig):
    rig.ok("image", "data", rig.bin + "/utter-dataproxy")
    rig.write("drawn/api.key", "sk-upstream-0123456789\n")
    os.chmod(rig.path("drawn/api.key"), 0o600)
    file = rig.endpoint("drawn", payee=91, extra=UPSTREAMS)
    return {what: json.loads(rig.ok("render", what, file))
            for what in ("compose", "kubernetes", "traefik", "cni", "gate", "data")}


def item(files, kind, name):
    found = [i for i in files["kubernetes"]["items"] if i["kind"] == kind and i["metadata"]["name"] == name]
    assert len(found) == 1, (kind, name)
    return found[0]


@pytest.fixture(scope="module")
def cel():
    """The Common Expression Language in Python, as its package on PyPI has it."""
    cache = "/var/cache/utter-peers/" + CEL.replace("==", "-")
    if not os.path.exists(cache):
        got = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", cache + ".new", CEL],
                             capture_output=True, text=True)
        if got.returncode:
            pytest.skip("%s cannot be had: %s" % (CEL, got.stderr.strip()[-200:]))
        os.rename(cache + ".new", cache)
    sys.path.append(cache)  # last: the machine's own modules go before its dependencies
    return pytest.importorskip("celpy")


class Admission:
    """A ValidatingAdmissionPolicy as an API server judges by it: conditions, variables, then each validation."""

    def __init__(self, celpy, policy):
        self.celpy, self.environment, self.spec = celpy, celpy.Environment(), policy["spec"]

    def value(self, expression, pod, variables):
        program = self.environment.program(self.environment.compile(expression))
        return program.evaluate({"object": self.celpy.json_to_cel(pod), "variables": self.celpy.celtypes.MapType(variables)})

    def refusals(self, pod):
        """None: the policy is not about this pod; else the rules that refuse it. An error refuses too (failurePolicy)."""
        assert self.spec["failurePolicy"] == "Fail"
        if not all(self.value(c["expression"], pod, {}) for c in self.spec["matchConditions"]):
            return None
        variables = {self.celpy.celtypes.StringType(v["name"]): self.value(v["expression"], pod, {})
                     for v in self.spec["variables"]}
        out = []
        for validation in self.spec["validations"]:
            try:
                fine = bool(self.value(validation["expression"], pod, variables))
            except self.celpy.CELEvalError:
                fine = False
            if not fine:
                out.append(validation["message"].split(": ")[2])
        return out


@pytest.fixture(scope="module")
def admission(cel, files):
    return Admission(cel, item(files, "ValidatingAdmissionPolicy", "utter"))


@pytest.fixture
def pod(files):
    template = copy.deepcopy(item(files, "Deployment", "drawn-handler")["spec"]["template"])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"], "spec": template["spec"]}


def test_our_own_handler_is_admitted(admission, pod):
    assert admission.refusals(pod) == []


def test_another_runtime_is_not_its_business(admission, files):
    template = item(files, "Deployment", "drawn-gate")["spec"]["template"]
    assert admission.refusals({"spec": template["spec"]}) is None


def container(change):
    return lambda spec: change(spec["containers"][0])


CHANGES = [
    ("no-new-privileges", container(lambda c: c["securityContext"].update(allowPrivilegeEscalation=True))),
    ("no-new-privileges", container(lambda c: c.pop("securityContext"))),
    ("capabilities", container(lambda c: c["securityContext"].update(privileged=True))),
    ("capabilities", container(lambda c: c["securityContext"]["capabilities"].update(add=["NET_RAW"]))),
    ("capabilities", container(lambda c: c["securityContext"].update(capabilities={"drop": ["CHOWN"]}))),
    ("root-readonly", container(lambda c: c["securityContext"].pop("readOnlyRootFilesystem"))),
    ("memory", container(lambda c: c["resources"]["limits"].pop("memory"))),
    ("memory", container(lambda c: c.pop("resources"))),
    ("cpu", container(lambda c: c["resources"]["limits"].pop("cpu"))),
    ("network", lambda s: s.update(hostNetwork=True)),
    ("namespace", lambda s: s.update(hostPID=True)),
    ("namespace", lambda s: s.update(hostIPC=True)),
    ("memory", lambda s: s.update(initContainers=[{"name": "i", "image": "x"}])),
    ("memory", lambda s: s.update(ephemeralContainers=[{"name": "debug", "image": "x"}])),
]


@pytest.mark.parametrize("rule,change", CHANGES, ids=["%d-%s" % (i, r) for i, (r, c) in enumerate(CHANGES)])
def test_each_change_is_refused_by_its_rule(admission, pod, rule, change):
    change(pod["spec"])
    assert rule in admission.refusals(pod)


def test_a_host_path_and_an_account_token_are_refused(admission, pod):
    pod["spec"]["volumes"].append({"name": "host", "hostPath": {"path": "/"}})
    pod["spec"].pop("automountServiceAccountToken")
    assert admission.refusals(pod) == ["bind-source", "service-account"]


def test_the_data_proxy_is_in_every_output(files):
    compose = files["compose"]
    assert set(compose["services"]) == {"handler", "gate", "data"}
    assert set(compose["services"]["data"]["networks"]) == {"internal", "egress"}
    assert set(compose["services"]["handler"]["networks"]) == {"internal"}
    address = compose["services"]["data"]["networks"]["internal"]["ipv4_address"]
    assert compose["services"]["handler"]["extra_hosts"] == ["data:" + address]
    assert files["data"]["listen"] == address + ":80"
    assert files["data"]["gate_uid"] == int(compose["services"]["gate"]["user"].split(":")[0])
    gate = item(files, "Deployment", "drawn-gate")["spec"]["template"]["spec"]
    assert [c["name"] for c in gate["containers"]] == ["gate", "data"]
    names = {v["name"] for v in gate["volumes"]}
    for part in gate["containers"]:
        assert {m["name"] for m in part["volumeMounts"]} <= names
    data = json.loads(item(files, "ConfigMap", "drawn-data")["data"]["data.json"])
    port = int(data["listen"].split(":")[1])
    assert item(files, "Service", "drawn-data")["spec"]["ports"] == [{"port": 80, "targetPort": port}]
    handler = item(files, "Deployment", "drawn-handler")["spec"]["template"]["spec"]
    assert handler["hostAliases"] == [{"ip": item(files, "Service", "drawn-data")["spec"]["clusterIP"], "hostnames": ["data"]}]
    egress = item(files, "NetworkPolicy", "drawn-handler")["spec"]["egress"]
    assert [rule["ports"] for rule in egress] == [[{"port": port}]]
    assert [rule["ports"][0]["port"] for rule in item(files, "NetworkPolicy", "drawn-gate")["spec"]["ingress"]] == [8402, port]


def test_the_private_key_and_the_credential_reach_who_needs_them_only(files):
    assert "sk-upstream" not in json.dumps(files)
    gate, data = item(files, "Deployment", "drawn-gate")["spec"]["template"]["spec"]["containers"]
    mounted = lambda c: {m["name"] for m in c["volumeMounts"]}
    assert "data-key" in mounted(gate) and "data-key" not in mounted(data)
    assert "upstreams" in mounted(data) and "upstreams" not in mounted(gate)
    handler = item(files, "Deployment", "drawn-handler")["spec"]["template"]["spec"]
    assert mounted(handler["containers"][0]) == {"tmp"}


def test_the_programs_themselves_take_their_configurations(rig, files):
    for name, program in (("gate", "utter-gate"), ("data", "utter-dataproxy")):
        got = rig.run(rig.bin + "/" + program, "check", rig.write("drawn-%s.json" % name, files[name]))
        faults = got.returncode and [l for l in (got.stdout + got.stderr).split("\n")
                  if l and not l.startswith("warning:") and not l.endswith((" fault", " faults"))]
        # what lies in the container only is absent here; nothing else is wrong with it
        assert not faults or all("/run/utter" in l or "/var/lib/utter" in l for l in faults), faults


def test_cni_plugins_take_their_lists(rig, files):
    """ADD and DEL of each list's plugins through the plugins themselves is what `up` does; here their form."""
    lists = files["cni"] if isinstance(files["cni"], list) else list(files["cni"].values())
    for conflist in lists:
        for plugin in conflist["plugins"]:
            got = rig.run("env", "CNI_COMMAND=VERSION", "/usr/lib/cni/" + plugin["type"])
            assert conflist["cniVersion"] in json.loads(got.stdout)["supportedVersions"]
