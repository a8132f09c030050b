"""The edl-runtime ConfigMap: what user containers run, one per namespace and version, not owned."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from et_operator.model.jobs import Runtime
from et_operator.model.names import (
    LABEL_GROUP,
    LABEL_RUNTIME,
    MANAGED_BY,
    build_runtime_name,
)
from et_operator.model.resources import GROUP, Json
from et_operator.model.snapshots import RuntimeFiles
from launcher.contract import RUNTIME_DIR, RUNTIME_VOLUME

_SLASH = ".."
"""Stands for "/" in a key: keys allow it, and no path of ours has it."""


def build_runtime(namespace: str, shipped: RuntimeFiles) -> Json:
    """The immutable ConfigMap with the shipped files."""
    digest = shipped.runtime.digest
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": build_runtime_name(digest),
            "namespace": namespace,
            "labels": {
                LABEL_GROUP: GROUP,
                LABEL_RUNTIME: digest,
                "app.kubernetes.io/managed-by": MANAGED_BY,
            },
        },
        "immutable": True,
        "data": {encode_key(path): text for path, text in sorted(shipped.files.items())},
    }


def build_runtime_volume(runtime: Runtime) -> dict[str, Any]:
    """The pod volume in which the files have their paths again."""
    return {
        "name": RUNTIME_VOLUME,
        "configMap": {"name": build_runtime_name(runtime.digest), "items": _list(runtime.files)},
    }


def build_runtime_mount() -> dict[str, Any]:
    """Where the files are in a container."""
    return {"name": RUNTIME_VOLUME, "mountPath": RUNTIME_DIR, "readOnly": True}


def encode_key(path: str) -> str:
    """The ConfigMap key of a file's path."""
    return path.replace("/", _SLASH)


def decode_key(key: str) -> str:
    """Inverse of encode_key."""
    return key.replace(_SLASH, "/")


def _list(files: Iterable[str]) -> list[dict[str, str]]:
    return [{"key": encode_key(path), "path": path} for path in files]
