"""What a pass knows, and what it has decided so far."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from et_contract.admissions import Placement
from et_scheduler.model.cluster import Cluster, PendingPod
from et_scheduler.model.decisions import Step
from et_scheduler.model.jobs import Gift, Job, Pod
from et_scheduler.model.queues import Queue
from et_scheduler.model.reasons import Explanation, Reason
from et_scheduler.model.rules import Rules
from et_scheduler.model.shapes import Shape
from et_scheduler.planning.hearing import Hearing
from et_scheduler.planning.ledgers import SCALE, Ledger
from et_scheduler.planning.matching import Mask
from et_scheduler.planning.pools import Piece, Pools
from et_scheduler.planning.promises import Promises
from et_scheduler.planning.rooms import Counts, Room
from et_scheduler.planning.sizes import find_floor
from et_scheduler.planning.standings import Standing

MOST_ONLY = 200
"""With more names than that `only` is left out of a placement, and `avoid` is cut."""


@dataclass(slots=True)
class Hold:
    """Nodes that are reserved for one who waits."""

    standing: Standing
    places: list[int]


class Draft:
    """One pass: everything is looked up and changed here, and nothing outside is."""

    def __init__(
        self, cluster: Cluster, queues: Iterable[Queue], jobs: Iterable[Job], now: int, rules: Rules
    ) -> None:
        self.cluster, self.now, self.rules = cluster, now, rules
        self.queues: Mapping[str, Queue] = {
            queue.name: queue for queue in sorted(queues, key=lambda queue: queue.name)
        }
        self.wake_at: int | None = None
        known = (job for job in jobs if not self._is_being_tried(job))
        found = sorted(known, key=lambda job: (job.namespace, job.name, job.uid))
        self.standings = {job.uid: Standing(job, now - rules.coming_most) for job in found}
        self.hearing = Hearing(self.standings, rules, now)
        shapes = {shape for job in found for shape in (job.launcher, job.worker)}
        shapes |= {pod.shape for job in found for pod in job.pods if pod.shape is not None}
        shapes |= {pod.shape for pod in cluster.pending}
        if cluster.headroom is not None:
            shapes.add(cluster.headroom.shape)
        limited = {name for queue in self.queues.values() for name in queue.limits}
        self.room = Room(cluster.nodes, shapes, limited)
        self.pools = Pools(self.room)
        self.ledger = Ledger(self.queues, self.pools)
        self.holds: dict[str, Hold] = {}
        self.told_holds: dict[str, str] = {}
        self._allowed: dict[tuple[tuple[int, int], str], Mask | None] = {}
        self.explanations: dict[str, Explanation] = {}
        self.promises = Promises(self.room)
        self._parts: dict[Piece, tuple[int, ...]] = {}
        self._wholes: list[int] = self.pools.total.tolist()
        self.givers: dict[str, list[Standing]] = {}
        for standing in self.standings.values():
            self._note_gift(standing)
        self.fits: dict[tuple[Shape, tuple[int, int]], int] = {}
        self.needs: dict[tuple[Shape | None, Shape], tuple[str, str]] = {}
        self.owners: dict[str, str] = {}
        self.donors: object | None = None
        self.largest: dict[tuple[Shape | None, Shape], int] = {}
        self.weights: Counts | None = None
        self.levelling: bool | None = None

    @cached_property
    def served(self) -> list[PendingPod]:
        """Pods of others for which workers may go: a node could hold them, and they are new.

        Each counts for a while only, so that one that can never be anywhere changes nothing.
        """
        rules, pending = self.rules, self.cluster.pending
        waits = (pod for pod in pending if not self.has_passed(pod.since, rules.service_counts))
        return [pod for pod in waits if self.room.could_hold(pod.shape)]

    @cached_property
    def is_room_wanted(self) -> bool:
        """Whether anybody waits for room alone: a pod of others, or who was told so last."""
        return bool(self.served) or any(one.lacks_room for one in self.standings.values())

    def get_amounts(self, standing: Standing, workers: int, *, launcher: bool = True) -> Counts:
        """What so many new workers of the job would take of what is shared."""
        amounts: Counts = self.pools.get_vector(standing.job.worker) * workers
        if launcher:
            amounts = amounts + self.pools.get_vector(standing.job.launcher)
        return amounts

    def list_pieces(self, standing: Standing, pods: Sequence[Pod]) -> list[Piece]:
        """As what these bound workers count, in their order."""
        if not pods:
            return []
        by_node, known = self.pools.by_node, dict[tuple[Shape | None, int | None], Piece]()
        kinds = [(pod.shape, by_node.get(pod.node)) for pod in pods]
        for shape, pool in set(kinds):
            known[shape, pool] = self.pools.get_piece(shape or standing.job.worker, pool)
        return [known[kind] for kind in kinds]

    def count_held(
        self, standing: Standing, workers: int, there: Sequence[Piece]
    ) -> Counter[Piece]:
        """What the job counts for with so many workers: those that are `there` as they are.

        Others count where they may come at all.
        """
        queue, launcher = self.get_queue(standing), standing.launcher
        counts = Counter(there[:workers])
        if workers > len(there):
            coming = standing.coming
            if self.may_come(queue, coming):
                counts[self.pools.get_piece(coming)] += workers - len(there)
        if launcher is not None:
            own = launcher.shape or standing.job.launcher
            counts[self.pools.find_piece(own, launcher.node)] += 1
        elif self.may_come(queue, standing.job.launcher):
            counts[self.pools.get_piece(standing.job.launcher)] += 1
        return counts

    def may_come(self, queue: str, shape: Shape) -> bool:
        """Whether some node could hold such pods, or one may come for them."""
        known = self.queues.get(queue)
        return self.room.could_hold(shape) or (known is not None and known.is_autoscaled)

    def get_held(self, standing: Standing, workers: int) -> Counts:
        """The same as amounts of what is shared."""
        there = self.list_pieces(standing, standing.workers[:workers])
        return self._sum(self.count_held(standing, workers, there))

    def get_taken(self, standing: Standing, pods: Sequence[Pod]) -> Counts:
        """What these bound workers take of what is shared."""
        return self._sum(Counter(self.list_pieces(standing, pods)))

    def _sum(self, counts: Mapping[Piece, int]) -> Counts:
        amounts = np.zeros_like(self.pools.total)
        for piece, count in counts.items():
            amounts += self.pools.vectors[piece] * count
        return amounts

    def get_queue(self, standing: Standing) -> str:
        """By which queue the job counts: what was fixed at its start, as long as it runs.

        Nothing else here reads a queue of a job: what `spec.queue` says may be anybody's, and is
        looked at by nobody before the next admission.
        """
        return standing.admission.queue if standing.is_admitted else standing.job.queue

    def wake(self, at: int) -> None:
        """Time alone will change something then."""
        if at > self.now:
            self.wake_at = at if self.wake_at is None else min(self.wake_at, at)

    def has_passed(self, since: int | None, wait: int) -> bool:
        """Whether so much time has passed; if it will, the pass is called again then."""
        if since is None:
            return False
        self.wake(since + wait)
        return self.now >= since + wait

    def _is_being_tried(self, job: Job) -> bool:
        """Whether the operator is about to say that the server would refuse its pods, or not.

        Admitted before, they would hold room for a minute and never be created.
        """
        is_new = job.is_waiting and job.admission is None and job.tried_since is not None
        return is_new and not self.has_passed(job.tried_since, self.rules.tried_within)

    def list_admitted(self) -> list[Standing]:
        """All who may have pods, by name."""
        return [one for one in self.standings.values() if one.is_admitted]

    def list_waiting(self) -> list[Standing]:
        """All who ask for a start, or for a larger least size, by name."""
        return [one for one in self.standings.values() if one.is_waiting or one.missing]

    def change(self, standing: Standing, step: Step, **fields: Any) -> None:
        """Decide something about a job. The earliest step of a job's changes counts."""
        standing.admission = replace(standing.admission, **fields)
        standing.step = step if standing.step is None else min(standing.step, step)

    def explain(self, standing: Standing, reason: Reason, message: str) -> None:
        """Why it waits; written into the job when the reason is another one than before."""
        self.explanations[standing.job.uid] = Explanation(reason, message)

    def resize(self, standing: Standing, workers: int) -> None:
        """Book the difference for the queue; `admission.workers` is changed by the caller."""
        before = self.get_held(standing, standing.size)
        self.book_more(standing, self.get_held(standing, workers) - before)

    def book_more(self, standing: Standing, amounts: Counts) -> None:
        """Its queue has so much more."""
        self.ledger.book(self.get_queue(standing), amounts)

    def shrink(
        self, standing: Standing, pods: Iterable[Pod], gift: Gift | None, reason: str
    ) -> None:
        """These bound workers are asked to go, and what is not bound yet is given up.

        Between two allowed sizes the lower counts, so that more may leave than were asked for. What
        was given before and has not come is not waited for: the gift is the new one then. Who was
        asked before is named as long as he is there.
        """
        leaving, given = list(pods), standing.admission.gave_for
        if standing.overdue and not standing.leaving and standing.step is not Step.GIVE:
            given = None
        before = self.get_held(standing, standing.size)
        names = {pod.name for pod in leaving}
        there = {pod.name for pod in standing.job.pods}
        stay = [pod for pod in standing.workers if pod.name not in names]
        workers = min(find_floor(standing.job, len(stay)), standing.size)
        extra = stay[workers:]
        for pod in extra:
            self.expect_worker(standing, pod)
        standing.workers = stay[:workers]
        self.book_more(standing, self.get_held(standing, workers) - before)
        asked = {pod.name for pod in (*leaving, *extra)}
        self.change(
            standing,
            Step.GIVE,
            workers=workers,
            leaving=tuple(sorted(there.intersection(standing.admission.leaving).union(asked))),
            leaving_since=self.now if asked else standing.admission.leaving_since,
            gave_for=given or gift,
            grown_from=standing.admission.grown_from if workers > len(stay) else 0,
            reason=Reason.GAVE_WAY,
            message=reason,
        )
        standing.unbound = []
        self._note_gift(standing)

    def find_places(self, job: Job, pods: Iterable[Pod]) -> list[tuple[Shape, list[int]]]:
        """On which nodes these pods of the job are, one for each of them, by what they take."""
        places = self.room.places
        found: dict[tuple[Shape | None, bool], list[int]] = defaultdict(list)
        for pod in pods:
            place = places.get(pod.node)
            if place is not None:
                found[pod.shape, pod.is_launcher].append(place)
        return [
            (shape or (job.launcher if is_launcher else job.worker), there)
            for (shape, is_launcher), there in found.items()
        ]

    def expect_whole(self, standing: Standing, sign: int = 1) -> None:
        """The room of all that stays of it will be free; -1 takes that back."""
        for shape, places in self.find_places(standing.job, standing.list_staying()):
            counts = Counter(places)
            self.room.expect(list(counts), [sign * n for n in counts.values()], shape)

    def expect_worker(self, standing: Standing, pod: Pod, count: int = 1) -> None:
        """Its room will be free; -1 takes that back."""
        place = self.room.places.get(pod.node)
        if place is not None:
            self.room.expect((place,), (count,), pod.shape or standing.job.worker)

    def reserve(self, standing: Standing, places: Sequence[int]) -> None:
        """It holds these nodes, and nobody else does any more; without nodes it holds nothing.

        Who held one of them is of lower priority, or it was not to be had.
        """
        mine = set(places)
        self.hold(standing, places)
        for uid, hold in list(self.holds.items()):
            if hold.standing is not standing and not mine.isdisjoint(hold.places):
                hold.places = [place for place in hold.places if place not in mine]
            if not hold.places:
                del self.holds[uid]

    def hold(self, standing: Standing, places: Sequence[int]) -> None:
        """The same of nodes that nobody else holds."""
        self._forget_holds()
        self.holds[standing.job.uid] = Hold(standing, list(places))

    def end_hold(self, standing: Standing) -> None:
        """It holds nodes no more."""
        if self.holds.pop(standing.job.uid, None) is not None:
            self._forget_holds()

    def _forget_holds(self) -> None:
        """What was found of them is asked for by thousands, and holds until one changes."""
        self.told_holds.clear()
        self._allowed.clear()

    def list_reserved(self, standing: Standing) -> set[int]:
        """Nodes on which this job's launcher and least workers may not be.

        Those that are held for somebody of strictly lower priority are his no more.
        """
        mine = self.rank_priority(standing)
        return {
            place
            for hold in self.holds.values()
            if hold.standing is not standing and self.rank_priority(hold.standing) >= mine
            for place in hold.places
        }

    def get_allowed(self, standing: Standing) -> Mask | None:
        """The same as a mask of where they may be; None: anywhere."""
        uid = standing.job.uid
        key = (self.rank_priority(standing), uid if uid in self.holds else "")
        if key not in self._allowed:
            reserved = list(self.list_reserved(standing))
            allowed = np.ones(len(self.room.nodes), dtype=np.bool_)
            allowed[reserved] = False
            self._allowed[key] = allowed if reserved else None
        return self._allowed[key]

    def find_told(self, standing: Standing) -> Mask | None:
        """Where the pods of its gang were told to look; None: nobody has said."""
        placement, named = standing.admission.placement, self.room.named
        names = (*placement.only, placement.launcher) if placement.only else ()
        told = [place for name in names if name for place in named.get(name, ())]
        if not told:
            return None
        allowed = np.zeros(len(self.room.nodes), dtype=np.bool_)
        allowed[told] = True
        return allowed

    def rank_priority(self, standing: Standing) -> tuple[int, int]:
        """Whose reservation yields to whose: by the queue, then by the job."""
        queue = self.queues.get(self.get_queue(standing))
        return (queue.priority if queue else 0, standing.job.priority)

    def build_placement(
        self, standing: Standing, places: Iterable[int], launcher: int | None = None
    ) -> Placement:
        """Hostnames for the operator: on which nodes new pods must be, and must not be.

        Nobody is bound where one of the nodes has no hostname: to the others alone he might be
        sent for ever, though they are full.
        """
        chosen, hostnames = set(places), self.room.hostnames
        only = sorted(hostnames[place] for place in chosen)
        avoided = {p for h in self.holds.values() if h.standing is not standing for p in h.places}
        avoid = sorted(hostnames[place] for place in avoided - chosen if hostnames[place])
        return Placement(
            "" if launcher is None else hostnames[launcher],
            tuple(only) if all(only) and len(only) <= MOST_ONLY else (),
            tuple(avoid[:MOST_ONLY]),
        )

    def name_for_others(self, standing: Standing) -> str:
        """How sentences name a job: by its queue, for its namespace is nobody else's business."""
        return f"a job of queue {self.get_queue(standing)}"

    def note_parts(self, standing: Standing, there: Sequence[Piece]) -> None:
        """Compute the shares of the cluster of its launcher and of each worker, on average."""
        launcher, job = standing.launcher, standing.job
        if not there and launcher is None:
            standing.launcher_parts = self._get_parts(self.pools.get_piece(job.launcher))
            standing.worker_parts = self._get_parts(self.pools.get_piece(job.worker))
            return
        own = (launcher.shape or job.launcher, launcher.node) if launcher else (job.launcher,)
        standing.launcher_parts = self._get_parts(self.pools.find_piece(*own))
        pieces = there or [self.pools.get_piece(job.worker)]
        if len(set(pieces)) == 1:
            standing.worker_parts = self._get_parts(pieces[0])
            return
        columns = zip(*(self._get_parts(piece) for piece in pieces), strict=True)
        standing.worker_parts = tuple(sum(column) // len(pieces) for column in columns)

    def _get_parts(self, piece: Piece) -> tuple[int, ...]:
        if piece not in self._parts:
            pairs = zip(self.pools.vectors[piece].tolist(), self._wholes, strict=True)
            self._parts[piece] = tuple(n * SCALE // whole if whole else 0 for n, whole in pairs)
        return self._parts[piece]

    def _note_gift(self, standing: Standing) -> None:
        gift = standing.admission.gave_for
        if gift is not None:
            givers = self.givers.setdefault(gift.uid, [])
            if standing not in givers:
                givers.append(standing)
