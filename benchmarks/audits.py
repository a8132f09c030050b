"""Who wrote what about a job, and when exactly: as the API server's audit log has it.

Reads what devcluster keeps (devcluster/audits.py) and asks nobody. Who is the operator and who a
broker is told here, by their accounts, for all figures alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from devcluster.audits import Request, decode, read_lines

_OPERATOR = "system:serviceaccount:et-operator:et-operator"
_BROKER_SUFFIX = "-launcher"


def read_audit(log: Path, namespace: str) -> list[Request]:
    """All answered requests about a namespace, oldest first, from the log and what it rotated."""
    found = parse_requests(read_lines(log), namespace)
    return sorted(found, key=lambda request: request.received)


def parse_requests(lines: Iterable[bytes], namespace: str) -> Iterator[Request]:
    """The answered requests about a namespace among audit lines; most lines are about others."""
    wanted = f'"namespace":"{namespace}"'.encode()
    requests = (decode(line) for line in lines if wanted in line)
    return (r for r in requests if r.is_answered and r.namespace == namespace)


def find_writer(request: Request) -> str:
    """Who it was, in one word or two: the operator and its brokers have the same agent."""
    account = request.account
    if account == _OPERATOR:
        return "operator"
    if account.startswith("system:serviceaccount:") and account.endswith(_BROKER_SUFFIX):
        return "broker"
    return request.agent.partition("/")[0] or account


def count_writes(requests: Iterable[Request]) -> Counter[tuple[str, str, str]]:
    """Writes that were done, by (writer, verb, target)."""
    return Counter((find_writer(r), r.verb, r.target) for r in requests if r.is_write and r.is_done)
