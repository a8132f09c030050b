from __future__ import annotations

from typing import Any

import pytest

from et_contract.pods import LABEL_GROUP, LABEL_JOB, Role
from et_kube.resources import CONFIG_MAPS, GROUP, PODS, ROLE_BINDINGS, ROLES, Resource
from et_operator.acting.comparing import KNOWN_BY, find_altered, find_dropped
from et_operator.codec.encoding import encode_owner, encode_rules
from et_operator.model.names import build_labels
from et_operator.planning.manifests.access import build_no_rights, build_role, build_role_binding
from tests.planning_makers import make_job

JOB = make_job()

ASKED = {
    "a": 1,
    "b": None,
    "c": {"d": "x", "e": None},
    "f": [{"g": 1, "h": 2.0}, {"g": 2}],
    "i": [],
}


@pytest.mark.parametrize(
    ("stored", "dropped"),
    [
        ({"a": 1, "c": {"d": "x"}, "f": [{"g": 1, "h": 2}, {"g": 2}], "i": []}, set()),
        ({"a": 2, "c": {"d": "y"}, "f": [], "i": [], "z": 1}, set()),
        ({"a": 1, "c": {}, "f": [{"g": 1}, {"g": 2}], "i": []}, {"s.c.d", "s.f[].h"}),
        ({"i": []}, {"s.a", "s.c", "s.f"}),
        (None, {"s.a", "s.c", "s.f", "s.i"}),
    ],
)
def test_what_is_dropped_is_what_was_written_and_is_not_there(stored: Any, dropped: set[str]):
    assert find_dropped(ASKED, stored, "s") == dropped


OWNERS = [encode_owner(JOB.owner)]
LABELS = build_labels("job", Role.WORKER)
POD = {"metadata": {"name": "p", "labels": {**LABELS, "b": "2"}, "ownerReferences": OWNERS}}
ROLE = build_role(JOB, ["job-worker-0"])
RUNTIME = {"metadata": {"name": "edl-runtime-x", "labels": {LABEL_GROUP: GROUP}}}
BINDING = build_role_binding(JOB, "job-launcher-x", ["job-launcher"])


def change(manifest: Any, **metadata: Any) -> Any:
    return {**manifest, "metadata": {**manifest["metadata"], **metadata}}


@pytest.mark.parametrize(
    ("resource", "asked", "stored", "altered"),
    [
        (PODS, POD, change(POD, labels={**LABELS, "b": "7", "c": "3"}, uid="x"), []),
        (PODS, POD, change(POD, labels={**LABELS, LABEL_GROUP: "7"}), ["label group-name"]),
        (PODS, POD, change(POD, ownerReferences=None), ["owner"]),
        (PODS, POD, change(POD, labels=None), [f"label {key}" for key in KNOWN_BY]),
        (
            CONFIG_MAPS,
            POD,
            change(POD, labels={}, ownerReferences=[]),
            ["owner", "label group-name"],
        ),
        (CONFIG_MAPS, POD, change(POD, labels={"b": "2"}), ["label group-name"]),
        (CONFIG_MAPS, RUNTIME, change(RUNTIME, labels={}), ["label group-name"]),
        (CONFIG_MAPS, RUNTIME, RUNTIME, []),
        (ROLES, ROLE, ROLE, []),
        (ROLES, ROLE, {**ROLE, "rules": encode_rules(build_no_rights(JOB))}, []),
        (ROLES, ROLE, {**ROLE, "rules": []}, ["rules"]),
        (ROLES, ROLE, change(ROLE, labels={}), ["label group-name"]),
        (ROLE_BINDINGS, BINDING, {**BINDING, "subjects": []}, []),
        (ROLE_BINDINGS, BINDING, {**BINDING, "roleRef": {"kind": "Role", "name": "x"}}, ["role"]),
        (ROLE_BINDINGS, BINDING, change(BINDING, ownerReferences=[]), ["owner"]),
        (ROLE_BINDINGS, BINDING, change(BINDING, labels={LABEL_JOB: "job"}), ["label group-name"]),
    ],
)
def test_what_is_altered_is_what_an_object_is_known_by(
    resource: Resource, asked: Any, stored: Any, altered: list[str]
) -> None:
    assert list(find_altered(resource, asked, stored)) == altered
