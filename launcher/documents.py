"""The two documents between operator and broker: the operator writes config, the broker report.

Both are JSON in a ConfigMap that nobody mounts. Names on the wire are the field names below in
camelCase; unknown fields are ignored, so that a newer writer does not break an older reader.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from hostdiscovery.hosts import Host, format_hosts

DRIVER_STALLED = "DriverStalled"
"""Key of a report's `problems`: the user's command has stopped asking for hosts."""


class MemberState(StrEnum):
    """ACTIVE may be listed; DRAINING must leave; GONE has ended, final for its uid."""

    ACTIVE = "active"
    DRAINING = "draining"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Member:
    """One worker: a member from when its container runs until the job forgets it.

    `address` is its IP where it is reached by ssh, else "".
    """

    name: str
    uid: str
    slots: int
    state: MemberState
    container: str
    address: str = ""


@dataclass(frozen=True, slots=True)
class ScriptOrder:
    """Run `sh <script> <hosts>` in the launcher, at most once per `id` (scaling uid, attempt)."""

    id: str
    script: str
    hosts: str
    env: tuple[tuple[str, str], ...]
    timeout_seconds: int


@dataclass(frozen=True, slots=True)
class HostConfig:
    """What the operator wants: who may be listed. `generation` and `epoch` never fall."""

    job: str
    namespace: str
    job_uid: str
    generation: int
    epoch: int
    replicas: int
    min_replicas: int
    members: tuple[Member, ...] = ()
    scripts: tuple[ScriptOrder, ...] = ()
    version: int = 1


@dataclass(frozen=True, slots=True)
class SessionExit:
    """A session's end as its agent reported it."""

    session: str
    code: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ScriptResult:
    """`code` is None when the time-out ended it; `output` is the last 4 KiB."""

    code: int | None
    output: str


@dataclass(frozen=True, slots=True)
class Report:
    """What the broker of one epoch knows for sure; every fact in it stays true.

    `listed` are pod uids that have been in the served list; `served_generation` the newest
    generation whose list horovodrun has read; `closed` the uids whose agents accept no process any
    more and have none; `exits` the ended sessions per uid; `ended` the exit code of the user's
    command; `problems` what people should know, by a short reason ("ExecForbidden").
    """

    epoch: int
    launcher_uid: str
    broker_start: int
    observed_generation: int = 0
    served_generation: int = 0
    listed: frozenset[str] = frozenset()
    closed: frozenset[str] = frozenset()
    exits: Mapping[str, tuple[SessionExit, ...]] = field(default_factory=dict)
    scripts: Mapping[str, ScriptResult] = field(default_factory=dict)
    ended: int | None = None
    problems: Mapping[str, str] = field(default_factory=dict)
    version: int = 1


_MALFORMED = (ArithmeticError, AttributeError, KeyError, TypeError, ValueError)
"""What reading a value of another type or size raises."""


class InvalidDocument(ValueError):  # noqa: N818 (names say what is so)
    """A document that cannot be read: the message names the field."""


def encode_config(config: HostConfig) -> str:
    """The text of `config.json`; equal configs give equal texts."""
    body = {
        "version": config.version,
        "job": config.job,
        "namespace": config.namespace,
        "jobUid": config.job_uid,
        "generation": config.generation,
        "epoch": config.epoch,
        "replicas": config.replicas,
        "minReplicas": config.min_replicas,
        "members": [
            {
                "name": m.name,
                "uid": m.uid,
                "slots": m.slots,
                "state": m.state.value,
                "container": m.container,
                **({"address": m.address} if m.address else {}),
            }
            for m in config.members
        ],
        "scripts": [
            {
                "id": s.id,
                "script": s.script,
                "hosts": s.hosts,
                "env": [list(pair) for pair in s.env],
                "timeoutSeconds": s.timeout_seconds,
            }
            for s in config.scripts
        ],
    }
    return json.dumps(body, indent=1)


