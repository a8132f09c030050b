"""Manifests as people write them become model objects, or a sentence about what to change."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from et_kube.resources import SCALE_OUTS, Ref
from et_operator.codec.decoding import decode_job, decode_scaling
from et_operator.codec.encoding import encode_change, encode_owner
from et_operator.model.actions import AcceptScaling
from et_operator.model.keys import JobKey, Owner
from et_operator.model.scripts import NoticeScript
from et_operator.model.specs import (
    AttachMode,
    CleanPodPolicy,
    LauncherCreation,
    LossRecovery,
    NoticePolicy,
    NoticeSignal,
    RestartPolicy,
    StallPolicy,
)
from et_operator.model.statuses import JobStatus, ScalingKind
from tests.contract.bad_manifests import ALL, Bad, first, job, pod, role
from tests.contract.bad_shapes import BAD_SHAPES
from tests.counting import find_peak
from tests.makers import make_job, make_scale_in, make_scale_out


def decode_spec(manifest: dict[str, Any]):
    decoded = decode_job(manifest)
    assert decoded.invalid == ""
    assert decoded.spec is not None
    return decoded.spec


@pytest.mark.parametrize("bad", [*ALL, *BAD_SHAPES], ids=lambda bad: bad.title)
def test_what_cannot_work_has_a_sentence(bad: Bad):
    is_job = bad.manifest["kind"] == "TrainingJob"
    decoded = decode_job(bad.manifest) if is_job else decode_scaling(bad.manifest)
    assert bad.complaint in decoded.invalid
    assert not is_job or decoded.spec is None


def test_there_are_many_ways_to_be_wrong():
    assert len(ALL) >= 30


def test_a_short_job_has_the_defaults():
    spec = decode_spec(make_job(workers=3))
    assert (spec.worker.replicas, spec.worker.min_replicas, spec.worker.max_replicas) == (
        3,
        None,
        None,
    )
    assert spec.attach_mode is AttachMode.KUBEXEC
    assert spec.launcher_creation is LauncherCreation.AT_STARTUP
    assert spec.clean_pod_policy is CleanPodPolicy.RUNNING
    assert spec.restart_policy is RestartPolicy.NEVER
    assert (spec.slots_per_worker, spec.backoff_limit, spec.suspend) == (1, 6, False)
    assert spec.drain_timeout == timedelta(minutes=10)
    assert spec.active_deadline is spec.ttl_after_finished is None


def test_every_field_is_read():
    manifest = make_job(
        workers=3,
        minReplicas=2,
        maxReplicas=5,
        launcherAttachMode="ssh",
        launcherCreationPolicy="WaitForWorkersReady",
        slotsPerWorker=4,
        cleanPodPolicy="All",
        restartPolicy="OnFailure",
        backoffLimit=0,
        suspend=True,
        activeDeadlineSeconds=60,
        ttlSecondsAfterFinished=0,
        drainTimeoutSeconds=30,
        driverStalledPolicy="Restart",
        lossRecovery="Wait",
        noticePolicy="Eager",
        noticeSignal="SIGUSR2",
        noticeScript={"script": "/job/save.sh", "timeout": 30},
    )
    spec = decode_spec(manifest)
    assert (spec.worker.min_replicas, spec.worker.max_replicas) == (2, 5)
    assert spec.attach_mode is AttachMode.SSH
    assert spec.launcher_creation is LauncherCreation.WAIT_FOR_WORKERS_READY
    assert (spec.slots_per_worker, spec.backoff_limit, spec.suspend) == (4, 0, True)
    assert spec.clean_pod_policy is CleanPodPolicy.ALL
    assert spec.restart_policy is RestartPolicy.ON_FAILURE
    assert spec.active_deadline == timedelta(minutes=1)
    assert spec.ttl_after_finished == timedelta(0)
    assert spec.drain_timeout == timedelta(seconds=30)
    assert spec.stall_policy is StallPolicy.RESTART
    assert spec.loss_recovery is LossRecovery.WAIT
    assert spec.notice_policy is NoticePolicy.EAGER
    assert spec.notice_signal is NoticeSignal.USR2
    assert spec.notice_script == NoticeScript("/job/save.sh", timedelta(seconds=30))


def test_the_identity_is_read_even_of_an_invalid_job():
    manifest = make_job(cleanPodPolicy="Sometimes")
    manifest["metadata"] |= {
        "namespace": "team",
        "uid": "u",
        "resourceVersion": "7",
        "generation": 2,
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "deletionTimestamp": "2026-01-02T03:04:06Z",
    }
    decoded = decode_job(manifest)
    assert decoded.key == JobKey("team", "train")
    assert (decoded.uid, decoded.resource_version, decoded.generation) == ("u", "7", 2)
    assert decoded.created.year == 2026
    assert decoded.deletion_requested


@pytest.mark.parametrize(
    ("limits", "slots"),
    [
        ({"nvidia.com/gpu": "2"}, 2),
        ({"nvidia.com/gpu": 4}, 4),
        ({"amd.com/gpu": "1", "cpu": "8"}, 1),
        ({"alpha.kubernetes.io/nvidia-gpu": "2"}, 2),
        ({"nvidia.com/gpu": "0"}, 1),
        ({"cpu": "8"}, 1),
        (None, 1),
    ],
)
def test_a_worker_has_a_slot_for_each_gpu(limits: dict[str, Any] | None, slots: int):
    manifest = job(lambda spec: first(spec, "worker").update(resources={"limits": limits}))
    assert decode_spec(manifest).slots_per_worker == slots


def test_empty_fields_of_charts_are_as_if_they_were_not_there():
    manifest = make_job()
    manifest["metadata"]["annotations"] = None
    for name in ("launcher", "worker"):
        template = role(manifest["spec"], name)["template"]
        template["metadata"] = None
        template["spec"] |= {"volumes": None, "hostPID": None}
        template["spec"]["containers"][0] |= {"env": None, "resources": {"limits": None}}
    spec = decode_spec(manifest)
    for template in (spec.launcher_template, spec.worker.template):
        assert template["metadata"] == {}
        assert "volumes" not in template["spec"]
        assert "env" not in template["spec"]["containers"][0]
        assert template["spec"]["containers"][0]["resources"] == {}


def test_a_long_name_in_a_template_is_not_there_once_for_each_of_its_values():
    """Nobody knows the field, and the server keeps it."""

    def weigh(length: int) -> int:
        manifest = make_job()
        role(manifest["spec"], "worker")["template"]["n" * length] = [[] for _ in range(5000)]
        return find_peak(lambda: decode_spec(manifest))

    assert weigh(4000) < 1.5 * weigh(2000)


def test_a_worker_may_see_the_node_and_needs_no_command():
    manifest = job(lambda spec: pod(spec, "worker").update(hostPID=True))
    assert "command" not in decode_spec(manifest).worker.template["spec"]["containers"][0]


def test_what_is_ignored_is_named():
    manifest = make_job()
    role(manifest["spec"], "worker")["restartPolicy"] = "OnFailure"
    pod(manifest["spec"], "launcher")["restartPolicy"] = "Always"
    role(manifest["spec"], "launcher")["restartPolicy"] = "Never"
    manifest["metadata"]["annotations"] = {"arena.kubeflow.org/ssh-secret": "keys"}
    warnings = decode_job(manifest).warnings
    assert {warning.kind for warning in warnings} == {"SpecWarning"}
    launcher, worker, secret = (warning.text for warning in warnings)
    assert launcher.startswith("spec.etReplicaSpecs.launcher.template.spec.restartPolicy: Always")
    assert worker.startswith("spec.etReplicaSpecs.worker.restartPolicy: OnFailure is ignored")
    assert "ssh-secret is ignored" in secret


def test_of_what_is_ignored_some_is_named_and_the_rest_counted():
    manifest = make_job()
    template = pod(manifest["spec"], "worker")
    more = [{"name": f"c{number}", "restartPolicy": "Always"} for number in range(60)]
    template["containers"] = [*template["containers"], *more]
    warnings = decode_job(manifest).warnings
    assert len(warnings) == 17
    assert "containers[16].restartPolicy is ignored" in warnings[15].text
    assert warnings[16].text == "44 further fields are ignored, too"


def test_what_would_start_containers_anew_is_ignored_and_named():
    manifest = make_job()
    template = pod(manifest["spec"], "worker")
    rules = [{"action": "RestartAllContainers"}]
    template["containers"][0] |= {"restartPolicy": "OnFailure", "restartPolicyRules": rules}
    template["initContainers"] = [
        {"name": "mesh", "image": "x", "restartPolicy": "Always", "restartPolicyRules": rules}
    ]
    pod(manifest["spec"], "launcher")["containers"][0]["restartPolicy"] = "Never"
    path = "spec.etReplicaSpecs.worker.template.spec"
    end = "is ignored, pods are never restarted in place: use spec.restartPolicy"
    assert [warning.text for warning in decode_job(manifest).warnings] == [
        f"{path}.containers[0].restartPolicy {end}",
        f"{path}.containers[0].restartPolicyRules {end}",
        f"{path}.initContainers[0].restartPolicyRules {end}",
    ]


def test_the_predecessors_annotation_suspends():
    manifest = make_job()
    manifest["metadata"]["annotations"] = {"job-supervisor.kube-ai.io/job-suspended": "true"}
    assert decode_spec(manifest).suspend


@pytest.mark.parametrize(
    ("status", "is_foreign"),
    [
        ({}, False),
        ({"phase": "Running", "conditions": [], "restartCount": 0}, True),
        ({"conditions": [{"type": "Created", "status": "True"}]}, True),
        ({"phase": "Created", "epoch": 0}, False),
        ({"admission": {"number": 1, "state": "Admitted"}}, False),
        ({"observedGeneration": 1, "phase": "Failed"}, False),
    ],
)
def test_a_job_is_foreign_when_only_another_operator_wrote_its_status(
    status: dict[str, Any], is_foreign: bool
):
    assert decode_job(make_job() | {"status": status}).is_foreign is is_foreign


def test_a_decision_that_cannot_be_read_is_named_and_the_rest_is_used():
    status = {"epoch": 3, "phase": "Sleeping", "scaling": {"kind": "Sideways"}}
    decoded = decode_job(make_job() | {"status": status})
    assert decoded.status == JobStatus(epoch=3)
    assert (decoded.invalid, decoded.warnings) == ("", ())
    assert list(decoded.unread) == ["scaling"]  # the phase is for people and computed anew
    assert "status.scaling.kind: is 'Sideways'" in decoded.unread["scaling"]


def test_a_scale_in_by_names_ignores_a_count_of_zero_and_names_said_twice():
    manifest = make_scale_in("in", podNames=["a", "b", "a"], count=0)
    decoded = decode_scaling(manifest)
    assert (decoded.kind, decoded.job_name) == (ScalingKind.IN, "train")
    assert (decoded.count, decoded.pod_names, decoded.invalid) == (None, ("a", "b"), "")


def test_a_scale_out_with_a_script():
    manifest = make_scale_out(
        "out",
        count=2,
        script="/s.sh",
        env=[{"name": "A", "value": "1"}, {"name": "B"}],
        timeout=300,
        backoffLimit=3,
        ttlSecondsAfterFinished=5,
    )
    decoded = decode_scaling(manifest)
    assert (decoded.kind, decoded.count, decoded.script) == (ScalingKind.OUT, 2, "/s.sh")
    assert decoded.env == (("A", "1"), ("B", ""))
    assert (decoded.timeout, decoded.backoff_limit) == (timedelta(minutes=5), 3)
    assert decoded.ttl_after_finished == timedelta(seconds=5)


def test_a_time_out_of_zero_is_none():
    assert decode_scaling(make_scale_out("out", timeout=0)).timeout is None


def test_an_item_of_a_list_has_the_kind_that_it_was_listed_by():
    manifest = {k: v for k, v in make_scale_in("in", count=1).items() if k != "kind"}
    assert decode_scaling(manifest, ScalingKind.IN).count == 1


def test_an_invalid_scaling_still_says_for_which_job():
    assert decode_scaling(make_scale_in("in")).job_name == "train"


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)


def list_paths(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = node.items() if isinstance(node, dict) else ()
    if isinstance(node, list):
        items = enumerate(node)
    return [path, *(p for key, item in items for p in list_paths(item, (*path, key)))]


FULL_JOB = make_job(minReplicas=1, maxReplicas=9, slotsPerWorker=1, suspend=False)
FULL_SCALE_IN = make_scale_in("in", count=1, podNames=["a"], env=[{"name": "A"}], timeout=1)


@pytest.mark.long
@given(st.sampled_from(list_paths(FULL_JOB["spec"])), JUNK)
def test_junk_anywhere_in_a_job_never_raises(path: tuple[Any, ...], junk: Any):
    decoded = decode_job(put({**FULL_JOB}, ("spec", *path), junk))
    assert (decoded.spec is None) == bool(decoded.invalid)


@pytest.mark.long
@given(st.sampled_from(list_paths(FULL_SCALE_IN["spec"])), JUNK)
def test_junk_anywhere_in_a_scaling_never_raises(path: tuple[Any, ...], junk: Any):
    decode_scaling(put({**FULL_SCALE_IN}, ("spec", *path), junk))


@pytest.mark.long
@given(st.dictionaries(st.sampled_from(["epoch", "phase", "scaling", "conditions"]), JUNK))
def test_junk_in_the_status_never_raises(status: dict[str, Any]):
    decode_job(make_job() | {"status": status})


def put(manifest: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(manifest)
    place = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return changed


@pytest.mark.parametrize(
    ("command", "annotations", "launcher"),
    [
        (["mpirun", "-np", "2"], {}, ("mpirun", False)),
        (["sh", "run.sh"], {}, ("other", True)),
        (["sh", "run.sh"], {"kai.alibabacloud.com/launcher": "deepspeed"}, ("deepspeed", False)),
    ],
)
def test_the_launcher_is_read_from_the_command_or_told_by_an_annotation(
    command: list[str], annotations: dict[str, str], launcher: tuple[str, bool]
):
    manifest = make_job()
    manifest["metadata"]["annotations"] = annotations
    role = manifest["spec"]["etReplicaSpecs"]["launcher"]
    role["template"]["spec"]["containers"][0]["command"] = command
    spec = decode_spec(manifest)
    assert (spec.launcher, spec.is_elastic) == launcher


@pytest.mark.parametrize(("minimum", "is_told"), [(None, False), (2, False), (1, True)])
def test_a_command_that_needs_more_than_it_is_started_with_is_told(
    *, minimum: int | None, is_told: bool
):
    manifest = make_job(workers=3, slotsPerWorker=2, minReplicas=minimum)
    role = manifest["spec"]["etReplicaSpecs"]["launcher"]
    script = "/etc/edl/discover_hosts.sh"
    command = ["horovodrun", "-np", "4", "--host-discovery-script", script, "python", "t"]
    role["template"]["spec"]["containers"][0]["command"] = command
    job = decode_job(manifest)
    assert job.spec is not None
    assert job.spec.command_least == 2
    told = "needs 2 workers, and is started with 1"
    assert any(told in w.text for w in job.warnings if w.kind == "CommandWarning") is is_told


OURS = "--host-discovery-script /etc/edl/discover_hosts.sh"


@pytest.mark.parametrize(
    ("command", "most", "said"),
    [
        (
            f"horovodrun -np 2 --max-np 4 {OURS} python t",
            4,
            "runs 4 processes at most (--max-np), and 4 workers of slotsPerWorker 2 may come: what",
        ),
        (f"horovodrun -np 2 --max-np 4 {OURS} python t", 4, "Raise it (--max-np 8) or"),
        (f"horovodrun -np 2 --max-np 7 {OURS} python t", 4, "runs 7 processes at most (--max-np)"),
        ("torchrun --nnodes 1:2 t", 4, "runs 4 processes at most (--nnodes), and 4 workers"),
        ("torchrun --nnodes 1:2 t", 4, "Raise it (--nnodes=1:4) or"),
        ("torchrun --nnodes 2 t", 4, "Raise it (--nnodes=3) or"),
        ("torchrun --nnodes 3 t", 4, ""),
        ("torchrun t", 4, "workers run nothing. Give it --nnodes=1:4, and no rendezvous"),
        ("mpirun -np 3 t", 4, ""),
        ("deepspeed t", 4, ""),
        ("python3 t", 4, ""),
        (f"horovodrun -np 2 --max-np 4 {OURS} python t", None, "and 3 workers of"),
        (f"horovodrun -np 2 --max-np 8 {OURS} python t", 4, ""),
        ("horovodrun -np 2 python t", 4, f"Give it {OURS}"),
        ("horovodrun -np 2 --min-np 2 python t", 4, f"Give it {OURS}"),
    ],
)
def test_workers_that_would_run_nothing_are_told(command: str, most: int | None, said: str):
    manifest = make_job(workers=3, slotsPerWorker=2, minReplicas=1, maxReplicas=most)
    role = manifest["spec"]["etReplicaSpecs"]["launcher"]
    role["template"]["spec"]["containers"][0]["command"] = command.split()
    warnings = decode_job(manifest).warnings
    told = [warning.text for warning in warnings if warning.kind == "CommandWarning"]
    assert any(said in text for text in told) if said else warnings == ()


@pytest.mark.parametrize("right", ["files", "environment", "shell"])
def test_what_scalings_may_run_is_said_by_an_annotation(right: str):
    manifest = make_job()
    assert decode_spec(manifest).scripts == "files"
    manifest["metadata"]["annotations"] = {"kai.alibabacloud.com/scaling-scripts": right}
    assert decode_spec(manifest).scripts == right
    manifest["metadata"]["annotations"] = {"kai.alibabacloud.com/scaling-scripts": "Shell!"}
    assert "must be one of files, environment, shell" in decode_job(manifest).invalid


def test_a_launcher_that_is_none_is_refused_with_those_there_are():
    manifest = make_job()
    manifest["metadata"]["annotations"] = {"kai.alibabacloud.com/launcher": "mpi"}
    assert "'mpi' is no launcher, use one of horovodrun, " in decode_job(manifest).invalid


def test_what_an_author_wrote_is_quoted_in_part_and_can_be_shown():
    manifest = make_job(cleanPodPolicy="\ud800\x1b[2J" + "x" * 100_000)
    invalid = decode_job(manifest).invalid
    assert invalid.startswith("spec.cleanPodPolicy: must be one of None, Running, All, not")
    assert len(invalid) <= 1024
    invalid.encode()


@pytest.mark.parametrize("said", [{}, {"controller": False, "blockOwnerDeletion": True}])
def test_the_owners_of_a_scaling_are_written_again_as_they_are(said: dict[str, Any]) -> None:
    owner = {"apiVersion": "x/v1", "kind": "Pipeline", "name": "p", "uid": "p-uid", **said}
    manifest = make_scale_out("out", count=1)
    manifest["metadata"]["ownerReferences"] = [owner]
    decoded = decode_scaling(manifest)
    assert not decoded.is_accepted
    job = Owner("train", "job-uid")
    change = AcceptScaling(Ref(SCALE_OUTS, "team", "out"), "u", "3", decoded.owners, job)
    assert encode_change(change)["metadata"]["ownerReferences"] == [owner, encode_owner(job)]


def test_a_scaling_with_more_owners_than_can_be_written_again_is_refused_with_the_reason() -> None:
    owner = {"apiVersion": "x/v1", "kind": "Pipeline", "name": "p", "uid": "p-uid"}
    manifest = make_scale_out("out", count=1)
    manifest["metadata"]["ownerReferences"] = [owner] * 200
    decoded = decode_scaling(manifest)
    assert (decoded.owners, decoded.is_accepted) == ((), True)
    assert "metadata.ownerReferences: are" in decoded.invalid


def test_an_error_that_nobody_foresaw_is_a_sentence_about_the_spec():
    class Odd(dict[str, Any]):
        def get(self, *_: Any) -> Any:
            raise RuntimeError("odd")

    manifest = make_job()
    manifest["spec"] = Odd()
    decoded = decode_job(manifest)
    assert decoded.spec is None
    assert decoded.invalid.startswith("spec: cannot be read (RuntimeError: odd): look for a value")


def test_an_environment_that_leaves_no_room_for_the_hosts() -> None:
    env = [{"name": f"A{n}", "value": "x" * 32768} for n in range(2)]
    manifest = make_scale_out("out", env=env)
    assert "spec.env: is 65540 bytes as JSON" in decode_scaling(manifest).invalid


class Counted(list[Any]):
    """A list that counts how many of its items were looked at."""

    looks = 0

    def __iter__(self) -> Iterator[Any]:
        for item in super().__iter__():
            self.looks += 1
            yield item


@pytest.mark.long
@pytest.mark.parametrize("role", ["launcher", "worker"])
@pytest.mark.parametrize("key", ["tolerations", "volumes", "containers", "unknown"])
def test_of_a_template_with_more_values_than_any_pod_none_is_looked_at(role: str, key: str) -> None:
    manifest = make_job()
    spec = manifest["spec"]["etReplicaSpecs"][role]["template"]["spec"]
    many = Counted({} for _ in range(50_000))
    spec[key] = many
    invalid = decode_job(manifest).invalid
    assert f"{role}.template.spec.{key}: has more than 10000 values" in invalid
    assert not many.looks
    spec[key] = [[{}] * 90 for _ in range(120)]
    assert f"{role}.template.spec.{key}: has more than 10000 values" in decode_job(manifest).invalid


@pytest.mark.parametrize("role", ["launcher", "worker"])
@pytest.mark.parametrize("key", ["labels", "annotations"])
def test_a_template_has_no_more_labels_and_annotations_than_any_pod(role: str, key: str) -> None:
    def tell(count: int, text: str | None = "") -> str:
        manifest = make_job()
        texts = {f"label-{n}": text for n in range(count)}
        manifest["spec"]["etReplicaSpecs"][role]["template"]["metadata"] = {key: texts}
        return decode_job(manifest).invalid

    assert f"{role}.template.metadata.{key}: are 257, 256 at most" in tell(257)
    assert "are 257, 256 at most" in tell(257, None)
    assert tell(256) == ""


def test_a_script_of_the_job_is_a_path_unless_shell_text_is_allowed():
    spec = decode_spec(make_job(noticeScript={"script": "/job/save.sh"}))
    assert spec.notice_script == NoticeScript("/job/save.sh", timedelta(seconds=60))
    manifest = make_job(noticeScript={"script": "save --all; sync", "timeout": 0})
    assert "spec.noticeScript.script: is no absolute path" in decode_job(manifest).invalid
    manifest["metadata"]["annotations"] = {"kai.alibabacloud.com/scaling-scripts": "shell"}
    spec = decode_spec(manifest)
    assert spec.notice_script == NoticeScript("save --all; sync", timedelta(seconds=60))


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ({}, "spec.noticeScript.script: is required"),
        ({"script": "/" + "x" * 1024}, "is 1025 bytes as JSON, 1024 at most"),
        ({"script": "a" * 424 + "&" * 101}, "is 1030 bytes as JSON, 1024 at most"),
        ({"script": "/a", "timeout": 3601}, "timeout: must be 3600 or less"),
    ],
)
def test_a_script_of_the_job_is_bounded(script: dict[str, Any], complaint: str):
    assert complaint in decode_job(make_job(noticeScript=script)).invalid
