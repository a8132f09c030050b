"""What the loss of a worker costs a training, judged from what was seen. No I/O, no clock.

Its seconds are those of one clock of ours.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from et.paces import Training
from et.steps import MAX_LINE
from et_contract.documents import POD_GONE
from et_contract.pods import build_worker_name
from et_operator.model.pods import Pod
from et_operator.model.specs import JobSpec, LossRecovery
from et_operator.model.statuses import JobStatus, Leaving, WorkerState
from et_operator.model.texts import count, name_some

SILENCE = 60.0
"""Seconds without a step, with all hosts back, after which no more is waited for."""
JOINING = 20.0
"""Seconds after which a host that is listed has joined the others, most often."""
LONG = 5.0
"""Seconds from which on it is worth a word how they are saved."""
STEADY = 5.0
"""Seconds for which it trains as before until that is believed: what breaks again is one loss."""
UNBROKEN = 30.0
"""Seconds of the same where no loss shows: a pod that was deleted without grace is away
at once, while its node may let its process train on for a while."""
HANGING = 30.0
"""A pause of so many seconds is more than a ring costs that is broken at once."""
_MOVED = re.compile(
    r"worker (\S+) left: (graceful|forced|gone)(?:, (\d{1,9}) s (before|after) its end)?"
)
_PULLED = re.compile(r"Successfully pulled image .* in ((?:\d{1,9}(?:\.\d+)?(?:h|ms|m|s))+)")
_LOST = re.compile(rf"edl: ([a-z0-9.-]{{1,253}}): {POD_GONE}")
"""What a process of ours that stood for one in that worker has said to the launcher's log."""
REMEMBERED = 1000
"""Lines before a loss in which it is seen how fast steps come, and which there were."""
FOLLOWED = timedelta(minutes=1)
"""After a loss, at least: the ring that takes the next worker in is a pause of it."""
LONGEST = timedelta(minutes=10)
"""After which nothing more is counted as the cost of one."""
MOST_WORKERS = 10_000
"""Whose losses are told apart."""
TOGETHER = timedelta(seconds=10)
"""Workers that are told of within so long of the first are one loss, as when a node is gone."""
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s)")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


@dataclass(slots=True)
class Loss:
    """One worker that goes, and what is seen of that."""

    worker: str
    hosts: int
    """The number of hosts that were listed before the worker went."""
    epoch: int
    training: Training = field(default_factory=Training)
    left: float | None = None
    """When it was first seen to go."""
    back: float | None = None
    """When as many hosts as before were listed again."""
    heir: str = ""
    is_away: bool = False
    how: Leaving | None = None
    spare: int | None = None
    """Seconds from its leaving to the moment that was named; below 0: it came too late."""
    has_restarted: bool = False
    pulled: float = 0.0
    """Seconds in which the image of the one in its place was pulled."""
    roomless: dict[str, float] = field(default_factory=dict)
    """Who in its place had no node, and since when."""
    waited: float = 0.0
    """Seconds for which the worker in its place waited for a node with room."""
    steady: float | None = None
    """Since when it trains as before, as far as was seen: a ring may break again at once."""
    signs: tuple[int, int, int] = (0, 0, 0)
    """What the steps have shown of it by the last look (Training.signs)."""
    is_announced: bool = False
    """The worker was told that it ends: an Event tells how it left."""

    def mark(self, now: float) -> None:
        """The worker goes now."""
        if self.left is None:
            self.left = now
            self.training.mark()

    def take_status(self, status: JobStatus, job: str, now: float) -> None:
        """The job's status as it is now."""
        records = {record.name: record for record in status.workers}
        record = records.get(self.worker)
        is_known = self.worker in {*status.target_workers, *status.current_workers}
        if not is_known or (record is not None and record.state is not WorkerState.JOINING):
            self.mark(now)
        self.has_restarted |= status.epoch > self.epoch
        hosts = list_hosts(status, job)
        if self.left is not None and self.back is None:
            new = [name for name in hosts if name != self.worker]
            if len(new) >= self.hosts:
                self.back = now

    def take_pods(self, pods: Sequence[Pod], old: Iterable[str], now: float) -> None:
        """The workers that are there now; those in `old` were there before."""
        self.is_away = all(pod.name != self.worker or pod.has_ended for pod in pods)
        for pod in pods:
            if pod.name in old:
                continue
            self.heir = self.heir or pod.name
            if pod.node is None and pod.unschedulable_message:
                self.roomless.setdefault(pod.name, now)
        nodeless = {pod.name for pod in pods if pod.node is None}
        for name, since in list(self.roomless.items()):
            if name in nodeless:
                self.waited = max(self.waited, now - since)

    def take_event(self, reason: str, about: str, text: str) -> None:
        """What somebody has told since the beginning."""
        moved = _MOVED.search(text) if reason == "WorkerMoved" else None
        if moved is not None and moved[1] == self.worker:
            self.how = Leaving(moved[2])
            if moved[3] is not None:
                self.spare = int(moved[3]) if moved[4] == "before" else -int(moved[3])
        pulled = _PULLED.match(text) if reason == "Pulled" and about == self.heir else None
        if pulled is not None:
            spans = _SPAN.findall(pulled[1])
            self.pulled = max(self.pulled, sum(float(n) * _UNITS[unit] for n, unit in spans))

    def is_over(self, now: float) -> bool:
        """Whether all has been seen that there is to see."""
        if self.left is None or self.back is None or not self.is_away:
            return False
        training = self.training
        if now - max(self.back, training.heard) >= SILENCE:
            return True
        if self.is_announced and self.how is None:
            return False
        if not training.tells:
            return True
        if training.size_before is None:  # when the new one takes part, no line tells
            has_joined = now - self.back >= JOINING
        else:
            has_joined = training.size == training.size_before
        before, self.signs = self.signs, training.signs
        goes_on = training.heard > self.back and training.is_ahead and has_joined
        if not goes_on or self.signs != before:
            self.steady = now if goes_on else None
            return False
        self.steady = now if self.steady is None else self.steady
        return training.heard - self.steady >= (STEADY if any(self.signs) else UNBROKEN)


