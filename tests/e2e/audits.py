"""What the API server was asked since a moment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from devcluster.audits import Mark, Request, decode, read_lines
from devcluster.settings import find_cluster


def mark_end(log: Path) -> Mark:
    """Where the log ends now."""
    status = log.stat()
    return Mark(status.st_ino, status.st_size)


class Audit:
    """What was answered since this was made."""

    def __init__(self) -> None:
        self._path = find_cluster().audit_log
        self._start = mark_end(self._path)

    def read(self, namespace: str | None = None) -> Iterator[Request]:
        """The requests (about this namespace), in the order in which they were answered."""
        for line in read_lines(self._path, self._start):
            request = decode(line)
            if request.stage == "ResponseComplete" and namespace in {None, request.namespace}:
                yield request
