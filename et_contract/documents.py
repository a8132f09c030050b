"""The two documents between operator and broker: the operator writes config, the broker report.

Both are JSON in a ConfigMap that nobody mounts. Names on the wire are the field names below in
camelCase; unknown fields are ignored, so that a newer writer does not break an older reader.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import ip_address
from typing import Any

from et_contract.hosts import Host, format_hosts
from et_contract.names import NOTICE_SIGNALS
from et_contract.texts import clean, parse_json

MAX_WORKERS = 1024
"""Of one job. Its status, config and report are one object each, and such an object has room for so
many names: tests/unit/planning/test_sizes.py counts the bytes."""

DRIVER_STALLED = "DriverStalled"
"""Key of a report's `problems`: the user's command has stopped asking for hosts."""
WORKERS_IDLE = "WorkersIdle"
"""Key of a report's `problems`: the user's command runs nothing in workers that are listed."""
NO_RING = "NoRing"
"""Key of a report's `problems`: ranks of the user's command run, and form no ring."""
RING_NOT_BROKEN = "RingNotBroken"
"""Key of a report's `problems`: a worker was lost, and other ranks have nothing of ours."""
POD_GONE = "the worker's pod is gone"
"""What those that stand for processes there are told, and say to the launcher's log after `edl: `
and its name."""


KNOWS_HELD = 2
"""From this version of a report on, its broker knows members that are held: no other is told of
one."""


class MemberState(StrEnum):
    """HELD waits for another to leave, ACTIVE may be listed, DRAINING must leave, GONE is final.

    To a member that is held a stream is opened, as to an active one. Nobody goes back.
    """

    HELD = "held"
    ACTIVE = "active"
    DRAINING = "draining"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Member:
    """One worker: a member from when its container runs until the job forgets it.

    `address` is its IP where it is reached by ssh, else "". `grace_seconds` is what whoever
    deletes its pod gives it, None while nobody does or it does not matter any more. `ips` are all
    that its pod has, where ranks are to hear who is gone; else there are none.
    """

    name: str
    uid: str
    slots: int
    state: MemberState
    container: str
    address: str = ""
    grace_seconds: int | None = None
    ips: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScriptOrder:
    """Run `sh <script> <hosts>` in the launcher, at most once per `id` (scaling uid, attempt).

    `script` is the path of a file; where `is_shell`, a piece of shell text.
    """

    id: str
    script: str
    hosts: str
    env: tuple[tuple[str, str], ...]
    timeout_seconds: int
    is_shell: bool = False


@dataclass(frozen=True, slots=True)
class ToldNotice:
    """What is said for sure of the end of these pods, for scripts that run in them.

    `pods` are uids, of workers and of the launcher. `deadline` is the cluster's time, as in
    2026-01-31T12:00:00Z, "" where nobody says when.
    """

    reason: str
    source: str
    deadline: str
    pods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HostConfig:
    """What the operator wants: who may be listed. `generation` and `epoch` never fall.

    `notice_signal` is the name of the one by which processes of a worker are told of a notice, ""
    for none.
    """

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
    notices: tuple[ToldNotice, ...] = ()
    notice_signal: str = ""


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
    """What the broker of one epoch knows for sure.

    Every fact in it stays true; `unlisted`, `used_up` and `ready` are how it is now.

    What the config has forgotten, pods and orders, is forgotten here too: nobody asks any more.

    `listed` are pod uids that have been in the served list; `served_generation` the newest
    generation whose list horovodrun has read; `closed` the uids whose agents accept no process any
    more and have none; `exits` the last ended sessions per uid, for people; `ended` the exit code
    of the user's command, and `is_told_to_end` whether it had been sent SIGTERM before, so that
    a 0 may mean no more than that it has saved its state (None: a former broker does not say);
    `unlisted` the uids that the last config calls active and that this broker never lists (again);
    `used_up` the uids whose hosts a training that goes on never uses again, and in which nothing
    runs, with the exit code of the process that failed there; `ready` the uids of held members
    whose agents have answered, so that they are listed as soon as they are not held any more;
    `problems` what people should know, by a short reason ("ExecForbidden").
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
    unlisted: frozenset[str] = frozenset()
    is_told_to_end: bool | None = None
    used_up: Mapping[str, int] = field(default_factory=dict)
    ready: frozenset[str] = frozenset()
    version: int = KNOWS_HELD

    @property
    def is_done(self) -> bool:
        """Whether the user's command ended with 0, and nobody says that it was told to end."""
        return self.ended == 0 and not self.is_told_to_end


