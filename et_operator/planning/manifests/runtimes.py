"""The edl-runtime ConfigMap: what user containers run, one per namespace and version, not owned.

Many jobs mount one, so none owns it; planning/sweeping.py says when it may go. What is in it is
handed in, and never read from disk here.
"""

from __future__ import annotations

from typing import Any

from et_contract.paths import RUNTIME_DIR, RUNTIME_VOLUME
from et_contract.pods import LABEL_GROUP
from et_kube.resources import GROUP, Json
from et_operator.codec.runtimes import encode_key
from et_operator.model.names import LABEL_RUNTIME, MANAGED_BY, build_runtime_name
from et_operator.model.snapshots import RuntimeFiles
from et_operator.model.statuses import Runtime


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
    """The pod volume with the files, flat; launcher/boot.py gives them their paths again."""
    return {"name": RUNTIME_VOLUME, "configMap": {"name": build_runtime_name(runtime.digest)}}


def build_runtime_mount() -> dict[str, Any]:
    """Where the files are in a container."""
    return {"name": RUNTIME_VOLUME, "mountPath": RUNTIME_DIR, "readOnly": True}