def decode_config(text: str) -> HostConfig:
    """Inverse of encode_config; raises InvalidDocument."""
    body = _load(text)
    try:
        members = tuple(_decode_member(m) for m in body.get("members", ()))
        _check_members(members)
        return HostConfig(
            job=str(body["job"]),
            namespace=str(body["namespace"]),
            job_uid=str(body["jobUid"]),
            generation=int(body["generation"]),
            epoch=int(body["epoch"]),
            replicas=int(body["replicas"]),
            min_replicas=int(body["minReplicas"]),
            members=members,
            scripts=tuple(_decode_order(s) for s in body.get("scripts", ())),
            version=int(body.get("version", 1)),
        )
    except _MALFORMED as error:
        raise InvalidDocument(f"config: {type(error).__name__}: {error}") from error


def encode_report(report: Report) -> str:
    """The text of `report-<epoch>`; equal reports give equal texts."""
    body = {
        "version": report.version,
        "epoch": report.epoch,
        "launcherUid": report.launcher_uid,
        "brokerStart": report.broker_start,
        "observedGeneration": report.observed_generation,
        "servedGeneration": report.served_generation,
        "listed": sorted(report.listed),
        "closed": sorted(report.closed),
        "exits": {
            uid: [{"session": e.session, "code": e.code, "reason": e.reason} for e in exits]
            for uid, exits in sorted(report.exits.items())
        },
        "scripts": {
            key: {"code": result.code, "output": result.output}
            for key, result in sorted(report.scripts.items())
        },
        "ended": report.ended,
        "problems": dict(sorted(report.problems.items())),
    }
    return json.dumps(body, indent=1)


def decode_report(text: str) -> Report:
    """Inverse of encode_report; raises InvalidDocument."""
    body = _load(text)
    try:
        ended = body.get("ended")
        return Report(
            epoch=int(body["epoch"]),
            launcher_uid=str(body["launcherUid"]),
            broker_start=int(body["brokerStart"]),
            observed_generation=int(body.get("observedGeneration", 0)),
            served_generation=int(body.get("servedGeneration", 0)),
            listed=frozenset(map(str, body.get("listed", ()))),
            closed=frozenset(map(str, body.get("closed", ()))),
            exits={
                str(uid): tuple(
                    SessionExit(str(e["session"]), int(e["code"]), str(e.get("reason", "")))
                    for e in exits
                )
                for uid, exits in body.get("exits", {}).items()
            },
            scripts={
                str(key): ScriptResult(
                    None if r["code"] is None else int(r["code"]), str(r.get("output", ""))
                )
                for key, r in body.get("scripts", {}).items()
            },
            ended=None if ended is None else int(ended),
            problems={str(k): str(v) for k, v in body.get("problems", {}).items()},
            version=int(body.get("version", 1)),
        )
    except _MALFORMED as error:
        raise InvalidDocument(f"report: {type(error).__name__}: {error}") from error


def _load(text: str) -> dict[str, Any]:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidDocument(f"not JSON: {error}") from error
    if not isinstance(body, dict):
        raise InvalidDocument("not a JSON object")
    return body


def _check_members(members: tuple[Member, ...]) -> None:
    """Raise ValueError for what would make a list that horovodrun must never see."""
    if len({member.uid for member in members}) != len(members):
        raise ValueError("a uid is there twice")
    alive = [member for member in members if member.state is not MemberState.GONE]
    format_hosts(Host(member.name, member.slots) for member in alive)


def _decode_member(body: Mapping[str, Any]) -> Member:
    return Member(
        name=str(body["name"]),
        uid=str(body["uid"]),
        slots=int(body["slots"]),
        state=MemberState(body["state"]),
        container=str(body["container"]),
        address=str(body.get("address", "")),
    )


def _decode_order(body: Mapping[str, Any]) -> ScriptOrder:
    return ScriptOrder(
        id=str(body["id"]),
        script=str(body["script"]),
        hosts=str(body["hosts"]),
        env=tuple((str(k), str(v)) for k, v in body.get("env", ())),
        timeout_seconds=int(body["timeoutSeconds"]),
    )
