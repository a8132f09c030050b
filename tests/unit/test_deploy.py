"""What the operator may do is written twice, here and in deploy/: a new right needs a reason."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from et_contract import paths
from et_contract.pods import MAX_JOB_NAME
from et_kube.notices import LEAVING_ADVISED, LEAVING_AT, LEAVING_REASON, MAX_WORDS
from et_notices.choosing import CLOUDS
from et_notices.telling import REFUSAL
from et_operator.assembly import WATCHED
from et_operator.codec.decoding import decode_job
from et_operator.codec.encoding import encode_rules
from et_operator.model.names import MAX_BEGINNING, build_role_prefix
from et_operator.planning.manifests.access import build_rights
from et_operator.settings import Settings
from et_scheduler.settings import Settings as SchedulerSettings
from et_scheduler.state.store import Store
from tests.makers import make_job

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm"
GROUP = "kai.alibabacloud.com"
NAMES = ("et-scheduler", "et-operator")
"""Of the two programs."""

WATCH = {"list", "watch"}
READ = {"get"} | WATCH
RIGHTS = {
    (GROUP, "trainingjobs"): READ | {"patch", "delete"},
    (GROUP, "scaleins"): READ | {"patch", "delete"},
    (GROUP, "scaleouts"): READ | {"patch", "delete"},
    (GROUP, "trainingjobs/status"): {"patch"},
    (GROUP, "scaleins/status"): {"patch"},
    (GROUP, "scaleouts/status"): {"patch"},
    ("", "pods"): READ | {"create", "delete"},
    ("", "pods/exec"): {"get", "create"},
    ("", "configmaps"): READ | {"create", "patch", "delete"},
    ("", "secrets"): {"create"},
    ("", "serviceaccounts"): READ | {"create"},
    ("rbac.authorization.k8s.io", "roles"): READ | {"create", "patch"},
    ("rbac.authorization.k8s.io", "rolebindings"): READ | {"create", "patch"},
    ("networking.k8s.io", "networkpolicies"): READ | {"create"},
    ("", "nodes"): WATCH,
    ("events.k8s.io", "events"): {"create", "patch"},
}


def load_all() -> list[dict[str, Any]]:
    return [
        document
        for path in sorted(DEPLOY.rglob("*.yaml"))
        if not path.is_relative_to(CHART)  # templates; tests/packaging compares what they say
        for document in yaml.safe_load_all(path.read_text())
    ]


def find(kind: str, name: str = "et-operator") -> dict[str, Any]:
    [found] = [d for d in load_all() if d["kind"] == kind and d["metadata"]["name"] == name]
    return found


def spread(rules: list[dict[str, Any]]) -> dict[tuple[str, str], set[str]]:
    rights: dict[tuple[str, str], set[str]] = {}
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                rights.setdefault((group, resource), set()).update(rule["verbs"])
    return rights


def test_the_rights_are_these_and_no_more():
    assert spread(find("ClusterRole")["rules"]) == RIGHTS


def test_whatever_is_watched_may_be_watched():
    for resource in WATCHED:
        assert RIGHTS[resource.group, resource.plural] >= WATCH


def test_the_operator_holds_what_it_grants_to_brokers():
    rules = encode_rules(build_rights(decode_job(make_job()), ["w-0"]))
    for (group, resource), verbs in spread(rules).items():
        assert RIGHTS[group, resource] >= verbs


def test_the_lease_is_the_one_of_the_settings():
    create, use = find("Role", "et-operator-leader")["rules"]
    assert create["verbs"] == ["create"]
    assert use["verbs"] == ["get", "patch"]
    settings = Settings(broker_image="x")
    assert use["resourceNames"] == [settings.lease_name]
    assert find("Role", "et-operator-leader")["metadata"]["namespace"] == settings.own_namespace


def test_a_viewer_may_change_nothing():
    rights = spread(find("ClusterRole", "trainingjobs-view")["rules"])
    assert all(verbs <= READ for verbs in rights.values())


def test_an_editor_may_not_write_a_status():
    rights = spread(find("ClusterRole", "trainingjobs-edit")["rules"])
    assert not any(resource.endswith("/status") for _, resource in rights)
    assert rights[GROUP, "trainingjobs/scale"] == {"update", "patch"}


def test_the_operators_pod_is_restricted():
    pod = find("Deployment")["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_a_service_beside_the_operator_is_no_setting():
    # a Service called "http" would come as HTTP_PORT=tcp://...
    assert find("Deployment")["spec"]["template"]["spec"]["enableServiceLinks"] is False


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_a_drain_waits_for_one_replica_at_a_time_and_for_none_that_is_not_ready(name: str):
    spec = find("PodDisruptionBudget", name)["spec"]
    assert (spec["maxUnavailable"], spec["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")
    assert spec["selector"] == find("Deployment", name)["spec"]["selector"]


def test_the_schedulers_replicas_are_kept_apart_as_the_operators():
    ours, theirs = (
        yaml.safe_load((DEPLOY / "components" / name / "kustomization.yaml").read_text())
        for name in ("scheduler-high-availability", "high-availability")
    )
    [one], [other] = ours["patches"], theirs["patches"]
    assert one["patch"].replace("name: et-scheduler", "name: et-operator") == other["patch"]


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_whatever_selects_the_pods_of_a_program_finds_them(name: str):
    labels = find("Deployment", name)["spec"]["template"]["metadata"]["labels"]
    assert find("Service", name)["spec"]["selector"].items() <= labels.items()
    monitor = find("ServiceMonitor", name)
    assert monitor["spec"]["selector"]["matchLabels"] == find("Service", name)["metadata"]["labels"]
    [port] = find("Service", name)["spec"]["ports"]
    assert [end["port"] for end in monitor["spec"]["endpoints"]] == [port["name"]]


def test_the_broker_is_the_operators_image():
    [container] = find("Deployment")["spec"]["template"]["spec"]["containers"]
    environment = {item["name"]: item.get("value") for item in container["env"]}
    assert environment["BROKER_IMAGE"] == container["image"]


def test_the_policy_pins_the_one_command_that_brokers_send():
    [validation] = find("ValidatingAdmissionPolicy", "et-operator-exec")["spec"]["validations"]
    command = ", ".join(f"'{word}'" for word in paths.BRIDGE_COMMAND)
    assert f"[{command}]" in validation["expression"]


def test_the_policy_about_the_operator_is_about_the_account_that_it_has():
    [condition] = find("ValidatingAdmissionPolicy", "et-operator-self")["spec"]["matchConditions"]
    binding = find("ClusterRoleBinding")
    [subject] = binding["subjects"]
    name = f"system:serviceaccount:{subject['namespace']}:{subject['name']}"
    assert condition["expression"] == f"request.userInfo.username == '{name}'"


def test_the_policy_about_the_operator_looks_at_every_kind_that_it_may_create():
    validations = find("ValidatingAdmissionPolicy", "et-operator-self")["spec"]["validations"]
    [text] = [v["expression"] for v in validations if "isOfJob" in v["expression"]]
    created = {plural for (_, plural), verbs in RIGHTS.items() if "create" in verbs}
    assert created - {"pods/exec", "events"} == {p for p in created if f"'{p}'" in text}


def test_the_policy_about_the_operator_lets_it_grant_what_brokers_need_and_no_more():
    validations = find("ValidatingAdmissionPolicy", "et-operator-self")["spec"]["validations"]
    [text] = [v["expression"] for v in validations if "r.resourceNames.all" in v["expression"]]
    said = re.findall(
        r"r\.resources == \['([^']+)'\] && r\.verbs(?:\.all\(v, v in| ==) \[([^]]+)\]\)?\s+"
        r"&& r\.resourceNames\.all\(n, n\.matches\('([^']+)'\)\)",
        text,
    )
    rules = encode_rules(build_rights(decode_job(make_job()), ["train-worker-0"]))
    assert len(said) == len(rules)
    for rule, (resource, verbs, names) in zip(rules, said, strict=True):
        assert rule["resources"] == [resource]
        assert rule["verbs"] == re.findall(r"\w+", verbs)
        assert all(re.search(names, name) for name in rule["resourceNames"])
        assert not any(re.search(names, name) for name in ("database", "workers-0", "train"))


def test_the_policy_about_the_operator_lets_it_bind_the_roles_of_jobs_and_no_others():
    validations = find("ValidatingAdmissionPolicy", "et-operator-self")["spec"]["validations"]
    [text] = [v["expression"] for v in validations if "roleRef" in v["expression"]]
    [pattern] = re.findall(r"roleRef\.name\.matches\('([^']+)'\)", text)
    # what the server makes of a generateName, and what Roles of running jobs were called before
    long = build_role_prefix("j" * MAX_JOB_NAME)[:MAX_BEGINNING]
    for name in (f"{build_role_prefix('job')}x7k2p", f"{long}x7k2p", "job-launcher"):
        assert re.search(pattern, name)
    for name in ("deployer", "launcher-admin", "job-launcher-x7k2p-more"):
        assert not re.search(pattern, name)


SCHEDULERS_RIGHTS = {
    ("", "pods"): WATCH,
    ("", "nodes"): WATCH,
    ("", "namespaces"): WATCH,
    ("scheduling.k8s.io", "priorityclasses"): WATCH,
    (GROUP, "trainingjobs"): READ,
    (GROUP, "trainingqueues"): WATCH,
    (GROUP, "trainingjobs/status"): {"patch"},
    (GROUP, "trainingqueues/status"): {"patch"},
    ("events.k8s.io", "events"): {"create", "patch"},
}


def test_the_schedulers_rights_are_these_and_no_more():
    assert spread(find("ClusterRole", "et-scheduler")["rules"]) == SCHEDULERS_RIGHTS
    for resource in Store().tables:
        assert SCHEDULERS_RIGHTS[resource.group, resource.plural] >= WATCH


def test_the_schedulers_lease_is_the_one_of_its_settings():
    _, use = find("Role", "et-scheduler-leader")["rules"]
    settings = SchedulerSettings()
    assert use["resourceNames"] == [settings.lease_name]
    assert find("Role", "et-scheduler-leader")["metadata"]["namespace"] == settings.own_namespace


def test_the_schedulers_policy_is_about_the_account_that_it_has_and_all_that_it_writes():
    policy = find("ValidatingAdmissionPolicy", "et-scheduler-self")["spec"]
    [condition] = policy["matchConditions"]
    account = "system:serviceaccount:et-operator:et-scheduler"
    assert condition["expression"] == f"request.userInfo.username == '{account}'"
    text = policy["validations"][0]["expression"]
    written = {key for key, verbs in SCHEDULERS_RIGHTS.items() if "patch" in verbs}
    places = {f"{group}/{plural}" for group, plural in written}
    assert all(f"'{place}" in text for place in places)


def test_the_schedulers_pod_is_as_restricted_as_the_operators():
    ours, theirs = (find("Deployment", name)["spec"]["template"]["spec"] for name in NAMES)
    assert ours["securityContext"] == theirs["securityContext"]
    assert ours["enableServiceLinks"] is False
    [one], [other] = ours["containers"], theirs["containers"]
    for field in ("securityContext", "image", "readinessProbe", "livenessProbe"):
        assert one[field] == other[field]
    assert one["command"] == ["python3", "-m", "et_scheduler"]


def test_who_brings_notices_may_patch_nodes_and_no_more():
    assert spread(find("ClusterRole", "et-notices")["rules"]) == {("", "nodes"): {"patch"}}


@pytest.mark.long
def test_the_policy_about_notices_is_about_the_account_that_patches_and_says_what_is_looked_for():
    policy = find("ValidatingAdmissionPolicy", "et-notices-self")["spec"]
    [subject] = find("ClusterRoleBinding", "et-notices")["subjects"]
    account = f"system:serviceaccount:{subject['namespace']}:{subject['name']}"
    [condition] = policy["matchConditions"]
    assert condition["expression"] == f"request.userInfo.username == '{account}'"
    assert policy["failurePolicy"] == "Fail"
    assert {rule["message"] for rule in policy["validations"]} == {REFUSAL}
    [binding] = [d for d in load_all() if d.get("spec", {}).get("policyName") == "et-notices-self"]
    assert binding["spec"]["validationActions"] == ["Deny"]


def test_the_policy_about_notices_leaves_it_the_annotations_that_it_writes():
    policy = find("ValidatingAdmissionPolicy", "et-notices-self")["spec"]
    [own] = [v["expression"] for v in policy["variables"] if v["name"] == "own"]
    assert re.findall(r"'([^']+)'", own) == [LEAVING_AT, LEAVING_REASON, LEAVING_ADVISED]
    words = policy["validations"][2]["expression"]
    assert f"size(variables.will[key]) <= {MAX_WORDS}" in words
    same = "key in variables.was && variables.will[key] == variables.was[key]"
    asked = words.partition("variables.will.all(")[2]
    assert asked.startswith(f"key, ({same}) || "), "what others have written is as long as it is"


def test_what_stands_in_a_policy_is_not_called_as_what_the_chart_gives_a_releases_name():
    """A condition's name has 63 characters at most, and a release's may have nearly as many."""
    policies = [d["spec"] for d in load_all() if d["kind"] == "ValidatingAdmissionPolicy"]
    fields = ("matchConditions", "variables")
    names = [one["name"] for spec in policies for key in fields for one in spec.get(key, ())]
    assert names
    assert [name for name in names if name.startswith("et-")] == []


def test_who_brings_notices_is_on_the_hosts_network_and_else_as_restricted_as_the_operator():
    ours = find("Deployment")["spec"]["template"]["spec"]
    theirs = find("DaemonSet", "et-notices")["spec"]["template"]["spec"]
    assert theirs["securityContext"] == ours["securityContext"]
    assert theirs["enableServiceLinks"] is False
    assert theirs["hostNetwork"] is True
    [one], [other] = ours["containers"], theirs["containers"]
    assert other["command"] == ["python3", "-m", "et_notices"]
    assert "ports" not in other, "they would be the node's"
    for field in ("securityContext", "image"):
        assert one[field] == other[field]
    assert not {"volumes", "hostPID", "hostIPC"} & set(theirs)


def test_the_chart_knows_the_clouds_that_are_known():
    schema = json.loads((CHART / "et-operator" / "values.schema.json").read_text())
    settings = schema["properties"]["cloudNotices"]["properties"]["settings"]["properties"]
    assert settings["CLOUD"]["enum"] == ["", *CLOUDS]


@pytest.mark.parametrize(
    "path", sorted(DEPLOY.rglob("kustomization.yaml")), ids=lambda p: str(p.relative_to(DEPLOY))
)
def test_every_file_of_a_kustomization_is_there(path: Path):
    for name in yaml.safe_load(path.read_text()).get("resources", ()):
        target = path.parent / name
        assert (target / "kustomization.yaml" if target.is_dir() else target).is_file()


def test_the_installation_has_every_definition():
    crds = ROOT / "crds"
    listed = yaml.safe_load((crds / "kustomization.yaml").read_text())["resources"]
    assert {path.name for path in crds.glob("*.yaml")} == {*listed, "kustomization.yaml"}


@pytest.mark.parametrize("path", [ROOT / "Dockerfile", *ROOT.glob("examples/images/*/Dockerfile")])
def test_what_pip_installs_in_an_image_is_known_by_its_hash(path: Path):
    text = path.read_text().replace("\\\n", " ")
    installs = re.findall(r"pip install[^&\n]*", text)
    assert installs
    assert all("--require-hashes" in command for command in installs)
