from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from et_contract import names, paths
from et_contract.documents import HostConfig, Member, MemberState
from et_kube.resources import PODS
from et_operator.assembly import read_runtime
from et_operator.codec.children import decode_bound_role, is_sealed
from et_operator.codec.encoding import encode_config_data, encode_rules
from et_operator.model.actions import Create
from et_operator.model.jobs import TrainingJob
from et_operator.model.names import build_seal
from et_operator.model.specs import AttachMode, JobSpec, LossRecovery, WorkerSpec
from et_operator.model.statuses import Runtime
from et_operator.planning.manifests.access import build_no_rights, build_role, build_role_binding
from et_operator.planning.manifests.launcher import build_launcher
from et_operator.planning.manifests.networks import build_network_policy
from et_operator.planning.manifests.notices import TELLS_OF_NOTICES
from et_operator.planning.manifests.runtimes import build_runtime
from et_operator.planning.manifests.workers import build_worker, call_worker
from et_operator.settings import Settings
from launcher import boot
from tests.planning_makers import ModelWorld, make_job, make_shipped, make_template

RUNTIME = Runtime("d1", "broker:1", TELLS_OF_NOTICES)


def make_worker(template: dict[str, Any]) -> dict[str, Any]:
    worker = WorkerSpec(template=template)
    common = build_worker(make_job(), worker, epoch=2, runtime=RUNTIME)
    return dict(call_worker(make_job(), common, "job-worker-3"))


def make_launcher(
    template: dict[str, Any] | None = None, pull_secrets: tuple[str, ...] = ()
) -> dict[str, Any]:
    job = make_job()
    assert job.spec is not None
    if template is not None:
        spec = JobSpec(launcher_template=template, worker=job.spec.worker, slots_per_worker=2)
        fields = {f: getattr(job, f) for f in job.__dataclass_fields__}
        job = TrainingJob(**(fields | {"spec": spec}))
    world = ModelWorld(job)
    files = world.shipped.files
    world.shipped = type(world.shipped)(world.shipped.runtime, files, pull_secrets)
    world.step()
    actions = world.step().actions
    pods = [dict(a.manifest) for a in actions if isinstance(a, Create) and a.resource == PODS]
    return next(pod for pod in pods if pod["metadata"]["name"] == "job-launcher")


def env_of(container: dict[str, Any]) -> dict[str, Any]:
    return {e["name"]: e.get("value", e.get("valueFrom")) for e in container["env"]}


# ------------------------------------------------------------------ workers
def test_the_agent_is_in_front_of_the_workers_command() -> None:
    container = make_worker(make_template(command=["sleep"], args=["1"]))["spec"]["containers"][0]
    assert container["command"] == [
        *("python3", "-I", "-S", paths.BOOT, "agent", "--", "sleep", "1")
    ]
    assert "args" not in container


def test_a_worker_without_a_command_has_the_agent_alone() -> None:
    container = make_worker(make_template())["spec"]["containers"][0]
    assert container["command"][-2:] == ["agent", "--"]


def test_worker_defaults() -> None:
    pod = make_worker(make_template())
    spec = pod["spec"]
    assert pod["metadata"]["name"] == "job-worker-3"
    assert pod["metadata"]["labels"]["replica-index"] == "3"
    assert pod["metadata"]["labels"]["training-job-role"] == "worker"
    assert spec["restartPolicy"] == "Never"
    assert spec["terminationGracePeriodSeconds"] == 60
    assert spec["enableServiceLinks"] is False
    assert spec["automountServiceAccountToken"] is False
    assert {t["tolerationSeconds"] for t in spec["tolerations"]} == {60}
    [owner] = pod["metadata"]["ownerReferences"]
    assert owner["controller"] is True
    assert "blockOwnerDeletion" not in owner


