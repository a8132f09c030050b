"""`et rehearse`: one worker of a job that trains is taken away, to see what its loss costs.

The one command that harms a training, so it asks, and choosing.py refuses what would end it. What a
notice has told is taken back where it is interrupted; what the loss cost is judged in losses.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta

from et.choosing import check, check_state_stays, choose
from et.clusters import Cluster, get_meta
from et.errors import REFUSALS, EtError, explain
from et.logs import LauncherLog
from et.losses import Loss, advise, describe, list_hosts
from et.nodes import Departure, find_moment
from et.paces import MOST_LINES
from et.reading import (
    explain_end,
    has_ended,
    read_events_about,
    read_job,
    read_pods,
    read_scalings,
)
from et.screens import Screen, format_clock
from et.stories import find_count, read_event
from et.waiting import wait_until
from et_contract.paths import RANK_STATES_DIR
from et_contract.pods import Role
from et_kube.errors import Conflict, KubeError, NotFound
from et_kube.notices import LEAVING_AT, LEAVING_REASON
from et_kube.racing import run_unless
from et_kube.resources import PODS, Json, Ref
from et_kube.retrying import TRANSIENT
from et_kube.times import format_time
from et_operator.codec.decoding import decode_job
from et_operator.model.jobs import TrainingJob
from et_operator.model.pods import Pod
from et_operator.model.texts import count

LOOK = timedelta(seconds=1)
TRIES = 8
"""So often a pod may change between our look and our write."""
KILL_RANK = f"""
for file in {RANK_STATES_DIR}/[1-9]*; do
  rank=${{file##*/}} state=
  case $rank in *[!0-9]*) continue ;; esac
  [ -f "$file" ] && [ ! -L "$file" ] && read -r state < "$file"
  [ "$state" = joined ] && kill -KILL "$rank" && echo "$rank" && break
done 2> /dev/null
:
"""
"""For a worker's `sh`: it kills one that has said that it is in a ring, and prints which.

Whoever runs there may have put something else into that folder, under any name.
"""
EVENTS_EACH = 3.0
"""Seconds from one read of Events to the next."""
WHY = "et rehearse: to see what a loss costs"


@dataclass(frozen=True, slots=True)
class Wish:
    """Which worker, "" for the newest; killed, or told that it ends after a `span`."""

    worker: str = ""
    span: timedelta = timedelta(seconds=60)
    limit: timedelta = timedelta(minutes=10)
    is_kill: bool = False
    is_rank: bool = False
    """Of a kill: one of its ranks alone."""
    is_sure: bool = False


async def rehearse(cluster: Cluster, screen: Screen, name: str, wish: Wish) -> bool:
    """Take the worker, see what follows, and say what that cost; whether all was seen.

    Raises:
        EtError: the job could not do without it, or is not as it usually is; or somebody says no.
    """
    rehearsal = await prepare(cluster, screen, name, wish)
    if not wish.is_sure:
        rehearsal.ask()
        same = replace(wish, worker=rehearsal.worker.name)  # who is asked may think for long
        rehearsal = await prepare(cluster, screen, name, same)
    async with rehearsal.taking_back():
        await rehearsal.take()
        await rehearsal.watch()
    rehearsal.tell()
    return not rehearsal.end


async def prepare(cluster: Cluster, screen: Screen, name: str, wish: Wish) -> Rehearsal:
    """Read all that there is; EtError where no worker, or not this one, can be taken."""
    job = decode_job(await read_job(cluster, name))
    check(job, await read_scalings(cluster, job))
    pods = await read_pods(cluster, job)
    hosts = list_hosts(job.status, name)
    worker = choose(job, pods, hosts, wish.worker)
    check_state_stays(job, worker, cluster.clock.now())
    loss = Loss(worker.name, len(hosts), job.status.epoch, is_announced=not wish.is_kill)
    old = frozenset(pod.name for pod in pods)
    log = LauncherLog(cluster)
    found = Rehearsal(cluster, screen, wish, job, worker, loss, old, log)
    found.known.update(map(_identify, await found.read_events()))
    await found.read_past()
    return found


@dataclass(slots=True)
class Rehearsal:
    """One loss, from before it until its end."""

    cluster: Cluster
    screen: Screen
    wish: Wish
    job: TrainingJob
    worker: Pod
    loss: Loss
    old: frozenset[str]
    """Pods that were there before."""
    log: LauncherLog
    known: set[tuple[str, int]] = field(default_factory=set)
    """Events that were there, or that were told."""
    asked: float = 0.0
    """When Events were read last."""
    told: Mapping[str, str] = field(default_factory=dict)
    """The annotations by which the worker may have been told that it ends."""
    trouble: str = ""
    """Why the log cannot be read."""
    end: str = ""
    """Why not all was seen."""

    async def read_events(self) -> list[Json]:
        """About the job, who goes, and who comes: of a namespace there may be thousands."""
        key, names = self.job.key, [self.loss.worker, self.loss.heir]
        about = [key.name, *filter(None, names)]
        return await read_events_about(self.cluster, key.namespace, about)

    async def read_past(self) -> None:
        """What the log has by now."""
        try:
            await self._read_log(is_following=False)
        except KubeError as error:
            self.trouble = explain(error)

    def ask(self) -> None:
        """Say what will be done, and let somebody decide; EtError where he says no."""
        worker, loss = self.worker.name, self.loss
        if self.wish.is_rank:
            how = f"one rank in {worker} is killed, whose host Horovod uses no more"
        elif self.wish.is_kill:
            how = f"{worker} is killed: its pod is deleted without any grace"
        else:
            seconds = self.wish.span.total_seconds()
            how = f"{worker} is told that it ends in {seconds:.0f} s, and is moved before"
        first = "" if self.wish.is_kill else ", unless there is time and room to make that first"
        self.screen.hint(
            f"{how}. {self.job.key.name} trains on with {count(loss.hosts - 1, 'host')} until "
            f"another one is there{first}; what that costs is real"
        )
        if not loss.training.tells:
            why = f"cannot be read ({self.trouble})" if self.trouble else "tells of no step yet"
            self.screen.hint(f"its log {why}: what the training loses will not be known")
        if not self.screen.ask("Do it?"):
            raise EtError(f"nothing was done: {self.job.key.name} has all its workers")

    async def take(self) -> None:
        """Kill it, or tell it that it ends."""
        ref, uid = self._ref, self.worker.uid
        try:
            if self.wish.is_rank:
                await self._kill_rank()
                return
            if self.wish.is_kill:
                self.loss.mark(self._now)
                await self.cluster.api.delete(ref, uid=uid, grace_seconds=0)
                self.screen.say(f"{ref.name} is killed")
                return
            now = self.cluster.clock.now()
            moment = find_moment(Departure(self.wish.span), now).replace(microsecond=0)
            self.told = {LEAVING_AT: format_time(moment), LEAVING_REASON: WHY}
            await self._annotate(self.worker.resource_version, self.told)
        except REFUSALS as error:
            self.told = {}
            if isinstance(error, NotFound | Conflict):
                words = f"{ref.name} has gone or changed meanwhile: nothing was done"
                raise EtError(words) from error
            raise
        at = format_clock(moment, now)
        self.screen.say(f"{ref.name} is told that it ends at {at}; Ctrl-C takes that back")

    async def watch(self) -> None:
        """See what follows, until all hosts are back and train."""
        limit = self.wish.limit + (timedelta() if self.wish.is_kill else self.wish.span)
        work = wait_until(self.cluster.clock, self.look, limit)
        try:
            await run_unless(self._read_on(), work)
        except TimeoutError as error:
            why = f": {error}" if str(error) else ""
            self.end = f"not all of it was seen in {limit.total_seconds():.0f} s{why}"

    @asynccontextmanager
    async def taking_back(self) -> AsyncIterator[None]:
        """Whoever gives up, or is interrupted, takes back what was said of a worker that stays."""
        try:
            yield
        finally:
            if self.told and not self.loss.is_away:
                await self._take_back()

    async def look(self) -> bool:
        """Read job, pods and Events; whether nothing more is to come."""
        loss, now = self.loss, self._now
        name = self.job.key.name
        job = decode_job(await read_job(self.cluster, name))
        if job.uid != self.job.uid:
            raise EtError(f"{name} was deleted and made anew meanwhile")
        loss.take_status(job.status, name, now)
        workers = [pod for pod in await read_pods(self.cluster, job) if pod.role is Role.WORKER]
        loss.take_pods(workers, self.old, now)
        if has_ended(job):
            self.end = f"{name} has ended meanwhile ({job.status.phase}): {explain_end(job)}"
        elif loss.training.is_full:
            lines = f"{MOST_LINES} lines that tell of steps"
            self.end = f"not all of it was seen: {name}'s log has {lines}, and no more are counted"
        is_over = bool(self.end) or loss.is_over(self._now)
        if is_over or now - self.asked >= EVENTS_EACH:
            self.asked = now
            for event in await self.read_events():
                self._take_event(event)
        return is_over

    def tell(self) -> None:
        """What it cost, and what would lower that."""
        loss, now, spec = self.loss, self._now, self.job.spec
        if self.end:
            self.screen.warn(self.end)
        if self.trouble:
            self.screen.warn(f"the launcher's log cannot be read: {self.trouble}")
        self.screen.say(f"what the loss of {loss.worker} cost {self.job.key.name}:")
        for line in describe(loss, now):
            self.screen.say(f"  {line}")
        advice = list(advise(loss, spec, now)) if spec is not None else []
        if not advice:
            self.screen.say("nothing that was seen would lower that")
            return
        self.screen.say("what would lower that, or the risk:")
        for line in advice:
            self.screen.say(f"  {line}")

    @property
    def _now(self) -> float:
        return self.cluster.clock.monotonic()

    @property
    def _ref(self) -> Ref:
        return Ref(PODS, self.worker.namespace, self.worker.name)

    async def _kill_rank(self) -> None:
        """EtError where there is none: of ranks that say nothing nobody knows which they are."""
        name = self.worker.name
        self.loss.mark(self._now)
        run = self.cluster.containers.run
        killed = await run(self._ref, self.worker.container, ("sh", "-c", KILL_RANK))
        if not killed.strip():
            raise EtError(
                f"nothing was done: no process in {name} says that it is in a ring of Horovod's; "
                "with lossRecovery Wait, ssh, or another launcher than horovodrun none does"
            )
        self.screen.say(f"process {killed.split()[0]} in {name}, one of its ranks, is killed")

    async def _annotate(self, version: str, marks: Mapping[str, str | None]) -> None:
        """Pinned: what others have told it meanwhile may be its real end."""
        pins = {"uid": self.worker.uid, "resourceVersion": version}
        await self.cluster.api.patch(self._ref, {"metadata": {**pins, "annotations": marks}})

    async def _take_back(self) -> None:
        pod = self.worker
        try:
            words = await self._erase()
        except NotFound:
            return
        except KubeError as error:
            command = f"kubectl annotate pod {pod.name} -n {pod.namespace} {LEAVING_AT}-"
            told = f"{pod.name} is still told that it ends: {explain(error)}"
            self.screen.warn(f"{told}; `{command}` takes that back")
            return
        if words:
            self.screen.hint(words)

    async def _erase(self, tries: int = TRIES) -> str:
        """Take away what the worker was told, if it is that which it is told now; what to say."""
        stored = await self.cluster.api.get(self._ref)
        if get_meta(stored, "uid") != self.worker.uid:
            return ""
        found = stored["metadata"].get("annotations") or {}
        if {key: found[key] for key in self.told if key in found} not in ({}, self.told):
            return f"{self.worker.name} is told something else by now, and that stays"
        try:
            await self._annotate(get_meta(stored, "resourceVersion"), dict.fromkeys(self.told))
        except Conflict:
            if tries <= 1:
                raise
            return await self._erase(tries - 1)
        goes = self.loss.left is not None
        fate = "but it leaves already, and another takes its place" if goes else "and it stays"
        return f"what {self.worker.name} was told is taken back, {fate}"

    def _take_event(self, event: Json) -> None:
        identity = _identify(event)
        if identity in self.known:
            return
        self.known.add(identity)
        about = str((event.get("involvedObject") or {}).get("name") or "")
        self.loss.take_event(str(event.get("reason")), about, str(event.get("message")))
        entry = read_event(event, self.job, {})
        if entry is not None:
            at = format_clock(entry.at, self.cluster.clock.now())
            self.screen.say(f"  {at}  {entry.what}  {entry.text}")

    async def _read_on(self) -> None:
        """Follow the log, opened again where it broke off; never ends."""
        while True:
            try:
                await self._read_log(is_following=True)
                self.trouble = ""
            except TRANSIENT:
                pass  # `look` knows when it is enough
            except KubeError as error:
                self.trouble = explain(error)
            await self.cluster.clock.sleep(LOOK)

    async def _read_log(self, *, is_following: bool) -> None:
        async with aclosing(self.log.read(self.job, is_following=is_following)) as lines:
            async for line in lines:
                self.trouble = ""
                self.loss.training.take(line.at, line.text, self._now)


def _identify(event: Json) -> tuple[str, int]:
    return get_meta(event, "uid"), find_count(event)
