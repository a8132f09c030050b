"""A script and the files beside it, as the ConfigMap that a job's workers read them from.

Files are read from the user's disk, and nothing is sent: runs.py does that. What cannot be put into
a ConfigMap is an EtError that says what to do instead.
"""

from __future__ import annotations

import base64
import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from et.errors import EtError
from et_contract.pods import MAX_JOB_NAME
from et_kube.resources import CONFIG_MAPS

ANNOTATION = "kai.alibabacloud.com/et-run"
"""Of a job that was made of a script: the script's name. Only such a job is replaced."""
FOLDER = "/training"
"""Where they are in a worker; Python finds modules beside the script there."""
MOST = 1_000_000
"""Bytes: a ConfigMap holds no more than 1 MiB."""
_KEY = re.compile(r"[A-Za-z0-9._-]{1,253}")
_NAME = re.compile(rf"(?=.{{1,{MAX_JOB_NAME}}}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?")


def name_job(script: str, given: str) -> str:
    """The name that was given, else one like the script's; EtError where that makes none."""
    name = given or re.sub("[^a-z0-9]+", "-", Path(script).stem.lower()).strip("-")
    if not given and not _NAME.fullmatch(name):
        raise EtError(f"no job can be called as {script} is: choose a name with --name")
    return name


def name_files(job: str) -> str:
    """A name that is nobody's yet: what a former run of the job has may still be on its way out."""
    return f"{job}-script-{secrets.token_hex(3)}"


def read_files(script: str, others: Sequence[str]) -> dict[str, bytes]:
    """The files by their names without folders.

    Raises:
        EtError: one cannot be read, two have one name, or they are too large.
    """
    if Path(script).suffix != ".py":
        raise EtError(
            f"{script} is no Python script (.py): for another command use et submit, with --volume "
            "or an image that has it"
        )
    found: dict[str, bytes] = {}
    for source in (script, *others):
        name = Path(source).name
        if not _KEY.fullmatch(name):
            raise EtError(f"{source}: a file's name may have letters, digits, -, _ and . only")
        if name in found:
            raise EtError(f"there are two files {name}: all of them are put into one folder")
        found[name] = _read(source)
    size = sum(map(len, found.values()))
    if size > MOST:
        raise EtError(
            f"the files have {size} bytes, and {MOST} are the most: put data on a volume (--volume)"
        )
    return found


def build_files(name: str, files: Mapping[str, bytes]) -> dict[str, Any]:
    """The ConfigMap; nobody changes it under a job that runs."""
    texts, others = {}, {}
    for key, body in files.items():
        try:
            texts[key] = body.decode("utf-8")
        except UnicodeDecodeError:
            others[key] = base64.b64encode(body).decode("ascii")
    return {
        "apiVersion": CONFIG_MAPS.api_version,
        "kind": CONFIG_MAPS.kind,
        "metadata": {"name": name},
        "immutable": True,
        "data": texts,
        **({"binaryData": others} if others else {}),
    }


def _read(source: str) -> bytes:
    try:
        return Path(source).read_bytes()
    except IsADirectoryError as error:
        raise EtError(
            f"{source} is a folder: name its files, or put it into the image or on a volume"
        ) from error
    except OSError as error:
        raise EtError(f"{source} cannot be read: {error.strerror}") from error