def test_a_worker_has_annotations_of_its_own_beside_those_of_all() -> None:
    template = {"metadata": {"annotations": {"mine": "x"}}, **make_template()}
    common = build_worker(make_job(), WorkerSpec(template=template), epoch=2, runtime=RUNTIME)
    pod = call_worker(make_job(), common, "job-worker-3", {"own": "3"})
    shared = common["metadata"]["annotations"]
    assert (shared["mine"], "own" in shared) == ("x", False)
    assert pod["metadata"]["annotations"] == {**shared, "own": "3"}


def test_a_template_has_its_own_way() -> None:
    template = make_template(env=[{"name": "A", "value": "b"}])
    template["metadata"] = {"labels": {"mine": "x", "training-job-role": "lie"}}
    template["spec"] |= {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 5,
        "enableServiceLinks": True,
        "serviceAccountName": "cloud",
        "tolerations": [
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
        ],
    }
    before = str(template)
    pod = make_worker(template)
    spec = pod["spec"]
    assert str(template) == before
    assert pod["metadata"]["labels"]["mine"] == "x"
    assert pod["metadata"]["labels"]["training-job-role"] == "worker"
    assert spec["restartPolicy"] == "Never"
    assert spec["terminationGracePeriodSeconds"] == 5
    assert spec["enableServiceLinks"] is True
    assert "automountServiceAccountToken" not in spec
    assert [t["key"] for t in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    env = env_of(spec["containers"][0])
    assert env["A"] == "b"
    assert env[names.ENV_GRACE] == "5"
    assert env[names.ENV_EPOCH] == "2"
    assert env[names.ENV_POD_UID] == {"fieldRef": {"fieldPath": "metadata.uid"}}


def test_no_container_is_started_anew_in_its_pod() -> None:
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}]
    anew = {"restartPolicy": "OnFailure", "restartPolicyRules": rules}
    template = make_template(command=["horovodrun"], **anew)
    template["spec"]["containers"].append({"name": "beside", "image": "x", **anew})
    sidecar = {"name": "mesh", "image": "x", "restartPolicy": "Always"}
    template["spec"]["initContainers"] = [{**sidecar, "restartPolicyRules": rules}]
    before = str(template)
    for pod in (make_worker(template), make_launcher(template)):
        spec = pod["spec"]
        assert not any(anew.keys() & container.keys() for container in spec["containers"])
        assert len(spec["containers"]) == 2
        assert sidecar in spec["initContainers"]
    assert str(template) == before


def test_a_template_that_tolerates_everything_needs_no_more() -> None:
    template = make_template()
    template["spec"]["tolerations"] = [{"operator": "Exists"}]
    assert make_worker(template)["spec"]["tolerations"] == [{"operator": "Exists"}]


def test_the_runtime_is_mounted_flat() -> None:
    spec = make_worker(make_template())["spec"]
    [volume] = [v for v in spec["volumes"] if v["name"] == paths.RUNTIME_VOLUME]
    assert volume["configMap"] == {"name": "edl-runtime-d1"}
    data = build_runtime("ns", make_shipped())["data"]
    assert all(re.fullmatch(r"[-._a-zA-Z0-9]+", key) for key in data)
    assert f"{paths.RUNTIME_DIR}/{next(key for key in data if 'boot' in key)}" == paths.BOOT


def test_boot_gives_the_shipped_files_their_paths_again(tmp_path: Path) -> None:
    shipped = read_runtime(Settings(broker_image="broker:1"))
    source = tmp_path / "src"
    source.mkdir()
    for key, text in build_runtime("ns", shipped)["data"].items():
        (source / key).write_text(text)
    boot.install(str(source), str(tmp_path / "lib"))
    found = [path for path in (tmp_path / "lib").rglob("*") if path.is_file()]
    assert {
        str(path.relative_to(tmp_path / "lib")): path.read_text() for path in found
    } == shipped.files


def test_every_mount_has_its_volume() -> None:
    for pod in (make_worker(make_template()), make_launcher()):
        volumes = [v["name"] for v in pod["spec"]["volumes"]]
        assert len(volumes) == len(set(volumes))
        for container in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())):
            paths = [m["mountPath"] for m in container["volumeMounts"]]
            assert len(paths) == len(set(paths))
            assert {m["name"] for m in container["volumeMounts"]} <= set(volumes)


