"""`et watch`: a job as it trains, until its end.

Only reads, for as long as the job has not ended. The picture is pictures.py's, steps are those that
steps.py finds in the launcher's log.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta

from rich.live import Live

from et.clusters import Cluster
from et.errors import explain
from et.following import follow
from et.logs import LauncherLog
from et.pictures import Picture, find_stage, fit, list_notes, list_scalings, summarise
from et.reading import (
    explain_end,
    has_ended,
    names_cause,
    read_cause,
    read_job,
    read_scalings,
)
from et.screens import Screen, format_clock
from et.steps import Step
from et_kube.errors import KubeError
from et_kube.racing import run_unless
from et_kube.resources import TRAINING_JOBS, Json, Ref
from et_kube.retrying import TRANSIENT
from et_operator.codec.decoding import decode_job

TICK = timedelta(seconds=0.5)
LOOK = timedelta(seconds=2)
QUIET = 10.0
"""Without a live screen: the least seconds between two lines that tell only of steps."""


async def watch(cluster: Cluster, screen: Screen, name: str, *, stored: Json | None = None) -> bool:
    """Show the job until it has ended; whether it succeeded.

    Who has just made it gives it as `stored`: where it cannot be read yet, it is asked for again.
    """
    first = stored if stored is not None else await read_job(cluster, name)
    watcher = Watcher(cluster, screen, Picture(decode_job(first)), LauncherLog(cluster))
    ref = Ref(TRAINING_JOBS, cluster.namespace, name)
    with watcher.open():
        # The work is over with the job; what only tells of it is then cut short.
        await run_unless(watcher.tell(), follow(cluster, ref, watcher.see))
        await watcher.close()
    job = watcher.picture.job
    if watcher.picture.is_gone:
        screen.say(f"{name} was deleted")
    elif not screen.is_live:
        screen.say(f"{name} has {str(job.status.phase).lower()}: {explain_end(job)}")
    cause = await read_cause(cluster, job)
    if cause and not names_cause(explain_end(job), cause):
        screen.say(f"its error: {cause}   (et logs {name} launcher)")
    return job.status.phase == "Succeeded" and not watcher.picture.is_gone


@dataclass(slots=True)
class Watcher:
    """Keeps the picture up to date, and the screen with it."""

    cluster: Cluster
    screen: Screen
    picture: Picture
    log: LauncherLog
    live: Live | None = None
    are_scalings_old: bool = True
    said: set[str] = field(default_factory=set)
    stage: object = None
    step: Step | None = None
    told: float = 0.0
    notes: dict[str, str] = field(default_factory=dict)

    def open(self) -> Live | nullcontext[None]:
        """The part of the screen that is drawn again and again, where there can be one."""
        if not self.screen.is_live:
            return nullcontext()
        self.live = Live(console=self.screen.out, auto_refresh=False, transient=False)
        return self.live

    def see(self, obj: Json | None) -> bool:
        """Take the job as it is now; True when it has ended."""
        if obj is None:
            self.picture.is_gone = True
            return True
        before = self.picture.job.status.scaling
        self.picture.take(decode_job(obj))
        self.are_scalings_old |= before is not None or self.picture.job.status.scaling is not None
        if has_ended(self.picture.job):
            return True  # `close` shows it
        self.refresh()
        return False

    async def tell(self) -> None:
        """Read the log, the scalings and the clock; never ends."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._read_logs())
            group.create_task(self._read_scalings())
            while True:
                self.refresh()
                await self.cluster.clock.sleep(TICK)

    async def close(self) -> None:
        """The last look, with what was said while the job ended."""
        try:
            await self._look_at_scalings()
            await self._read_log(is_following=False)
        except KubeError as error:
            self.picture.note = f"the end of the log is missing: {error}"
        self.refresh()

    def refresh(self) -> None:
        """Draw, or print a line if there is something new."""
        now = self.cluster.clock.now()
        if self.live is not None:
            self.live.update(fit(self.picture, now, self.screen.out), refresh=True)
            return
        self._print()

    def _print(self) -> None:
        picture, clock = self.picture, self.cluster.clock
        told = [picture.loss.describe()] if picture.loss.is_complete else []
        for line in (*list_scalings(picture, clock.now(), is_over=True), *told):
            if line and line not in self.said:
                self.said.add(line)
                self.screen.say(f"{format_clock(clock.now(), clock.now())}  {line}")
        self._print_notes()
        stage, seconds = find_stage(picture), clock.monotonic()
        is_new_step = picture.progress.newest != self.step and seconds - self.told >= QUIET
        if stage == self.stage and not is_new_step:
            return
        self.stage, self.step, self.told = stage, picture.progress.newest, seconds
        self.screen.say(f"{format_clock(clock.now(), clock.now())}  {summarise(picture)}")

    def _print_notes(self) -> None:
        """A line for each trouble and wait that is new or told otherwise, or is over."""
        before, now = self.notes, self.cluster.clock.now()
        self.notes = list_notes(self.picture)
        said = [text for kind, text in self.notes.items() if before.get(kind) != text]
        said += [f"{kind} is over" for kind in before if kind not in self.notes]
        for text in said if not has_ended(self.picture.job) else ():
            self.screen.say(f"{format_clock(now, now)}  {text}")

    async def _read_scalings(self) -> None:
        """List them while one goes on, and when one is over."""
        while True:
            if self.are_scalings_old or self._has_open_scalings():
                try:
                    self.are_scalings_old = False
                    await self._look_at_scalings()
                except TRANSIENT:
                    self.are_scalings_old = True  # `follow` knows when it is enough
            await self.cluster.clock.sleep(LOOK)

    def _has_open_scalings(self) -> bool:
        phases = (scaling.status.phase for scaling in self.picture.scalings)
        return any(phase is None or not phase.is_final for phase in phases)

    async def _look_at_scalings(self) -> None:
        self.picture.scalings = tuple(await read_scalings(self.cluster, self.picture.job))

    async def _read_logs(self) -> None:
        """The newest launcher's log, opened again where it broke off."""
        while True:
            try:
                await self._read_log(is_following=True)
                self.picture.note = ""
            except TRANSIENT:
                pass  # as above
            except KubeError as error:
                self.picture.note = f"the log cannot be read: {explain(error)}"
            await self.cluster.clock.sleep(LOOK)

    async def _read_log(self, *, is_following: bool) -> None:
        async with aclosing(self.log.read(self.picture.job, is_following=is_following)) as lines:
            async for line in lines:
                self.picture.note = ""
                self.picture.progress.take(line.text)
                self.picture.loss.take(line.at, line.text)