@dataclass(slots=True)
class LastLoss:
    """The newest loss of which a launcher's log tells itself, line by line."""

    workers: list[str] = field(default_factory=list)
    at: datetime | None = None
    """When the first of them was told of."""
    training: Training = field(default_factory=Training)
    is_complete: bool = False
    """The log has told all that the loss cost."""
    _words: str = ""
    """What it cost, once all was told."""
    _before: deque[tuple[datetime, str]] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    _told: set[str] = field(default_factory=set)
    """Whose loss was told of: each of its ranks is, and no other worker is ever called so."""

    def take(self, at: datetime, text: str) -> None:
        """Read a line that was printed then."""
        found = _LOST.search(text)
        is_new = found is not None and found[1] not in self._told
        if found is not None and is_new and len(self._told) < MOST_WORKERS:
            self._told.add(found[1])
            if self.at is None or at - self.at > TOGETHER:
                self._begin(at)
            self.workers.append(found[1])
        text = text[:MAX_LINE]
        self._before.append((at, text))
        if self.at is None or self.is_complete:
            return
        self.training.take(at, text, 0.0)
        span = at - self.at
        is_over = span >= (FOLLOWED if self._has_gone_on else LONGEST)
        if is_over or self.training.is_full:
            self._words, self.training, self.is_complete = self.describe(), Training(), True

    def describe(self) -> str:
        """Who was lost, and what that cost.

        "" where no step is known that is new since then, or fewer than two that were before.
        """
        if self.is_complete:
            return self._words
        if not self._has_gone_on or self.training.usual is None:
            return ""
        verb = "was" if len(self.workers) == 1 else "were"
        cost = ", ".join(describe_training(self.training, 0.0))
        return f"{name_some(self.workers)} {verb} lost: {cost}"

    @property
    def _has_gone_on(self) -> bool:
        """The training has come further than it was."""
        training = self.training
        return len(training.moments) > (training.loss or 0) and training.is_ahead

    def _begin(self, at: datetime) -> None:
        self.workers, self.at, self.is_complete = [], at, False
        self.training = Training()
        for line in self._before:
            self.training.take(*line, 0.0)
        self.training.mark()


def list_hosts(status: JobStatus, job: str) -> list[str]:
    """The workers that are listed as hosts, as far as the job's status tells."""
    names = {build_worker_name(job, i) for one in status.listings for i in one.indexes}
    return [name for name in status.current_workers if name in names]


