"""The API server's own record of who asked for what, and what it answered."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from devcluster.settings import find_cluster

POD = "authentication.kubernetes.io/pod-name"
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True)
class Request:
    """One request that was answered."""

    verb: str
    resource: str
    """With its subresource, as in a Role: pods/exec."""
    namespace: str
    name: str
    code: int
    caller: str
    """The pod whose token it came with; "" for a person."""
    agent: str

    @property
    def is_write(self) -> bool:
        """Whether it asks for a change."""
        return self.verb in WRITES

    @property
    def is_done(self) -> bool:
        """Whether the server did what it was asked."""
        return 200 <= self.code < 300


class Audit:
    """What was answered since this was made."""

    def __init__(self) -> None:
        self._path = find_cluster().audit_log
        status = self._path.stat()
        self._file, self._start = status.st_ino, status.st_size

    def read(self, namespace: str | None = None) -> Iterator[Request]:
        """The requests (about this namespace), in the order in which they were answered."""
        for line in self._read_lines():
            event = json.loads(line)
            about = event.get("objectRef") or {}
            if event["stage"] == "ResponseComplete" and namespace in {None, about.get("namespace")}:
                yield _decode(event, about)

    def _read_lines(self) -> Iterator[bytes]:
        """Also from files that are full by now: their names sort by time, before the newest."""
        full = sorted(self._path.parent.glob(f"{self._path.stem}-*{self._path.suffix}"))
        files = [path.open("rb") for path in (*full, self._path)]
        with ExitStack() as stack:
            for file in files:
                stack.enter_context(file)
            numbers = [os.fstat(file.fileno()).st_ino for file in files]
            first = numbers.index(self._file)
            files[first].seek(self._start)
            for file in files[first:]:
                yield from (line for line in file if line.endswith(b"\n"))  # else: being written


def _decode(event: dict[str, Any], about: dict[str, Any]) -> Request:
    extra = event["user"].get("extra") or {}
    resource = "/".join(filter(None, (about.get("resource"), about.get("subresource"))))
    return Request(
        verb=event["verb"],
        resource=resource,
        namespace=about.get("namespace", ""),
        name=about.get("name", ""),
        code=event.get("responseStatus", {}).get("code", 0),
        caller=next(iter(extra.get(POD, [])), ""),
        agent=event.get("userAgent", ""),
    )
