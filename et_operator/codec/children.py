"""Objects of a job that are not pods, and the two documents that two of them carry."""

from __future__ import annotations

from collections.abc import Iterable

from et_operator.codec.times import parse_time
from et_operator.model.names import LABEL_RUNTIME
from et_operator.model.resources import Json
from et_operator.model.snapshots import Child
from launcher import contract
from launcher.documents import HostConfig, InvalidDocument, Report, decode_config, decode_report


def decode_child(obj: Json) -> Child:
    """Who it is, and whose: `owner_uid` is that of its controller."""
    metadata: Json = obj.get("metadata") or {}
    return Child(
        name=metadata.get("name", ""),
        uid=metadata.get("uid", ""),
        resource_version=metadata.get("resourceVersion", ""),
        owner_uid=find_owner_uid(metadata),
        digest=(metadata.get("labels") or {}).get(LABEL_RUNTIME, ""),
        created=parse_time(metadata.get("creationTimestamp")),
    )


def find_owner_uid(metadata: Json) -> str | None:
    """The uid of the object's controller."""
    owners = metadata.get("ownerReferences") or ()
    return next((owner.get("uid") for owner in owners if owner.get("controller")), None)


def find_mounted_config_maps(pods: Iterable[Json]) -> frozenset[str]:
    """Names of the ConfigMaps that are volumes of these pods."""
    volumes = (v for pod in pods for v in (pod.get("spec") or {}).get("volumes") or ())
    return frozenset(v["configMap"].get("name", "") for v in volumes if v.get("configMap"))


def decode_role_names(role: Json) -> frozenset[str]:
    """The pods that a Role lets its holder run commands in."""
    return frozenset(
        name
        for rule in role.get("rules") or ()
        if "pods/exec" in (rule.get("resources") or ())
        for name in rule.get("resourceNames") or ()
    )


def decode_host_config(config_map: Json) -> HostConfig | None:
    """What the operator wrote last; None where there is nothing that can be read."""
    text = (config_map.get("data") or {}).get(contract.CONFIG_KEY)
    try:
        return decode_config(text) if text else None
    except InvalidDocument:
        return None


def decode_job_report(config_map: Json, epoch: int) -> Report | None:
    """What the broker of this very epoch wrote; None where there is nothing that can be read.

    Epoch 0, of which there is no launcher, stands for the newest: the job's status may be lost.
    """
    data: Json = config_map.get("data") or {}
    epoch = epoch or max(map(_read_epoch, data), default=0)
    text = data.get(f"{contract.REPORT_KEY_PREFIX}{epoch}")
    try:
        report = decode_report(text) if text else None
    except InvalidDocument:
        return None
    return report if report is not None and report.epoch == epoch else None


def _read_epoch(key: str) -> int:
    number = key.removeprefix(contract.REPORT_KEY_PREFIX)
    return int(number) if number.isdecimal() and number != key else 0