def describe(loss: Loss, now: float) -> Iterator[str]:
    """What it cost, a line each."""
    yield from describe_training(loss.training, _find_silence(loss, now))
    if loss.has_restarted:
        yield "its command ended and was started again: from its own checkpoint, if it wrote one"
    if loss.how is not None:
        yield f"{loss.worker} left: {loss.how.value}{_describe_spare(loss.spare)}"
    else:
        yield f"{loss.worker} {'has gone' if loss.is_away else 'has not gone'}"
    hosts = count(loss.hosts, "host")
    if loss.back is not None and loss.left is not None:
        heir = f", with {loss.heir} in its place" if loss.heir else ""
        yield f"{hosts} again {loss.back - loss.left:.0f} s after it began to leave{heir}"
    elif loss.left is not None:
        yield f"not {hosts} again after {now - loss.left:.0f} s"


def advise(loss: Loss, spec: JobSpec, now: float) -> Iterator[str]:
    """What would lower that, as far as what was seen tells."""
    training = loss.training
    pauses = training.list_pauses(_find_silence(loss, now))
    if training.again > 1:
        yield (
            f"a commit more often: the last one was {training.again} steps old, and with one at "
            "each step a loss costs one at most"
        )
    if loss.how is Leaving.FORCED or (loss.spare is not None and loss.spare < 0):
        yield "a commit more often, or a longer notice: it came to none before its time was over"
    is_hanging = bool(pauses) and max(pauses) >= HANGING
    if spec.loss_recovery is LossRecovery.WAIT and is_hanging and loss.how is not Leaving.GRACEFUL:
        yield "lossRecovery: Fast: with Wait the others hang in a broken ring until a time-out ends"
    if loss.pulled >= LONG:
        yield (
            f"an image that is present on the nodes: {loss.heir} waited {loss.pulled:.0f} s for it"
        )
    if loss.waited >= LONG:
        yield (
            f"room that is free: no node had any for {loss.heir} for {loss.waited:.0f} s (with "
            "fewer workers, or a queue that keeps some back, one finds it at once)"
        )
    least = find_least(spec)
    if loss.hosts - 1 <= least and least > 1:
        yield (
            f"{name_bounds(spec, least)} lower: with {count(least, 'host')} left, a second loss in "
            "that time would have stopped it"
        )


def find_least(spec: JobSpec) -> int:
    """With how few workers the job goes on."""
    return max(spec.worker.min_replicas or 1, spec.command_least)


def name_bounds(spec: JobSpec, least: int) -> str:
    """Which of its two bounds hold it there: `minReplicas 2 and --min-np`."""
    replicas = (spec.worker.min_replicas or 1) >= least
    command = spec.command_least >= least
    words = [f"minReplicas {least}"] if replicas else []
    words += [f"the least that its command goes on with ({least}, --min-np)"] if command else []
    return " and ".join(words)


def describe_training(training: Training, silent: float) -> Iterator[str]:
    """What it lost, as its log tells, which has told of no step for so many seconds."""
    if training.usual is None:
        steps = "too few steps before it" if training.tells else "no step"
        yield f"its log tells of {steps}: what the training lost is not known"
        return
    pauses = training.list_pauses(silent)
    usual = f" (from step to step it takes {training.usual:.1f} s)" if training.usual else ""
    if pauses:
        spans = ", then ".join(f"{pause:.1f} s" for pause in pauses)
        total = f", {sum(pauses):.1f} s in all" if len(pauses) > 1 else ""
        yield f"no step for {spans}{total}{usual}"
    else:
        yield f"no pause: each step came within {training.limit:.1f} s of the one before{usual}"
    yield _describe_again(training)


def _describe_again(training: Training) -> str:
    again, spacing = training.again, training.spacing
    if spacing > 1:  # what is between two lines nobody tells
        each = f"its log tells of each {spacing}th only"
        few = f"fewer than {spacing} steps trained again, if any" if not again else ""
        return f"{few or f'about {again} steps trained again'} ({each})"
    if not again:
        return "no step trained again"
    return f"{count(again, 'step')} trained again"


def _find_silence(loss: Loss, now: float) -> float:
    is_heard = loss.training.tells and not loss.training.is_full
    return now - loss.training.heard if is_heard else 0.0


def _describe_spare(spare: int | None) -> str:
    if spare is None:
        return ""
    return f", {abs(spare)} s {'before' if spare >= 0 else 'after'} its end"
