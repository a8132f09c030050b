"""The two pod templates of a job: checked where we must rely on them, passed on as they are.

Types are checked first, by shapes.py. What is refused is an InvalidObject with the path and what to
do, of which decoding.py makes what the job is told. Nothing of ours is put into a template here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import product
from posixpath import normpath
from typing import Any

from et_contract import names, paths
from et_kube.errors import InvalidObject
from et_kube.resources import Json
from et_operator.codec.fields import Fields
from et_operator.codec.shapes import check_template
from et_operator.model.packing import Packed

MAX_TEMPLATE = 128 * 1024
"""Bytes of each, as JSON. A job is one object of at most 1.5 MiB, with its status in it, and what
kubectl apply was given in an annotation, which may be 256 KiB in all."""
_OWN_PREFIX = "edl-"
_CREDENTIALS = ("serviceAccountToken", "podCertificate")
"""Sources of a projected volume that show the pod's account to whoever asks for it."""
_GPU_SUFFIX = "gpu"
_WHOLE = re.compile(r"[0-9]{1,40}")
MAX_SLOTS = 1024
"""More ranks than a host can have; a host list is read whole every second."""
RESTARTING = {
    "containers": ("restartPolicy", "restartPolicyRules"),
    "initContainers": ("restartPolicyRules",),
}
"""Fields of containers that have a kubelet start them anew in their pod (KEP-5307, KEP-5532),
whatever the pod's restartPolicy says. No pod of ours has them."""
_MOUNTED_IN_WORKER = frozenset({paths.RUNTIME_DIR, paths.RUN_DIR})
_MOUNTED_IN_LAUNCHER = _MOUNTED_IN_WORKER | {paths.EDL_DIR, paths.MPI_DIR, paths.JOB_DIR}


def decode_launcher_template(role: Fields, own_account: str) -> Packed:
    """The launcher's pod template without its nulls.

    `own_account` is what the operator calls the broker's account where the template names none.
    """
    template = role.require_object("template")
    check_template(template)
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
    if find_account_name(template.body) in {"", own_account}:
        _check_tokens(spec)
    return _copy(template)


def decode_worker_template(role: Fields) -> Packed:
    """The workers' pod template without its nulls."""
    template = role.require_object("template")
    check_template(template)
    _check_containers(template.require_object("spec"), _MOUNTED_IN_WORKER)
    return _copy(template)


def count_gpus(template: Json) -> int | None:
    """The GPU limit of the first container: that of any resource whose name ends in `gpu`."""
    limits = (template["spec"]["containers"][0].get("resources") or {}).get("limits") or {}
    for name, amount in sorted(limits.items()):
        if not name.endswith(_GPU_SUFFIX) or not _WHOLE.fullmatch(str(amount)):
            continue
        if int(amount) > MAX_SLOTS:
            raise InvalidObject(
                f"spec.etReplicaSpecs.worker.template.spec.containers[0].resources.limits[{name}]",
                f"is also the number of slots, of which there are at most {MAX_SLOTS}: give a "
                "smaller one, or slotsPerWorker",
            )
        if int(amount) > 0:
            return int(amount)
    return None


def find_restarting(spec: Json) -> Iterator[str]:
    """Where a pod's spec that was checked has what is RESTARTING and is more than `Never`."""
    for key, fields in RESTARTING.items():
        for number, container in enumerate(spec.get(key) or ()):
            for name in fields:
                if container.get(name) not in (None, "", "Never", []):
                    yield f"{key}[{number}].{name}"


def find_account_name(template: Json) -> str:
    """The ServiceAccount that a template names, "" for none; `serviceAccount` is its old name."""
    spec: Json = template.get("spec") or {}
    return str(spec.get("serviceAccountName") or spec.get("serviceAccount") or "")


def _check_containers(spec: Fields, mounted: Iterable[str]) -> Fields:
    containers = spec.get_objects("containers")
    if not containers:
        raise spec.fail("containers", "at least one container is required")
    seen: set[str] = set()
    for container in (*containers, *spec.get_objects("initContainers")):
        name = container.require_text("name")
        if name in seen:
            raise container.fail("name", f"there are two containers named {name}, rename one")
        if name == names.BROKER_CONTAINER:
            raise container.fail("name", f"{name} is the operator's own, rename yours")
        seen.add(name)
        _check_volume_names(container)
    if spec.get_objects("ephemeralContainers"):
        raise spec.fail("ephemeralContainers", "no pod can be created with these, remove them")
    for volume in spec.get_objects("volumes"):
        if volume.require_text("name").startswith(_OWN_PREFIX):
            raise volume.fail(
                "name", f"names that begin with {_OWN_PREFIX} are the operator's own, rename yours"
            )
    _check_mounts(containers[0], mounted)
    return containers[0]


def _check_volume_names(container: Fields) -> None:
    """What lies in our volumes (the broker's token and socket, keys) is mounted by us alone."""
    for key in ("volumeMounts", "volumeDevices"):
        for mount in container.get_objects(key):
            if mount.require_text("name").startswith(_OWN_PREFIX):
                raise mount.fail(
                    "name",
                    f"volumes that begin with {_OWN_PREFIX} are the operator's own, mount yours",
                )


def _check_tokens(spec: Fields) -> None:
    for volume in spec.get_objects("volumes"):
        projected = volume.get_object("projected")
        sources = projected.get_objects("sources") if projected else ()
        for source, key in product(sources, _CREDENTIALS):
            if source.get_object(key) is not None:
                raise source.fail(
                    key,
                    "would be a token of the broker's account, with its rights: give the launcher "
                    "a serviceAccountName of its own, or remove it",
                )


def read_place(path: str) -> str:
    """Where a mount is, however its path is written: etc//edl/ is /etc/edl."""
    return normpath("/" + path.lstrip("/"))


def _check_mounts(container: Fields, mounted: Iterable[str]) -> None:
    for mount in container.get_objects("volumeMounts"):
        path = mount.require_text("mountPath")
        if read_place(path) in mounted:
            raise mount.fail(
                "mountPath", f"the operator puts its own files in {path}, mount yours elsewhere"
            )


def _copy(template: Fields) -> Packed:
    body = _without_nulls(template.body)
    packed = Packed({**body, "metadata": body.get("metadata", {})})
    if len(packed.text) > MAX_TEMPLATE:
        raise InvalidObject(
            template.path,
            f"is {len(packed.text)} bytes as JSON, {MAX_TEMPLATE} at most fit beside the job's "
            "record and into each pod: put large texts into a ConfigMap and mount that",
        )
    return packed


def _without_nulls(value: Any) -> Any:
    """Charts leave `volumes:` with nothing behind it; the API server takes that for nothing."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
