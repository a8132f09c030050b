"""What is left of workers whose pods have gone: the last lines that the brokers of the job kept.

tailing.py asks where a worker's own log is gone. Only logs of brokers are read; a line there that
is not of the kind is passed over, and a broker that cannot be read is told.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime

from et.clusters import Cluster
from et.logs import Beginning, LogLine, parse_line
from et.missing import has_started
from et.reading import read_log_lines
from et_contract.names import BROKER_CONTAINER
from et_contract.pods import Role
from et_contract.tails import decode_last_lines
from et_kube.errors import KubeError
from et_operator.model.pods import Pod


@dataclass(slots=True)
class KeptLog:
    """The end of what one worker printed, with when it was written down: lines have no own time."""

    worker: str
    lines: list[LogLine] = field(default_factory=list)
    is_cut: bool = False

    def select(self, beginning: Beginning, now: datetime) -> list[LogLine]:
        """The lines that are asked for: what was written down before is older still."""
        since = None if beginning.since is None else now - beginning.since
        lines = [line for line in self.lines if since is None or line.at >= since]
        return lines if beginning.tail is None else lines[max(len(lines) - beginning.tail, 0) :]

    def describe(self, *, is_there: bool = False) -> str:
        """What is shown of it, and what is not; `is_there`: its pod is, and may have a log."""
        left = f"{self.worker} has left" + ("" if is_there else ", and its log with it")
        if not self.lines:
            since = " since the last of its launcher's brokers began" if self.is_cut else ""
            return f"{left}: its processes had printed nothing{since}"
        more = "; there may have been more before" if self.is_cut else ""
        return f"{left}: the last lines of its processes are from the launcher's broker{more}"


@dataclass(slots=True)
class Kept:
    """What was found, and why something may be missing."""

    logs: dict[str, KeptLog] = field(default_factory=dict)
    trouble: KubeError | None = None


async def read_kept(cluster: Cluster, pods: Sequence[Pod], workers: Collection[str]) -> Kept:
    """Look for these workers in what the brokers of all launchers have logged that are there.

    Only a broker writes there, one line of JSON at a time, and names whose lines they are.
    """
    kept = Kept()
    for pod in pods:
        if pod.role is not Role.LAUNCHER or not has_started(pod):
            continue
        params = {"container": BROKER_CONTAINER, "timestamps": "true"}
        try:
            async with aclosing(read_log_lines(cluster, pod, params)) as texts:
                async for text in texts:
                    _take(kept, pod, text, workers)
        except KubeError as error:
            kept.trouble = error
    return kept


def _take(kept: Kept, launcher: Pod, text: str, workers: Collection[str]) -> None:
    line = parse_line(launcher.name, text)
    last = decode_last_lines(line.text) if line is not None else None
    if line is None or last is None or last.worker not in workers:
        return
    log = kept.logs.setdefault(last.worker, KeptLog(last.worker))
    log.lines += [LogLine(line.at, last.worker, one.rstrip("\r")) for one in last.lines]
    log.is_cut = log.is_cut or last.is_cut
