"""Objects of a job that are not pods, and the two documents that two of them carry.

Whoever may create objects in the namespace may have written them: of names, uids and lists only so
much is kept as could be ours. A document that cannot be read is None, whatever is wrong with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from et_contract import documents, names
from et_contract.documents import (
    AHEAD,
    HostConfig,
    InvalidDocument,
    Report,
    decode_config,
    decode_report,
)
from et_contract.names import read_report_epoch
from et_kube.resources import TRAINING_JOBS, Json
from et_kube.times import parse_time
from et_operator.model.keys import Owner
from et_operator.model.names import LABEL_RUNTIME, build_document_names, build_seal, is_in_sight
from et_operator.model.snapshots import Child

_SEALED = frozenset(
    {
        ("pods/exec", "get"),
        ("pods/exec", "create"),
        ("configmaps", "get"),
        ("configmaps", "watch"),
        ("configmaps", "patch"),
    }
)
"""All that a Role of ours may come to grant."""
_MAX_UID = 64
_MAX_MEMBERS = 3 * documents.MAX_WORKERS
"""Of a config: the workers of the largest job, those whom they replace, and as many again."""
_MAX_NAME = 64
"""Characters: names that a Role of ours may have are shorter."""
_MAX_REFERENCE = 253
"""Characters: the name of a Role or a job is no longer, but what names one may be."""
_MAX_SUBJECTS = 16
"""A binding of ours has two at most; one with more is another one, and is written over."""
_MAX_NAMES = 4 * documents.MAX_WORKERS
"""A Role of ours has some for each worker that comes, is there, or has gone lately; one with more
is another one, and is written over."""
_UNFIT = re.compile("[^!-~]")
"""What no name of an object has: blanks, controls, all that is not ASCII."""
_CONFIG = frozenset({names.CONFIG_KEY, names.HOSTFILE_KEY, names.SCRIPT_KEY})


def decode_child(obj: Json) -> Child:
    """An object of a job that is no pod: which one it is, and whose."""
    metadata: Json = obj.get("metadata") or {}
    return Child(
        name=metadata.get("name", ""),
        uid=metadata.get("uid", ""),
        resource_version=metadata.get("resourceVersion", ""),
        owner=find_owner(metadata),
        digest=(metadata.get("labels") or {}).get(LABEL_RUNTIME, ""),
        created=parse_time(metadata.get("creationTimestamp")),
    )


def find_owner(metadata: Json) -> Owner | None:
    """The job whose own the object is, for its controller is that job and our watches show it.

    None where either is not so: of what they do not show nobody tells what comes. The API server
    stores what is written in a reference: the uid of a job as that of another kind, which its
    garbage collector may not know; texts that are no name and no uid, megabytes too.
    """
    if not is_in_sight(metadata.get("labels")):
        return None
    found = find_controller(metadata) or {}
    name, uid = str(found.get("name")), str(found.get("uid"))
    group = str(found.get("apiVersion")).partition("/")[0]
    if (group, found.get("kind")) != (TRAINING_JOBS.group, TRAINING_JOBS.kind):
        return None
    return Owner(name, uid) if len(name) <= _MAX_REFERENCE and len(uid) <= _MAX_UID else None


def find_controller(metadata: Json) -> Json | None:
    """The owner reference that says that it is the controller's, of whatever kind."""
    owners = metadata.get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


def is_document(metadata: Json) -> bool:
    """Whether the object is called as the config or the report of the job that it says to be of.

    Any number of others can say so, with a megabyte of documents each: these are kept by nobody.
    """
    owner = find_owner(metadata)
    return owner is not None and metadata.get("name") in build_document_names(owner.name)


def select_mounted(pod: Json, names: frozenset[str]) -> frozenset[str]:
    """Which of these ConfigMaps are volumes of a pod."""
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    mounted = (v["configMap"].get("name", "") for v in volumes if v.get("configMap"))
    return names.intersection(mounted)


def decode_role_names(role: Json, job_uid: str) -> frozenset[str]:
    """Everything that a Role gives its holder rights on, by name, as far as it could be ours.

    Without the seal of its job, which is in it while it grants nothing too. What cannot be in a
    name of an object is kept as a question mark, which cannot either.
    """
    seal, rules = build_seal(job_uid), role.get("rules") or ()
    names = (str(name) for rule in rules for name in rule.get("resourceNames") or ())
    kept = islice((name for name in names if name != seal), _MAX_NAMES)
    return frozenset(_spell(name[:_MAX_NAME]) for name in kept)


def is_sealed(role: Json, job_uid: str) -> bool:
    """Whether nobody can have made or bound this Role who does not hold all that it may grant."""
    seal = build_seal(job_uid)
    rules = [rule for rule in role.get("rules") or () if seal in (rule.get("resourceNames") or ())]
    held: set[tuple[str, str]] = set()
    for rule in rules:
        if "" in (rule.get("apiGroups") or ()):
            # never all with all: a Role of some kilobytes would have millions of these pairs
            resources, verbs = set(rule.get("resources") or ()), set(rule.get("verbs") or ())
            held |= {pair for pair in _SEALED if pair[0] in resources and pair[1] in verbs}
    return held == _SEALED