def test_a_worker_has_a_place_for_its_notice_which_its_agent_knows() -> None:
    pod = make_worker(make_template())
    container = pod["spec"]["containers"][0]
    assert env_of(container)[names.ENV_NOTICE] == "/etc/edl/notice" == paths.NOTICE_FILE
    assert {"name": paths.EDL_VOLUME, "mountPath": paths.EDL_DIR} in container["volumeMounts"]
    assert {"name": paths.EDL_VOLUME, "emptyDir": {}} in pod["spec"]["volumes"]


def test_the_agent_of_a_former_runtime_has_no_such_place() -> None:
    former = replace(RUNTIME, version=TELLS_OF_NOTICES - 1)
    worker = WorkerSpec(make_template())
    pod = build_worker(make_job(), worker, epoch=2, runtime=former)
    assert paths.EDL_VOLUME not in {volume["name"] for volume in pod["spec"]["volumes"]}
    assert env_of(pod["spec"]["containers"][0])[names.ENV_NOTICE] == ""


@pytest.mark.parametrize(
    "path", ["/etc/edl", "/etc/edl/", "/etc//edl", "/etc/./edl", "//etc/edl", "etc/edl"]
)
def test_what_a_worker_mounts_there_stays_its_own(path: str) -> None:
    mount = {"name": "mine", "mountPath": path}
    variable = {"name": names.ENV_NOTICE, "value": "/data/mine"}
    template = make_template(volumeMounts=[mount], env=[variable])
    template["spec"]["volumes"] = [{"name": "mine", "emptyDir": {}}]
    spec = make_worker(template)["spec"]
    mounts = spec["containers"][0]["volumeMounts"]
    assert [m for m in mounts if m["mountPath"] in {path, paths.EDL_DIR}] == [mount]
    assert paths.EDL_VOLUME not in {volume["name"] for volume in spec["volumes"]}
    assert env_of(spec["containers"][0])[names.ENV_NOTICE] == "", "nothing is written anywhere"


@pytest.mark.parametrize("name", ["job", "job-worker-x", "job-worker-07", "other-worker-3"])
def test_a_worker_is_called_after_its_job_or_not_made(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        call_worker(make_job(), make_worker(make_template()), name)


# ------------------------------------------------------------------ launcher
def test_the_launchers_command_runs_behind_our_pid_one() -> None:
    pod = make_launcher()
    container = pod["spec"]["containers"][0]
    assert container["command"][4:] == ["launch", "--", "horovodrun", "python", "train.py"]
    assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"
    assert pod["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] == "true"
    assert pod["metadata"]["annotations"]["kai.alibabacloud.com/container"] == "main"
    assert pod["metadata"]["annotations"]["kai.alibabacloud.com/least-workers"] == "0"
    assert env_of(container)[names.ENV_MIN_SLOTS] == "2"
    assert env_of(container)[names.ENV_LAUNCHER] == "other"


def test_the_command_is_passed_as_the_list_that_it_is() -> None:
    words = ["horovodrun", "sh -c", "echo a; id", "", "$(id)", "*", "'", "a\nb"]
    template = make_template(command=words[:1], args=words[1:])
    for pod, verb in ((make_launcher(template), "launch"), (make_worker(template), "agent")):
        container = pod["spec"]["containers"][0]
        assert container["command"][4:] == [verb, "--", *words]


def test_the_launcher_prefers_nodes_that_nobody_takes_back_unless_its_template_chooses() -> None:
    [preference] = make_launcher()["spec"]["affinity"]["nodeAffinity"].pop(
        "preferredDuringSchedulingIgnoredDuringExecution"
    )
    expressions = preference["preference"]["matchExpressions"]
    assert {e["key"] for e in expressions} >= {
        "karpenter.sh/capacity-type",
        "cloud.google.com/gke-spot",
    }
    assert {e["operator"] for e in expressions} == {"NotIn", "DoesNotExist"}
    template = make_template(command=["horovodrun"])
    own = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"x": 1}}}
    template["spec"]["affinity"] = own
    assert make_launcher(template)["spec"]["affinity"] == own
    template["spec"]["affinity"] = {"podAffinity": {"x": 1}}
    assert make_launcher(template)["spec"]["affinity"].keys() == {"podAffinity", "nodeAffinity"}


