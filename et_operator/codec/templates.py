"""The two pod templates of a job: checked where we must rely on them, passed on as they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from et_operator.codec.fields import Fields
from et_operator.model.resources import Json
from launcher import contract

_OWN_PREFIX = "edl-"
_GPU_SUFFIX = "gpu"
_MOUNTED_IN_WORKER = frozenset({contract.RUNTIME_DIR, contract.RUN_DIR})
_MOUNTED_IN_LAUNCHER = _MOUNTED_IN_WORKER | {contract.EDL_DIR, contract.MPI_DIR, contract.JOB_DIR}


def decode_launcher_template(role: Fields) -> Json:
    """The launcher's pod template without its nulls."""
    template = role.require_object("template")
    spec = template.require_object("spec")
    first = _check_containers(spec, _MOUNTED_IN_LAUNCHER)
    if not first.get_texts("command"):
        raise first.fail(
            "command",
            "the launcher's first container must give a command (for example [horovodrun, ...]), "
            "the entry point of its image cannot be known from outside",
        )
    for key in ("shareProcessNamespace", "hostPID"):
        if spec.get_flag(key):
            raise spec.fail(
                key,
                "would open the operator's token in the launcher to other processes, remove it",
            )
    return _copy(template)


def decode_worker_template(role: Fields) -> Json:
    """The workers' pod template without its nulls."""
    template = role.require_object("template")
    _check_containers(template.require_object("spec"), _MOUNTED_IN_WORKER)
    return _copy(template)


def count_gpus(template: Json) -> int | None:
    """The GPU limit of the first container: that of any resource whose name ends in `gpu`."""
    limits = (template["spec"]["containers"][0].get("resources") or {}).get("limits") or {}
    for name, amount in sorted(limits.items()):
        if name.endswith(_GPU_SUFFIX) and str(amount).isdecimal() and int(amount) > 0:
            return int(amount)
    return None


def _check_containers(spec: Fields, mounted: Iterable[str]) -> Fields:
    containers = spec.get_objects("containers")
    if not containers:
        raise spec.fail("containers", "at least one container is required")
    seen: set[str] = set()
    for container in (*containers, *spec.get_objects("initContainers")):
        name = container.require_text("name")
        if name in seen:
            raise container.fail("name", f"there are two containers named {name}, rename one")
        if name == contract.BROKER_CONTAINER:
            raise container.fail("name", f"{name} is the operator's own, rename yours")
        seen.add(name)
    for volume in spec.get_objects("volumes"):
        if volume.require_text("name").startswith(_OWN_PREFIX):
            raise volume.fail(
                "name", f"names that begin with {_OWN_PREFIX} are the operator's own, rename yours"
            )
    _check_mounts(containers[0], mounted)
    return containers[0]


def _check_mounts(container: Fields, mounted: Iterable[str]) -> None:
    for mount in container.get_objects("volumeMounts"):
        path = mount.require_text("mountPath")
        if path.rstrip("/") in mounted:
            raise mount.fail(
                "mountPath", f"the operator puts its own files in {path}, mount yours elsewhere"
            )


def _copy(template: Fields) -> Json:
    body = _without_nulls(template.body)
    return {**body, "metadata": body.get("metadata", {})}


def _without_nulls(value: Any) -> Any:
    """Charts leave `volumes:` with nothing behind it; the API server takes that for nothing."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