MAX_DOCUMENT = 2**20
"""Characters of a document: a ConfigMap holds no more."""
MAX_WORDS = 1024
MAX_OUTPUT = 4096
_MAX_PROBLEMS = 20
_MAX_TOLD = 4096
"""Ends of sessions, results of scripts, problems and used up workers of a report: no broker has as
many. It is read in each pass over its job, and other jobs wait for that."""
_MAX_MEMBERS = 4 * MAX_WORKERS
"""Of a config, and of those to whom its notices are: who comes, is there, or has gone lately."""
_MAX_ADDRESSES = 16_384
"""Of a config, several times those of the largest job and of all that it has lost; to read one
takes longer than to write it."""
_MAX_REASON = 64
MAX_NOTICE = 128
"""Characters of the reason of a notice, and of its source."""
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z|")
_MAX_NUMBER = 2**53
_MAX_CODE = 2**31 - 1
MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What reading a value of another type or size raises."""


AHEAD = 2**20
"""No generation or epoch of ours is so far ahead of what its reader knows of the job: others wrote
it, and counting on from there would soon come to the last number there is. What the operator takes
(AHEAD) its broker takes too (twice), and what a broker has taken the operator (four times)."""


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
                **({} if m.grace_seconds is None else {"graceSeconds": m.grace_seconds}),
                **({"ips": list(m.ips)} if m.ips else {}),
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
                **({"shell": True} if s.is_shell else {}),
            }
            for s in config.scripts
        ],
        **({"notices": [_encode_notice(n) for n in config.notices]} if config.notices else {}),
        **({"noticeSignal": config.notice_signal} if config.notice_signal else {}),
    }
    return json.dumps(body, separators=(",", ":"))  # people read the keys beside it


def read_ip(value: Any) -> str:
    """An address as agents take it: without a zone, which would be of one node.

    Equal ones are equal texts. TypeError and ValueError for what is none.
    """
    address = ip_address(_text(value))
    if "%" in str(address):
        raise ValueError(f"{value!r} is of one node alone")
    return str(address)


def decode_config(text: str) -> HostConfig:
    """Inverse of encode_config; raises InvalidDocument."""
    body = _load(text)
    try:
        _check_numbers(body)
        members = tuple(_decode_member(m) for m in body.get("members", ()))
        _check_members(members)
        return HostConfig(
            job=_text(body["job"]),
            namespace=_text(body["namespace"]),
            job_uid=_text(body["jobUid"]),
            generation=read_count(body["generation"]),
            epoch=read_count(body["epoch"]),
            replicas=read_count(body["replicas"]),
            min_replicas=read_count(body["minReplicas"]),
            members=members,
            scripts=tuple(_decode_order(s) for s in body.get("scripts", ())),
            version=read_count(body.get("version", 1)),
            notices=tuple(map(_decode_notice, body.get("notices", ()))),
            notice_signal=_find_signal(body.get("noticeSignal")),
        )
    except MALFORMED as error:
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
        **({"unlisted": sorted(report.unlisted)} if report.unlisted else {}),
        **({"usedUp": dict(sorted(report.used_up.items()))} if report.used_up else {}),
        **({"ready": sorted(report.ready)} if report.ready else {}),
        "exits": {
            uid: [{"session": e.session, "code": e.code, "reason": e.reason} for e in exits]
            for uid, exits in sorted(report.exits.items())
        },
        "scripts": {
            key: {"code": result.code, "output": result.output}
            for key, result in sorted(report.scripts.items())
        },
        "ended": report.ended,
        **({} if report.is_told_to_end is None else {"toldToEnd": report.is_told_to_end}),
        "problems": dict(sorted(report.problems.items())),
    }
    # As short as it can be: a ConfigMap holds 1 MiB.
    return json.dumps(body, separators=(",", ":"))


def decode_report(text: str) -> Report:
    """Inverse of encode_report; raises InvalidDocument."""
    body = _load(text)
    try:
        _check_told(body)
        return Report(
            epoch=read_count(body["epoch"]),
            launcher_uid=_text(body["launcherUid"]),
            broker_start=read_count(body["brokerStart"]),
            observed_generation=read_count(body.get("observedGeneration", 0)),
            served_generation=read_count(body.get("servedGeneration", 0)),
            listed=frozenset(map(_text, body.get("listed", ()))),
            closed=frozenset(map(_text, body.get("closed", ()))),
            unlisted=frozenset(map(_text, body.get("unlisted", ()))),
            used_up={_text(uid): _decode_end(code) for uid, code in body.get("usedUp", {}).items()},
            ready=frozenset(map(_text, body.get("ready", ()))),
            exits={
                _text(uid): tuple(map(_decode_exit, exits))
                for uid, exits in body.get("exits", {}).items()
            },
            scripts={
                _text(key): _decode_result(result)
                for key, result in body.get("scripts", {}).items()
            },
            ended=_decode_code(body.get("ended")),
            is_told_to_end=read_flag(body.get("toldToEnd")),
            problems=_decode_problems(body.get("problems", {})),
            version=read_count(body.get("version", 1)),
        )
    except MALFORMED as error:
        raise InvalidDocument(f"report: {type(error).__name__}: {error}") from error


def _load(text: str) -> dict[str, Any]:
    try:
        body = parse_json(text, MAX_DOCUMENT)
    except ValueError as error:
        raise InvalidDocument(f"not JSON: {error}") from error
    if not isinstance(body, dict):
        raise InvalidDocument("not a JSON object")
    return body


def _text(value: Any) -> str:
    """A name or an id; what is written there by a program is text."""
    if not isinstance(value, str):
        raise TypeError("text is wanted where there is none")
    return value


def read_count(value: Any) -> int:
    """A number that counts up; one that cannot be counted up further is none."""
    number = int(value)
    if not 0 <= number <= _MAX_NUMBER:
        raise ValueError(f"{value!r} is no number that counts")
    return number


def read_flag(value: Any) -> bool | None:
    """What is said of a yes or no; None where nothing is, which is neither."""
    return value if isinstance(value, bool) else None


def _decode_code(value: Any) -> int | None:
    """An exit code, as the status of a job can hold it."""
    if value is not None and not -_MAX_CODE <= int(value) <= _MAX_CODE:
        raise ValueError(f"{value!r} is no exit code")
    return None if value is None else int(value)


def _decode_end(value: Any) -> int:
    """The exit code of what is known to have ended."""
    code = _decode_code(value)
    if code is None:
        raise ValueError("an exit without a code")
    return code


def _decode_exit(body: Mapping[str, Any]) -> SessionExit:
    code, reason = _decode_end(body["code"]), clean(body.get("reason"), MAX_WORDS)
    return SessionExit(_text(body["session"]), code, reason)


def _decode_result(body: Mapping[str, Any]) -> ScriptResult:
    return ScriptResult(_decode_code(body["code"]), clean(body.get("output"), MAX_OUTPUT))


def _decode_problems(body: Mapping[str, Any]) -> dict[str, str]:
    """What user code may have had a hand in, as words for people, and not more than they read."""
    return {
        clean(reason, _MAX_REASON): clean(body[reason], MAX_WORDS)
        for reason in sorted(body)[:_MAX_PROBLEMS]
    }


def _check_told(report: Mapping[str, Any]) -> None:
    """Raise ValueError for a report of more than a broker can have to tell."""
    exits = report.get("exits", {})
    others = (report.get(name, {}) for name in ("scripts", "problems", "usedUp"))
    parts = (exits, *exits.values(), *others)
    if sum(map(len, parts)) > _MAX_TOLD:
        raise ValueError("more ends, results and problems than there can be")


def _check_numbers(config: Mapping[str, Any]) -> None:
    """Raise ValueError for more members, addresses of them or notices than there can be."""
    members, notices = config.get("members", ()), config.get("notices", ())
    if max(len(members), len(notices), sum(len(n["pods"]) for n in notices)) > _MAX_MEMBERS:
        raise ValueError("more members, or notices to them, than there can be")
    if sum(len(m.get("ips", ())) for m in members) > _MAX_ADDRESSES:
        raise ValueError("more addresses of members than there can be")


def _check_members(members: tuple[Member, ...]) -> None:
    """Raise ValueError for what would make a list that horovodrun must never see."""
    if len({member.uid for member in members}) != len(members):
        raise ValueError("a uid is there twice")
    alive = [member for member in members if member.state is not MemberState.GONE]
    format_hosts(Host(member.name, member.slots) for member in alive)


def _decode_member(body: Mapping[str, Any]) -> Member:
    return Member(
        name=_text(body["name"]),
        uid=_text(body["uid"]),
        slots=read_count(body["slots"]),
        state=MemberState(body["state"]),
        container=_text(body["container"]),
        address=_text(body.get("address", "")),
        grace_seconds=read_count(body["graceSeconds"]) if "graceSeconds" in body else None,
        ips=tuple(map(read_ip, body.get("ips", ()))),
    )


def _decode_order(body: Mapping[str, Any]) -> ScriptOrder:
    return ScriptOrder(
        id=_text(body["id"]),
        script=_text(body["script"]),
        hosts=_text(body["hosts"]),
        env=tuple((_text(k), _text(v)) for k, v in body.get("env", ())),
        timeout_seconds=read_count(body["timeoutSeconds"]),
        is_shell=body.get("shell") is True,
    )


def _encode_notice(notice: ToldNotice) -> dict[str, Any]:
    return {
        "reason": notice.reason,
        "source": notice.source,
        **({"deadline": notice.deadline} if notice.deadline else {}),
        "pods": list(notice.pods),
    }


def _decode_notice(body: Mapping[str, Any]) -> ToldNotice:
    deadline = _text(body.get("deadline", ""))
    if not _MOMENT.fullmatch(deadline):
        raise ValueError(f"{deadline[:MAX_NOTICE]!r} is no moment")
    return ToldNotice(
        clean(body["reason"], MAX_NOTICE),
        clean(body["source"], MAX_NOTICE),
        deadline,
        tuple(map(_text, body["pods"])),
    )


def _find_signal(value: Any) -> str:
    """A signal that we know; a newer operator may know others, of which nobody is told."""
    return str(value) if value in NOTICE_SIGNALS else ""
