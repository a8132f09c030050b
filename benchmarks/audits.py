"""The API server's own record of every request: who wrote what, and when exactly."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_SUCCESS = range(200, 300)
_ANSWERED = frozenset({"ResponseStarted", "ResponseComplete"})
"""What lasts, such as an exec or a watch, is told of twice; a write never lasts."""
_OPERATOR = "system:serviceaccount:et-operator:et-operator"
_BROKER_SUFFIX = "-launcher"


@dataclass(frozen=True, slots=True)
class Request:
    """One answered request; `received` and `done` are UTC seconds, by the API server's clock."""

    verb: str
    resource: str
    subresource: str
    namespace: str
    name: str
    user: str
    agent: str
    code: int
    received: float
    done: float

    @property
    def is_write(self) -> bool:
        """Whether it changed something."""
        return self.verb in WRITES and self.code in _SUCCESS

    @property
    def writer(self) -> str:
        """Who it was, in one word or two: the operator and its brokers have the same agent."""
        if self.user == _OPERATOR:
            return "operator"
        if self.user.startswith("system:serviceaccount:") and self.user.endswith(_BROKER_SUFFIX):
            return "broker"
        return self.agent.partition("/")[0] or self.user

    @property
    def target(self) -> str:
        """What it was about: the resource, with its subresource."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def read_audit(log: Path, namespace: str) -> list[Request]:
    """All answered requests about a namespace, oldest first, from the log and what it rotated."""
    found: list[Request] = []
    for path in (*sorted(log.parent.glob(f"{log.stem}-*{log.suffix}")), log):
        with path.open("rb") as lines:
            found += parse_requests(lines, namespace)
    return sorted(found, key=lambda request: request.received)


def parse_requests(lines: Iterable[bytes], namespace: str) -> Iterator[Request]:
    """The requests among audit lines; a line that is still being written is left out."""
    wanted = f'"namespace":"{namespace}"'.encode()
    for line in lines:
        if wanted not in line or not line.endswith(b"\n"):
            continue
        body = json.loads(line)
        if body["stage"] in _ANSWERED:
            about = body.get("objectRef", {})
            yield Request(
                verb=body["verb"],
                resource=about.get("resource", ""),
                subresource=about.get("subresource", ""),
                namespace=about.get("namespace", ""),
                name=about.get("name", ""),
                user=body.get("user", {}).get("username", ""),
                agent=body.get("userAgent", ""),
                code=body.get("responseStatus", {}).get("code", 0),
                received=parse_stamp(body["requestReceivedTimestamp"]),
                done=parse_stamp(body["stageTimestamp"]),
            )


def parse_stamp(text: str) -> float:
    """RFC 3339 with microseconds, as UTC seconds."""
    return datetime.fromisoformat(text).timestamp()


def count_writes(requests: Iterable[Request]) -> Counter[tuple[str, str, str]]:
    """Writes by (writer, verb, target)."""
    return Counter((r.writer, r.verb, r.target) for r in requests if r.is_write)