def test_the_launcher_hears_that_losses_are_to_cost_seconds_unless_its_author_waits() -> None:
    container = make_launcher()["spec"]["containers"][0]
    assert env_of(container)[names.ENV_LOSSES] == names.FAST
    job = make_job()
    assert job.spec is not None
    spec = replace(job.spec, loss_recovery=LossRecovery.WAIT)
    waiting = build_launcher(job, spec, status=job.status, runtime=RUNTIME)
    assert names.ENV_LOSSES not in str(waiting)


def test_the_broker_alone_holds_a_token_and_is_restricted() -> None:
    pod = make_launcher(pull_secrets=("registry",))
    spec = pod["spec"]
    [broker] = spec["initContainers"]
    assert broker["image"] == "broker:1"
    assert broker["restartPolicy"] == "Always"
    assert broker["securityContext"]["runAsNonRoot"] is True
    assert broker["securityContext"]["readOnlyRootFilesystem"] is True
    assert broker["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert spec["automountServiceAccountToken"] is False
    assert spec["serviceAccountName"] == "job-launcher"
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    mounted = {m["name"] for m in spec["containers"][0]["volumeMounts"]}
    assert paths.TOKEN_VOLUME not in mounted
    assert paths.TOKEN_VOLUME in {m["name"] for m in broker["volumeMounts"]}
    assert {"name": "SSL_CERT_FILE", "value": "/dev/null"} in broker["env"]


def test_the_launchers_own_account_annotations_and_paths_are_kept() -> None:
    template = make_template(
        command=["run"],
        env=[{"name": "MY", "value": "1"}],
        volumeMounts=[{"name": "data", "mountPath": "/job/"}],
        terminationMessagePolicy="File",
    )
    template["metadata"] = {"annotations": {"karpenter.sh/do-not-disrupt": "false"}}
    template["spec"] |= {
        "serviceAccountName": "cloud",
        "volumes": [{"name": "data", "emptyDir": {}}],
        "initContainers": [{"name": "fetch", "image": "x", "volumeMounts": []}],
    }
    pod = make_launcher(template)
    spec = pod["spec"]
    container = spec["containers"][0]
    assert spec["serviceAccountName"] == "cloud"
    assert pod["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] == "false"
    assert container["terminationMessagePolicy"] == "File"
    assert [m["mountPath"] for m in container["volumeMounts"] if m["name"] == "data"] == ["/job/"]
    assert paths.JOB_VOLUME not in {v["name"] for v in spec["volumes"]}
    assert [c["name"] for c in spec["initContainers"]] == [names.BROKER_CONTAINER, "fetch"]
    assert env_of(container)[names.ENV_KEEP] == "MY"
    assert env_of(container)[names.ENV_SLOTS] == "2"


# ------------------------------------------------------------------ access and hosts
def test_the_role_grants_no_more_than_its_job_needs() -> None:
    rules = build_role(make_job(), ["job-worker-7", "job-worker-3"])["rules"]
    granted = {(r["resources"][0], v): r["resourceNames"] for r in rules for v in r["verbs"]}
    seal = f"-{make_job().uid}"
    assert granted == {
        ("pods/exec", "get"): [seal, "-job-worker", "job-worker-3", "job-worker-7"],
        ("pods/exec", "create"): [seal, "-job-worker", "job-worker-3", "job-worker-7"],
        ("configmaps", "get"): [seal, "job-config"],
        ("configmaps", "watch"): [seal, "job-config"],
        ("configmaps", "patch"): [seal, "job-report"],
    }
    assert not re.fullmatch(r"[a-z0-9].*", seal), "an object could be called so"
    binding = build_role_binding(make_job(), "job-launcher-x", {"job-launcher"})
    assert binding["subjects"][0]["name"] == "job-launcher"
    assert decode_bound_role(binding) == "job-launcher-x"


def test_a_role_and_its_binding_have_no_names_that_anybody_could_have_taken_before() -> None:
    job = make_job()
    for manifest in (build_role(job, []), build_role_binding(job, "job-launcher-x", {"me"})):
        metadata = manifest["metadata"]
        assert "name" not in metadata
        assert metadata["generateName"] == "job-launcher-"


def test_a_role_that_grants_nothing_can_be_bound_by_nobody() -> None:
    job = make_job()
    rules = encode_rules(build_no_rights(job))
    assert {name for rule in rules for name in rule["resourceNames"]} == {f"-{job.uid}"}
    assert is_sealed({"rules": rules}, job.uid)
    assert is_sealed(build_role(job, ["job-worker-0"]), job.uid)
    for weaker in ([], rules[1:], [{**rules[0], "verbs": ["get"]}, *rules[1:]]):
        assert not is_sealed({"rules": weaker}, job.uid)
    assert not is_sealed({"rules": rules}, "another")
    assert not is_sealed({"rules": [{**r, "apiGroups": ["apps"]} for r in rules]}, job.uid)


class Counted(list[str]):
    """A list that counts how many of its items were looked at."""

    looks = 0

    def __iter__(self) -> Iterator[str]:
        for item in super().__iter__():
            self.looks += 1
            yield item


def test_a_role_is_not_looked_at_as_often_as_it_has_verbs_for_resources() -> None:
    resources = Counted(f"resources{n}" for n in range(300))
    verbs = Counted(f"verb{n}" for n in range(300))
    seal = build_seal("job-uid")
    rule = {"apiGroups": [""], "resourceNames": [seal], "resources": resources, "verbs": verbs}
    assert not is_sealed({"rules": [rule]}, "job-uid")
    assert resources.looks <= 300
    assert verbs.looks <= 300


def test_only_pods_of_the_same_job_reach_its_pods() -> None:
    policy = build_network_policy(make_job())
    mine = {"matchLabels": {"group-name": "kai.alibabacloud.com", "training-job-name": "job"}}
    assert policy["spec"] == {
        "podSelector": mine,
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": mine}]}],
    }
    assert policy["metadata"]["ownerReferences"][0]["uid"] == make_job().uid


@pytest.mark.parametrize("state", list(MemberState))
def test_people_read_the_active_hosts_alone(state: MemberState) -> None:
    members = (
        Member("w-0", "u0", 2, MemberState.ACTIVE, "main"),
        Member("w-1", "u1", 2, state, "main"),
    )
    config = HostConfig("job", "ns", "u", 1, 1, 2, 1, members)
    data = encode_config_data(config)
    count = 2 if state is MemberState.ACTIVE else 1
    assert data["hostfile"].count("slots=2") == count
    assert data["discover_hosts.sh"].count("echo w-") == count


@pytest.mark.parametrize("mode", AttachMode)
def test_pods_share_the_template_and_leave_it_as_it_was(mode: AttachMode) -> None:
    container = {"name": "main", "command": ["a"], "env": [{"name": "A"}], "volumeMounts": []}
    body = {"volumes": [], "tolerations": [], "initContainers": [{"name": "i"}]}
    body["containers"] = [container, {"name": "x"}]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": body}
    before = json.dumps(template)
    job = make_job()
    assert job.spec is not None
    worker = replace(job.spec.worker, template=template)
    spec = replace(job.spec, worker=worker, launcher_template=template, attach_mode=mode)
    job = replace(job, spec=spec)
    runtime = make_shipped().runtime
    call_worker(job, build_worker(job, worker, epoch=1, runtime=runtime), "job-worker-3")
    build_launcher(job, spec, status=replace(job.status, epoch=1), runtime=runtime)
    assert json.dumps(template) == before
