"""The definitions of our kinds agree with the model, with each other and with et-operator's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

import pytest
import yaml

from et_contract.pods import MAX_JOB_NAME
from et_kube.resources import TRAINING_JOBS
from et_operator.codec.decoding import decode_job
from et_operator.codec.statuses import describe_fields
from et_operator.model.phases import JobPhase, ScalingPhase
from et_operator.model.scalings import ScalingStatus
from et_operator.model.specs import (
    AttachMode,
    CleanPodPolicy,
    JobSpec,
    LauncherCreation,
    LossRecovery,
    NoticePolicy,
    NoticeSignal,
    RestartPolicy,
    StallPolicy,
)
from et_operator.model.statuses import JobStatus
from fakes.schemas import admit, find_definition
from tests.contract.bad_manifests import Bad, first, job, pod, role
from tests.contract.bad_shapes import BAD_SHAPES

CRDS = Path(__file__).resolve().parents[2] / "crds"
JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}
OTHERS = {"admission"}
"""What is et-scheduler's to write."""
FREE_CHOICES = (JobPhase, ScalingPhase)
"""Their fields hold the words of et-operator too and have no enumeration in the schema."""


class Loader(yaml.SafeLoader):
    """As kubectl reads YAML: a key that is there twice is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        twice = sorted({key for key in keys if keys.count(key) > 1})
        assert not twice, f"{twice[0]} is there twice{node.start_mark}"
        return super().construct_mapping(node, deep)


def load(plural: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.load((CRDS / f"{plural}.yaml").read_text(), Loader)  # noqa: S506
    return found


def find_schema(plural: str, *path: str) -> dict[str, Any]:
    schema = load(plural)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for key in path:
        schema = schema["properties"][key]
    return schema


def describe(hint: Any) -> dict[str, Any]:
    """The shape of a schema that holds what `statuses` writes for a field of this type."""
    if isinstance(hint, UnionType):
        [hint] = [arm for arm in get_args(hint) if arm is not NoneType]
    if get_origin(hint) is tuple:
        return {"type": "array", "items": describe(get_args(hint)[0])}
    if get_origin(hint) is Mapping:
        return {"type": "object"}  # made elsewhere, and checked by the schema alone
    if hint is datetime:
        return {"type": "string", "format": "date-time"}
    if hint in JSON_TYPES:
        return {"type": JSON_TYPES[hint]}
    if issubclass(hint, StrEnum):
        choices = {} if hint in FREE_CHOICES else {"enum": sorted(hint)}
        return {"type": "string", **choices}
    return {
        "type": "object",
        "properties": {key: describe(kind) for _, key, kind, _ in describe_fields(hint)},
    }


def outline(schema: dict[str, Any]) -> dict[str, Any]:
    """The same of a written schema, for comparison."""
    shape: dict[str, Any] = {"type": schema["type"]}
    if schema.get("format") == "date-time":
        shape["format"] = "date-time"
    if "enum" in schema and "True" not in schema["enum"]:
        shape["enum"] = sorted(schema["enum"])
    if "items" in schema:
        shape["items"] = outline(schema["items"])
    if "role" in schema.get("properties", ()):
        return shape
    if "properties" in schema:
        shape["properties"] = {key: outline(item) for key, item in schema["properties"].items()}
    return shape


@pytest.mark.long
@pytest.mark.parametrize(
    ("plural", "kind"),
    [("trainingjobs", JobStatus), ("scaleins", ScalingStatus), ("scaleouts", ScalingStatus)],
)
def test_the_status_has_exactly_the_fields_of_the_model(plural: str, kind: type):
    shape = outline(find_schema(plural, "status"))
    shape["properties"] = {k: v for k, v in shape["properties"].items() if k not in OTHERS}
    assert shape == describe(kind)


@pytest.mark.long
def test_nothing_that_the_operator_writes_is_kept_unchecked():
    text = yaml.safe_dump(find_schema("trainingjobs", "status"))
    assert "preserve-unknown" not in text


@pytest.mark.long
@pytest.mark.parametrize(
    ("field", "kind"),
    [
        ("launcherAttachMode", AttachMode),
        ("launcherCreationPolicy", LauncherCreation),
        ("cleanPodPolicy", CleanPodPolicy),
        ("restartPolicy", RestartPolicy),
        ("driverStalledPolicy", StallPolicy),
        ("lossRecovery", LossRecovery),
        ("noticePolicy", NoticePolicy),
        ("noticeSignal", NoticeSignal),
    ],
)
def test_the_choices_are_those_of_the_model(field: str, kind: type[StrEnum]):
    choices = set(find_schema("trainingjobs", "spec", field)["enum"])
    assert choices - {""} == set(kind)  # "" is a choice that was not made


@pytest.mark.long
def test_the_defaults_are_those_of_the_model():
    defaults = {name: default for name, _, _, default in describe_fields(JobSpec)}
    spec = find_schema("trainingjobs", "spec")["properties"]
    assert spec["launcherAttachMode"]["default"] == defaults["attach_mode"]
    assert spec["launcherCreationPolicy"]["default"] == defaults["launcher_creation"]
    assert spec["cleanPodPolicy"]["default"] == defaults["clean_pod_policy"]
    assert spec["restartPolicy"]["default"] == defaults["restart_policy"]
    assert spec["driverStalledPolicy"]["default"] == defaults["stall_policy"]
    assert spec["lossRecovery"]["default"] == defaults["loss_recovery"]
    assert spec["noticePolicy"]["default"] == defaults["notice_policy"]
    assert spec["noticeSignal"]["default"] == defaults["notice_signal"]
    assert spec["backoffLimit"]["default"] == defaults["backoff_limit"]
    assert spec["drainTimeoutSeconds"]["default"] == defaults["drain_timeout"].total_seconds()


def test_both_roles_take_the_same_pods():
    roles = find_schema("trainingjobs", "spec", "etReplicaSpecs")["properties"]
    assert roles["launcher"]["properties"]["template"] == roles["worker"]["properties"]["template"]


def test_the_bound_of_the_name_is_that_of_the_model():
    [rule] = find_schema("trainingjobs")["x-kubernetes-validations"]
    assert f"size() <= {MAX_JOB_NAME}" in rule["rule"]


def test_the_scale_subresource_counts_workers_only():
    [version] = load("trainingjobs")["spec"]["versions"]
    assert version["subresources"]["scale"] == {
        "specReplicasPath": ".spec.etReplicaSpecs.worker.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }


@pytest.mark.parametrize("plural", ["scaleins", "scaleouts"])
def test_the_phase_of_a_scaling_is_its_last_condition(plural: str):
    [version] = load(plural)["spec"]["versions"]
    columns = {c["name"]: c["jsonPath"] for c in version["additionalPrinterColumns"]}
    assert columns["Phase"] == ".status.conditions[-1:].type"
    assert columns["Job"] == ".spec.selector.name"


@pytest.mark.parametrize("plural", ["scaleins", "scaleouts"])
def test_a_scaling_names_a_job_and_no_namespace(plural: str):
    spec = find_schema(plural, "spec")
    assert spec["properties"]["selector"]["properties"].keys() == {"name"}
    assert "namespace" not in {name.lower() for name in find_fields(spec)}


def find_fields(schema: Any) -> Iterator[str]:
    """The names of all fields, at whatever depth."""
    yield from schema.get("properties", ())
    for each in (*schema.get("properties", {}).values(), schema.get("items")):
        if isinstance(each, dict):
            yield from find_fields(each)


@pytest.mark.long
@pytest.mark.parametrize("plural", ["trainingjobs", "scaleins", "scaleouts", "trainingqueues"])
def test_every_rule_has_a_sentence_for_the_author(plural: str):
    for rule in find_rules(load(plural)):
        assert len(rule["message"].split()) >= 5


def find_rules(node: Any) -> list[dict[str, Any]]:
    if isinstance(node, list):
        return [rule for item in node for rule in find_rules(item)]
    if not isinstance(node, dict):
        return []
    return node.get("x-kubernetes-validations", []) + find_rules(list(node.values()))


@pytest.mark.parametrize("bad", BAD_SHAPES, ids=lambda bad: bad.title)
def test_a_value_of_another_type_is_refused_where_the_schema_can_say_so(bad: Bad):
    definition = find_definition(TRAINING_JOBS)
    assert definition is not None
    _, faults = admit(bad.manifest, definition["schema"]["openAPIV3Schema"])
    assert (bad.refusal or "") in "".join(faults)
    assert bool(faults) == (bad.refusal is not None)


def test_what_charts_leave_empty_and_what_pods_may_have_is_taken():
    def change(spec: dict[str, Any]) -> None:
        empty = {"args": None, "env": None, "resources": None}
        full = {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]}
        limits = {"limits": {"cpu": 0.5, "memory": "1Gi", "nvidia.com/gpu": 1}, "claims": [{}]}
        first(spec, "launcher").update(empty)
        first(spec, "worker").update(full, resources=limits)
        pod(spec, "worker").update(tolerations=None, nodeSelector=None)
        role(spec, "worker")["template"]["metadata"] = {"labels": None, "annotations": {"a": "1"}}

    manifest = job(change)
    definition = find_definition(TRAINING_JOBS)
    assert definition is not None
    shaped, faults = admit(manifest, definition["schema"]["openAPIV3Schema"])
    assert faults == []
    assert (
        shaped["spec"]["etReplicaSpecs"]["worker"]["template"]
        == (manifest["spec"]["etReplicaSpecs"]["worker"]["template"])
    )
    assert decode_job(shaped).invalid == ""
