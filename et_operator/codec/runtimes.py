"""Runtimes are known by what is in them: whoever may create ConfigMaps could take their names.

The one home of that hash: who ships the files, who writes them and who finds some there all ask
here. No label or name alone makes a ConfigMap a runtime.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from et_contract.paths import SLASH
from et_kube.resources import Json
from et_operator.model.names import LABEL_RUNTIME, build_runtime_name, is_in_sight

DIGITS = 32
"""Of a hash: 128 bits, for nobody must find other files with the same one."""


def encode_key(path: str) -> str:
    """The ConfigMap key of a file's path."""
    return path.replace("/", SLASH)


def hash_files(files: Mapping[str, str]) -> str:
    """The digest of a runtime with these texts, by path."""
    return _hash_data({encode_key(path): text for path, text in files.items()})


def is_runtime(config_map: Json) -> bool:
    """Whether this is a runtime that can be used: ours by label, unchangeable, true to its name.

    And it stays: what has an owner, or is being deleted, makes room under its name by itself, and
    the next pod would mount what is put there then.
    """
    metadata: Json = config_map.get("metadata") or {}
    if metadata.get("ownerReferences") or metadata.get("deletionTimestamp"):
        return False
    labels: Json = metadata.get("labels") or {}
    if not is_in_sight(labels) or LABEL_RUNTIME not in labels:
        return False
    if not config_map.get("immutable") or config_map.get("binaryData"):
        return False
    name = build_runtime_name(_hash_data(config_map.get("data") or {}))
    return bool(metadata.get("name") == name)


def _hash_data(data: Mapping[str, str]) -> str:
    text = json.dumps(data, sort_keys=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:DIGITS]
