"""The API server's own record of every request: who asked for what, when, and what it answered.

Only reads files, and needs no cluster that runs. Benchmarks and tests judge by it who wrote what:
nothing here knows the operator.
"""

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
POD = "authentication.kubernetes.io/pod-name"
_SUCCESS = range(200, 300)
_ANSWERED = frozenset({"ResponseStarted", "ResponseComplete"})


class Mark(NamedTuple):
    """A place in the log."""

    file: int
    """The file's inode: a full file gets another name."""
    offset: int


class Right(NamedTuple):
    """One thing that an account may do."""

    group: str
    resource: str
    """With its subresource, `pods/exec`."""
    verb: str


@dataclass(frozen=True, slots=True)
class Request:
    """One stage of one request. What lasts, such as an exec or a watch, has two that answer it."""

    stage: str
    at: str
    """When it was received: RFC 3339, UTC, with microseconds, by the API server's clock."""
    staged_at: str
    """When it reached this stage."""
    right: Right
    namespace: str
    name: str
    account: str
    pod: str
    """The pod whose token it came with; "" for a person."""
    agent: str
    code: int
    is_allowed: bool

    @property
    def verb(self) -> str:
        """What was asked, as a Role names it."""
        return self.right.verb

    @property
    def target(self) -> str:
        """What it was about: the resource, with its subresource."""
        return self.right.resource

    @property
    def received(self) -> float:
        """UTC seconds."""
        return datetime.fromisoformat(self.at).timestamp()

    @property
    def done(self) -> float:
        """UTC seconds of this stage."""
        return datetime.fromisoformat(self.staged_at).timestamp()

    @property
    def is_answered(self) -> bool:
        """Whether the server has begun to answer."""
        return self.stage in _ANSWERED

    @property
    def is_write(self) -> bool:
        """Whether it asks for a change."""
        return self.verb in WRITES

    @property
    def is_done(self) -> bool:
        """Whether the server did what it was asked."""
        return self.code in _SUCCESS


def list_files(log: Path) -> list[Path]:
    """The log with the full files before it, oldest first: their names sort by time."""
    return [*sorted(log.parent.glob(f"{log.stem}-*{log.suffix}")), log]


def read_lines(log: Path, start: Mark | None = None) -> Iterator[bytes]:
    """Every whole line from `start` on, oldest first; files are never held whole."""
    with ExitStack() as stack:
        files = [stack.enter_context(path.open("rb")) for path in list_files(log)]
        if start is not None:
            numbers = [os.fstat(file.fileno()).st_ino for file in files]
            files = files[numbers.index(start.file) :]
            files[0].seek(start.offset)
        for file in files:
            yield from (line for line in file if line.endswith(b"\n"))  # else: being written


def decode(line: bytes) -> Request:
    """The request that a line is about."""
    event: dict[str, Any] = json.loads(line)
    about = event.get("objectRef") or {}
    user = event.get("user") or {}
    target = "/".join(filter(None, (about.get("resource"), about.get("subresource"))))
    return Request(
        stage=event.get("stage", ""),
        at=event["requestReceivedTimestamp"],
        staged_at=event.get("stageTimestamp", ""),
        right=Right(about.get("apiGroup", ""), target, event["verb"]),
        namespace=about.get("namespace", ""),
        name=about.get("name", ""),
        account=user.get("username", ""),
        pod=next(iter((user.get("extra") or {}).get(POD, [])), ""),
        agent=event.get("userAgent", ""),
        code=(event.get("responseStatus") or {}).get("code", 0),
        is_allowed=(event.get("annotations") or {}).get("authorization.k8s.io/decision")
        != "forbid",
    )
