"""`et logs`: the launcher and all workers in one stream, each line with its name.

Only reads: which pods there are, and whose log is shown. How a log is read is in logs.py, what is
left of gone workers in keeping.py, what cannot be had in missing.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import timedelta

from rich.text import Text

from et.clusters import Cluster
from et.errors import EtError, explain
from et.following import GIVE_UP
from et.keeping import Kept, read_kept
from et.logs import Beginning, LogLine, Place, PodLog, merge
from et.missing import (
    LAUNCHER,
    explain_absent,
    find_gone,
    has_left,
    has_started,
    is_wanted,
    list_notes,
)
from et.reading import has_ended, read_job, read_pods
from et.scaling import complete_names
from et.screens import Screen, read_colors
from et_kube.errors import KubeError
from et_kube.retrying import ask_again
from et_operator.codec.decoding import decode_job
from et_operator.model.jobs import TrainingJob
from et_operator.model.pods import Pod

LOOK = timedelta(seconds=2)
"""How often a follower looks for new workers, and opens a log again that broke off."""
PATIENCE = timedelta(minutes=1)
"""A log that cannot be read for so long is named; and given up, when its job has ended."""
COLORS = ("cyan", "green", "yellow", "blue", "magenta", "bright_cyan", "bright_green", "bright_red")


async def show_logs(
    cluster: Cluster, screen: Screen, name: str, beginning: Beginning, only: Sequence[str] = ()
) -> bool:
    """What the job's containers have printed, in the order of time; whether nothing is missing.

    Raises:
        EtError: what was asked for is not there, or not any more.
    """
    tail = Tail(cluster, screen, name, beginning, frozenset(complete_names(name, only)))
    await tail.show(await tail.begin(is_following=False))
    return tail.is_whole


async def follow_logs(
    cluster: Cluster, screen: Screen, name: str, beginning: Beginning, only: Sequence[str] = ()
) -> bool:
    """The logs so far, and then every line when it is printed, until the job has ended."""
    tail = Tail(cluster, screen, name, beginning, frozenset(complete_names(name, only)))
    await tail.show(await tail.begin(is_following=True))
    if not tail.is_over:
        await tail.follow()
    return tail.is_whole


@dataclass(slots=True)
class Tail:
    """The logs of one job: which pods have one, and how far each was shown."""

    cluster: Cluster
    screen: Screen
    job: str
    beginning: Beginning
    only: frozenset[str]
    has_ended: bool = False
    uid: str = ""
    logs: dict[str, PodLog] = field(default_factory=dict)
    left: Mapping[str, Place] = field(default_factory=dict)
    """How far those logs were read, at the last look, whose pods are removed."""
    told: set[str] = field(default_factory=set)
    job_seen: TrainingJob | None = None
    """At the last look, as its pods."""
    pods_seen: Sequence[Pod] = ()
    width: int = len(LAUNCHER)
    kept: set[str] = field(default_factory=set)
    """Workers whose last lines were shown, as a broker kept them."""
    is_over: bool = False
    """All that was asked for has gone: nothing more will come of it."""
    is_unread: bool = False
    """A log could not be read in which the last lines of one that has gone may be."""

    async def begin(self, *, is_following: bool) -> list[Pod]:
        """The first look; what it does not find is explained, or what is left of it shown.

        Raises:
            EtError: it is not there, and who follows would wait for it in vain.
        """
        job, pods = await self._read()
        gone = find_gone(job, pods, self.only, self.cluster.clock.now())
        kept = await read_kept(self.cluster, pods, gone) if gone else Kept()
        self.kept |= kept.logs.keys()
        left = self.only - kept.logs.keys()
        is_unread = kept.trouble is not None
        absent = explain_absent(job, pods, left, is_following=is_following, is_unread=is_unread)
        troubles = [*absent]
        if self.only and not left:
            troubles, self.is_over = [], True
        if troubles:
            there = ", ".join(self._shorten(pod.name) for pod in pods) or "no pod"
            words = f"{'; '.join(troubles)} (there is {there})"
            raise EtError(f"{words}: {explain(kept.trouble)}" if kept.trouble else words)
        self._show_kept(kept)
        for text in [] if self.is_over else list_notes(job, pods, self.only):
            self.screen.hint(text)
        return self._take(job, pods)

    def _show_kept(self, kept: Kept) -> None:
        there = {pod.name for pod in self.pods_seen}
        for log in kept.logs.values():
            self.screen.hint(log.describe(is_there=log.worker in there))
            for line in log.select(self.beginning, self.cluster.clock.now()):
                self._print(line)
        if kept.trouble is not None:
            self.is_unread = True
            self.screen.warn(f"the log of a launcher's broker is missing: {explain(kept.trouble)}")

    async def look(self) -> list[Pod]:
        """Read the job and its pods; those whose container has started."""
        return self._take(*await self._read())

    async def _read(self) -> tuple[TrainingJob, Sequence[Pod]]:
        self.job_seen = job = decode_job(await read_job(self.cluster, self.job))
        self.pods_seen = await read_pods(self.cluster, job)
        return job, self.pods_seen

    def _take(self, job: TrainingJob, pods: Sequence[Pod]) -> list[Pod]:
        self.has_ended = has_ended(job) or (self.uid not in {"", job.uid})
        self.uid = self.uid or job.uid
        wanted = [pod for pod in pods if is_wanted(pod, self.only)]
        for pod in wanted:
            if pod.uid in self.logs:
                self.logs[pod.uid].pod = pod
        return [pod for pod in wanted if has_started(pod)]

    @property
    def is_whole(self) -> bool:
        """Whether each log could be read to its end."""
        return not self.is_unread and not any(log.trouble for log in self.logs.values())

    async def show(self, pods: Sequence[Pod]) -> None:
        """Print what these pods have printed so far; KubeError where no log can be read."""
        logs = [self._open(pod) for pod in pods]
        async with aclosing(merge(logs)) as lines:
            async for line in lines:
                self._print(line)
        await self._show_left([log.pod.name for log in logs if log.trouble is not None])
        troubles = [log.trouble for log in logs if log.trouble is not None]
        if logs and len(troubles) == len(logs):
            raise troubles[0]
        for log in logs:
            self._tell_missing(log)

    async def _show_left(self, unread: Sequence[str]) -> None:
        """Of workers that have left, and whose own logs cannot be read: what a broker has kept."""
        job = self.job_seen
        left = [n for n in unread if job and has_left(job, n) and n not in self.kept]
        if left:
            kept = await read_kept(self.cluster, self.pods_seen, left)
            self.kept |= kept.logs.keys()
            self._show_kept(kept)

    async def follow(self) -> None:
        """Print what is printed from now on, by workers that are yet to come too."""
        tasks: dict[str, asyncio.Task[None]] = {}
        pods: Sequence[Pod] = ()
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    pods = await ask_again(self.cluster.clock, LOOK, GIVE_UP)(self.look)
                except EtError:  # the job was deleted; what its pods still say is shown
                    self.has_ended, pods = True, ()
                for pod in pods:
                    if pod.uid not in tasks:
                        tasks[pod.uid] = group.create_task(self._follow(self._open(pod)))
                self._end_silent(tasks, frozenset(pod.uid for pod in pods))
                if self.has_ended and all(task.done() for task in tasks.values()):
                    return
                await self.cluster.clock.sleep(LOOK)

    def _end_silent(self, tasks: Mapping[str, asyncio.Task[None]], there: frozenset[str]) -> None:
        """End the streams of removed pods whose logs have brought nothing since the last look.

        A kubelet may keep such a stream open.
        """
        places = {uid: self.logs[uid].place for uid in tasks if uid not in there}
        for uid, place in places.items():
            if self.left.get(uid) == place:
                self._tell_missing(self.logs[uid])
                tasks[uid].cancel()
        self.left = places

    async def _follow(self, log: PodLog) -> None:
        """One log to its end, opened again where it broke off; not for ever once the job ended."""
        clock, broken, is_lasting = self.cluster.clock, None, False
        while True:
            was_over = log.pod.is_terminal or log.pod.termination is not None
            try:
                async with aclosing(log.read(is_following=True)) as lines:
                    async for line in lines:
                        self._print(line)
                if not (log.is_gone and is_lasting):  # else what it printed meanwhile is lost
                    log.trouble = None
                broken, is_lasting = None, False
                if was_over or log.is_gone or self.has_ended:
                    return
            except KubeError as error:
                log.trouble = error
                broken = clock.monotonic() if broken is None else broken
                is_lasting = clock.monotonic() - broken >= PATIENCE.total_seconds()
                if is_lasting:
                    self._tell_missing(log)
                    if self.has_ended:
                        return
            await clock.sleep(LOOK)

    def _tell_missing(self, log: PodLog) -> None:
        if log.trouble is not None:
            what = f"the log of {self._shorten(log.pod.name)} is missing, or its end"
            words = f"{what}: {explain(log.trouble)}"
            if words not in self.told:
                self.told.add(words)
                self.screen.warn(words)

    def _open(self, pod: Pod) -> PodLog:
        self.width = max(self.width, len(self._shorten(pod.name)))
        return self.logs.setdefault(pod.uid, PodLog(self.cluster, pod, self.beginning))

    def _shorten(self, pod: str) -> str:
        return pod.removeprefix(f"{self.job}-")

    def _print(self, line: LogLine) -> None:
        name = self._shorten(line.pod)
        text = line.text
        if self.screen.out.is_terminal:  # what a terminal would show of a progress bar
            text = next((part for part in reversed(text.split("\r")) if part), "")
        shown = Text(f"{name:<{self.width}} | ", style=choose_color(name), end="")
        shown.append_text(read_colors(text))
        self.screen.say(shown)


def choose_color(name: str) -> str:
    """A color that is the same for a worker each time; the launcher has one of its own."""
    index = name.rsplit("-", 1)[-1]
    if name.startswith(LAUNCHER) or not index.isdecimal():
        return "bold"
    return COLORS[int(index) % len(COLORS)]