def decode_bound_role(binding: Json) -> str:
    """The name of the Role that a RoleBinding gives; "" where it is a ClusterRole."""
    role: Json = binding.get("roleRef") or {}
    return str(role.get("name"))[:_MAX_REFERENCE] if role.get("kind") == "Role" else ""


def decode_accounts(binding: Json) -> frozenset[str]:
    """The ServiceAccounts to which a RoleBinding gives its Role."""
    subjects = (binding.get("subjects") or ())[:_MAX_SUBJECTS]
    accounts = (str(s.get("name")) for s in subjects if s.get("kind") == "ServiceAccount")
    return frozenset(_spell(name[:_MAX_REFERENCE]) for name in accounts)


def _spell(name: str) -> str:
    return _UNFIT.sub("?", name) or "?"


def select_documents(config_map: Json) -> dict[str, str]:
    """The config and the reports, by their keys, of what a ConfigMap holds.

    As ASCII, as who writes ours writes them: a text of others, up to a megabyte of each of which is
    kept, takes four bytes for each of its characters in Python where one of them is no such.
    """
    data: Json = config_map.get("data") or {}
    wanted = (key for key in data if key == names.CONFIG_KEY or read_report_epoch(key))
    texts = {key: data[key] for key in wanted if isinstance(data[key], str)}
    return {
        key: text if text.isascii() else text.encode("ascii", "replace").decode()
        for key, text in texts.items()
    }


def is_writable(config_map: Json, most_beside: int) -> bool:
    """Whether a job's config or report takes what is to be written to it.

    At most so many characters of it, as JSON, are nobody's of ours to write over. No key of ours is
    in `binaryData`: the API server takes none into `data` that is there.
    """
    if config_map.get("immutable") or any(_select_ours(config_map, "binaryData")):
        return False
    ours = set(_select_ours(config_map, "data"))
    rest = {key: value for key, value in (config_map.get("data") or {}).items() if key not in ours}
    return len(json.dumps({**config_map, "data": rest})) <= most_beside


def _select_ours(config_map: Json, field: str) -> Iterator[str]:
    """The keys that the operator writes in a config, or the brokers of a job in a report."""
    is_config = str(config_map["metadata"].get("name")).endswith(names.build_config_name(""))
    for key in config_map.get(field) or ():
        if key in _CONFIG if is_config else read_report_epoch(key):
            yield key


def measure_reports_after(documents: Mapping[str, str], epoch: int) -> int:
    """Characters of the reports of later epochs; none is of a job whose epoch, 0, is not known."""
    return sum(len(text) for key, text in documents.items() if read_report_epoch(key) > epoch > 0)


def read_config(text: str) -> HostConfig | None:
    """A config, whosever it is.

    None for what cannot be read, or has more or longer members than any job: the end of each would
    be remembered.
    """
    try:
        config = decode_config(text)
    except InvalidDocument:
        return None
    is_long = any(len(member.uid) > _MAX_UID for member in config.members)
    return None if is_long or len(config.members) > _MAX_MEMBERS else config


def read_report(text: str) -> Report | None:
    """A report, whosever it is; None for what cannot be read."""
    try:
        return decode_report(text)
    except InvalidDocument:
        return None


def decode_host_config(
    documents: Mapping[str, str],
    epoch: int = 0,
    generation: int = 0,
    *,
    read: Callable[[str], HostConfig | None] = read_config,
) -> HostConfig | None:
    """What the operator wrote last; None where there is nothing that can be read.

    Nor is there where a number in it is far ahead of the job's own epoch and generation. `read` is
    read_config, or who remembers what that has said.
    """
    text = documents.get(names.CONFIG_KEY)
    config = read(text) if text else None
    if config is None:
        return None
    is_ahead = config.generation - generation > AHEAD or config.epoch - epoch > AHEAD
    return None if is_ahead else config


def decode_job_report(
    documents: Mapping[str, str],
    epoch: int,
    generation: int = 0,
    *,
    read: Callable[[str], Report | None] = read_report,
) -> Report | None:
    """What the broker of this very epoch wrote; None where there is nothing that can be read.

    Epoch 0, of which there is no launcher, stands for the newest: the job's status may be lost.
    A generation that is far ahead of the job's own is nothing that can be read either. `read` is
    read_report, or who remembers what that has said.
    """
    epoch = epoch or max((n for n in map(read_report_epoch, documents) if n <= AHEAD), default=0)
    text = documents.get(names.build_report_key(epoch))
    report = read(text) if text else None
    if report is None or report.epoch != epoch:
        return None
    return report if report.observed_generation - generation <= 4 * AHEAD else None
