"""The API server's audit log: which rights our accounts used, and which they were refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devcluster.audits import Request, Right, decode, list_files, read_lines
from devcluster.settings import AUDIT_BACKUPS

OPERATOR = "system:serviceaccount:et-operator:et-operator"
SCHEDULER = "system:serviceaccount:et-operator:et-scheduler"
NOTICES = "system:serviceaccount:et-notices:et-notices"
BROKERS = "brokers"
"""All of them together: each has the account of its job."""
AGENT = "et-operator/"
"""How the user agent of operator and brokers begins, whatever account they have."""
REFUSED_ON_PURPOSE = "et-tests/refused-on-purpose"
"""User agent of requests that tests make, with our accounts' tokens, in order to be refused."""
_ENDS = ("trainingjobs", "namespaces")
_WANTED = (b"et-operator", b"et-notices", b'"delete')
"""One of these is in every line that matters; most lines are other people's."""


@dataclass
class Audit:
    """What the log says about one kind of account."""

    used: set[Right] = field(default_factory=set)
    refused: list[Request] = field(default_factory=list)
    """Refused for good: the account was not allowed the same later on."""


def read_requests(folder: Path, since: str = "") -> Iterator[Request]:
    """Every request from `since` (RFC 3339, UTC) on, oldest first; files are never held whole.

    Raises AssertionError if older files may have been thrown away.
    """
    log = folder / "audit.log"
    files = len(list_files(log))
    assert files <= AUDIT_BACKUPS, f"{files} files: the run's beginning may be lost"
    for line in read_lines(log):
        if any(word in line for word in _WANTED):
            request = decode(line)
            if request.target and request.at >= since:
                yield request


def examine(requests: Iterable[Request]) -> dict[str, Audit]:
    """The audit of each program by its account, and that of all brokers together."""
    audits = {kind: Audit() for kind in (OPERATOR, SCHEDULER, NOTICES, BROKERS)}
    ends: dict[tuple[str, str], str] = {}
    for request in requests:
        if request.verb.startswith("delete") and request.target in _ENDS:
            place = (request.namespace or request.name, find_job(request))
            ends[place] = min(request.at, ends.get(place, request.at))
        if request.agent.startswith(REFUSED_ON_PURPOSE):
            continue
        kind = BROKERS if is_broker(request) else request.account
        if kind in audits:
            note(audits[kind], request)
    # Only now: a request is told when it is answered, and to delete many objects takes its time.
    for kind in (NOTICES, BROKERS):
        audit = audits[kind]
        audit.refused = [request for request in audit.refused if not is_orphan(request, ends)]
    return audits


def find_job(request: Request) -> str:
    """The job that a deletion is about; "" for all of the namespace."""
    return request.name if request.target == "trainingjobs" else ""


def is_broker(request: Request) -> bool:
    """Whether a launcher's sidecar asks, under whatever account its job has."""
    return request.agent.startswith(AGENT) and "-launcher" in request.pod


def is_orphan(request: Request, ends: Mapping[tuple[str, str], str]) -> bool:
    """Whether the broker's job, or et-notices, was taken away before: rights go before pods do."""
    home = request.account.split(":")[2]
    job = request.pod.rpartition("-launcher")[0]
    times = (ends.get((home, name)) for name in ("", job))
    return any(time is not None and time <= request.at for time in times)


def note(audit: Audit, request: Request) -> None:
    """Take one request; a refusal is forgotten when the same is allowed later.

    An API server refuses everything in the first second of its life, and a Role counts a moment
    after it was made.
    """
    if request.is_allowed:
        audit.used.add(request.right)
        audit.refused = [r for r in audit.refused if not is_same(r, request)]
    else:
        audit.refused.append(request)


def is_same(one: Request, other: Request) -> bool:
    """Whether both ask for the same; for which object of a namespace does not matter here."""
    return (one.account, one.right, one.namespace) == (other.account, other.right, other.namespace)


def spread(rules: Iterable[Mapping[str, Any]]) -> set[Right]:
    """The rights that rules of a Role give."""
    return {
        Right(group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
