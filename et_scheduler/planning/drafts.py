"""What a pass knows, and what it has decided so far.

Every step of a pass changes the same one, and nothing that the pass was given. By which queue a job
counts is asked here alone (`get_queue`); what is not over yet has the pass called again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from typing import Any

from et_scheduler.model.cluster import Cluster, Node, PendingPod
from et_scheduler.model.decisions import Step
from et_scheduler.model.jobs import Gift, Job, Pod
from et_scheduler.model.queues import Queue
from et_scheduler.model.reasons import Explanation, Reason
from et_scheduler.model.rules import Rules
from et_scheduler.model.shapes import Shape
from et_scheduler.planning.counting import Counting
from et_scheduler.planning.fitting import Gang, Seats, count_largest
from et_scheduler.planning.hearing import Hearing
from et_scheduler.planning.holds import Holds
from et_scheduler.planning.ledgers import Ledger
from et_scheduler.planning.pools import Pools
from et_scheduler.planning.promises import Promises
from et_scheduler.planning.rationing import choose_first
from et_scheduler.planning.refusing import Obstacle, find_refusal
from et_scheduler.planning.rooms import Counts, Room
from et_scheduler.planning.sizes import find_floor
from et_scheduler.planning.standings import Standing

_KIND = attrgetter("shape", "is_launcher")
MOST_SPARED = 5
"""So often the hour doubles in which nobody gives for one that did not stand, or not grow."""
ALLOWED = 5
"""So often one may fail to stand in a row before nobody leaves for it any more, and it holds no
nodes, for hours."""
MOST_HELD = 5
"""So often the turns double in which nodes are held, and open."""


def count_hours(attempts: int, allowed: int = 1) -> int:
    """For how long nobody gives for one that has failed so often in a row; 0 while it may."""
    return 1 << min(attempts - allowed - 1, MOST_SPARED) if attempts > allowed else 0


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
        overdue_since = now - rules.coming_most
        self.standings = {job.uid: Standing(job, overdue_since) for job in found}
        self.hearing = Hearing(self.standings, rules, now)
        shapes = {shape for job in found for shape in (job.launcher, job.worker)}
        shapes |= {pod.shape for job in found for pod in job.pods if pod.shape is not None}
        self._pending = self._select_pending()
        shapes |= {pod.shape for pod in self._pending}
        if cluster.headroom is not None:
            shapes.add(cluster.headroom.shape)
        limited = {name for queue in self.queues.values() for name in queue.limits}
        nodes = map(self._look_at, cluster.nodes)
        self.room = Room(nodes, shapes, limited, overdue_since)
        for at in {one.since for node in cluster.nodes for one in node.leaving}:
            self.has_passed(at, rules.coming_most)
        self.pools = Pools(self.room, self._list_many)
        self.ledger = Ledger(self.queues, self.pools)
        self.holds = Holds(self.room, self.rank_priority, self.is_open, overdue_since)
        self.explanations: dict[str, Explanation] = {}
        self.promises = Promises(self.room)
        self.counting = Counting(self.queues, self.room, self.pools, self.get_queue)
        self.givers: dict[str, list[Standing]] = {}
        for standing in self.standings.values():
            self._note_gift(standing)
        self.fits: dict[tuple[Shape, tuple[int, int]], int] = {}
        self.needs: dict[tuple[Shape | None, Shape], tuple[str, str]] = {}
        self.without_jobs: dict[Hashable, int] = {}
        self.owed_kinds: dict[str, int] | None = None
        self.owners: dict[str, str] = {}
        self.donors: object | None = None
        self.largest: dict[tuple[Shape | None, Shape], int] = {}
        self.unseated: list[tuple[Standing, Gang]] = []
        self.kept: list[tuple[Gang, Seats]] = []
        self.awaited: set[str] = set()
        self.weights: Counts | None = None
        self.levelling: bool | None = None

    @cached_property
    def served(self) -> list[PendingPod]:
        """Pods of others for which workers may go: a node that suits could hold one, and it is new.

        Each counts for a while only, so that one that can never be anywhere changes nothing.
        """
        return [pod for pod in self._pending if self.room.could_take(pod.shape)]

    @cached_property
    def is_room_wanted(self) -> bool:
        """Whether anybody waits for room alone: a pod of others, or who was told so last."""
        return bool(self.served) or any(one.lacks_room for one in self.standings.values())

    @cached_property
    def told_by_queue(self) -> Mapping[str, list[Standing]]:
        """Who was told why he waits, in the order of that: asked once nobody starts any more."""
        return self._sort(self.standings[uid] for uid in self.explanations)

    @cached_property
    def admitted_by_queue(self) -> Mapping[str, list[Standing]]:
        """All who may have pods, by name: asked once nobody starts any more."""
        return self._sort(self.list_admitted())

    def _sort(self, standings: Iterable[Standing]) -> Mapping[str, list[Standing]]:
        found = defaultdict[str, list[Standing]](list)
        for standing in standings:
            found[self.get_queue(standing)].append(standing)
        return found

    def get_queue(self, standing: Standing) -> str:
        """By which queue the job counts: what was fixed at its start, as long as it runs.

        Nothing else here reads a queue of a job: what `spec.queue` says may be anybody's, and is
        looked at by nobody before the next admission.
        """
        return standing.admission.queue if standing.is_admitted else standing.job.queue

    def find_refusal(self, standing: Standing) -> Obstacle | None:
        """Why its queue lets it start nothing, if it does not."""
        return find_refusal(self.queues, self.get_queue(standing), standing.job.namespace)

    def is_autoscaled(self, standing: Standing) -> bool:
        """Whether nodes may come for the pods of its queue."""
        queue = self.queues.get(self.get_queue(standing))
        return queue is not None and queue.is_autoscaled

    def wake(self, at: int) -> None:
        """Have the next pass come at `at` at the latest: time alone will change something then."""
        if at > self.now:
            self.wake_at = at if self.wake_at is None else min(self.wake_at, at)

    def has_passed(self, since: int | None, wait: int) -> bool:
        """Whether so much time has passed; if it will, the pass is called again then."""
        if since is None:
            return False
        self.wake(since + wait)
        return self.now >= since + wait

    def has_waited(self, standing: Standing) -> bool:
        """Whether the job has fitted nowhere for long enough to hold nodes, and to wait for few."""
        return self.has_passed(standing.admission.unfit_since, self.rules.reserve_after)

    def has_lost_promise(self, standing: Standing) -> bool:
        """Whether it could not be written for so long that what it was promised is nobody's.

        It could not be taken back either: its author would keep room for pods that never come.
        """
        return self.has_passed(standing.job.frozen_since, self.rules.coming_most)

    def find_spared(self, standing: Standing, allowed: int = 1) -> int:
        """For how many hours no whole jobs go for it: twice or more in a row it did not stand.

        Nor do workers leave for it, or is it given nodes to hold, once it has failed more often
        than ALLOWED, which is `allowed` then: what keeps it may be over in a minute, and costs them
        no step.

        What keeps its pods from their nodes may be anything that nobody here models, or a quota: it
        would end one training after the other, and never begin. Or it was what binds pods, or makes
        them, and is over: an hour later one goes again, then twice as long after that. 0: they go.
        """
        admission, rules = standing.admission, self.rules
        hours = count_hours(admission.attempts, allowed) if standing.is_waiting else 0
        is_over = not hours or self.has_passed(admission.since, hours * rules.evicted_again)
        return 0 if is_over else hours

    def find_pause(self, standing: Standing) -> int:
        """For how many hours no more whole jobs go for it: twice they did, and it did not stand.

        Others have had the room, as pods of others that had waited for any: whoever asked again at
        once would have one job go after the other, and never begin. After an hour some go once
        more, then after two.
        """
        admission, rules = standing.admission, self.rules
        hours = count_hours(admission.rounds) if admission.round_at is not None else 0
        is_over = not hours or self.has_passed(admission.round_at, hours * rules.evicted_again)
        return 0 if is_over else hours

    def is_open(self, standing: Standing) -> bool:
        """Whether others may start for now on the nodes that it holds.

        Who is on one of them may stay there for good, and all who come would wait with it beside
        idle nodes. So they are its own for an hour, and then open for as long, in turns of which
        each is twice as long as the one before: what ends within one of them has ended. Where it
        has none for a while they go on.
        """
        begun, turn = standing.admission.reserved_since, self.rules.held_first
        if begun is None or self.now < begun:
            return False
        for _ in range(MOST_HELD):
            if self.now < begun + 2 * turn:
                break
            begun, turn = begun + 2 * turn, 2 * turn
        begun += (self.now - begun) // (2 * turn) * 2 * turn
        is_over = self.has_passed(begun, turn)
        self.wake(begun + 2 * turn + turn)
        return is_over

    def _select_pending(self) -> list[PendingPod]:
        """New pods of others, the oldest first, of as many kinds as their namespace has a share of.

        Each kind is looked for on all nodes, and an author may have thousands. By turns, what
        workers leave for one of them would be taken by others before its next.
        """
        wait = self.rules.service_counts
        waits = [pod for pod in self.cluster.pending if not self.has_passed(pod.since, wait)]
        waits.sort(key=attrgetter("since", "uid"))
        chosen = choose_first(((pod.namespace, pod.shape) for pod in waits), self.rules.kinds)
        return [pod for pod in waits if pod.shape in chosen]

    def _list_many(self) -> set[Shape]:
        """Of waiting jobs the shapes beyond those that their namespaces have a share of.

        By which pool such a pod would count is not looked for on all nodes. The first that were
        made have the share, whoever is looked at in this pass: what queues are due is to stay. Whom
        his queue refuses has none.
        """
        ordered = sorted(self.standings.values(), key=attrgetter("job.created", "job.uid"))
        waiting = [one for one in ordered if not one.is_admitted]
        asking = (one for one in waiting if self.find_refusal(one) is None)
        pairs = ((one.job.namespace, shape) for one in asking for shape in _list_shapes(one))
        known = choose_first(pairs, self.rules.kinds)
        known.update(shape for one in self.list_admitted() for shape in _list_shapes(one))
        return {shape for one in waiting for shape in _list_shapes(one)} - known

    def _look_at(self, node: Node) -> Node:
        """The node; without room where it is not ready for longer than a kubelet takes to start.

        Since when, a kubelet may have said, by a clock of its own: one that is ahead by more than
        that is not believed.
        """
        since, wait = node.unready_since, self.rules.unready_most
        if since is None or (since <= self.now + wait and not self.has_passed(since, wait)):
            return node
        return replace(node, has_room=False)

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
        before = self.counting.get_held(standing, standing.size)
        self.book_more(standing, self.counting.get_held(standing, workers) - before)

    def book_more(self, standing: Standing, amounts: Counts) -> None:
        """The job's queue has so much more."""
        self.ledger.book(self.get_queue(standing), amounts)

    def shrink(
        self, standing: Standing, pods: Iterable[Pod], gift: Gift | None, reason: str
    ) -> None:
        """The bound workers `pods` are asked to go, and what is not bound yet is given up.

        Between two allowed sizes the lower counts, so that more may leave than were asked for. What
        was given before and has not come is not waited for: the gift is the new one then. Who was
        asked before is named as long as he is there.
        """
        leaving, given = list(pods), standing.admission.gave_for
        if standing.overdue and not standing.leaving and standing.step is not Step.GIVE:
            given = None
        before = self.counting.get_held(standing, standing.size)
        names = {pod.name for pod in leaving}
        there = {pod.name for pod in standing.job.pods}
        stay = [pod for pod in standing.workers if pod.name not in names]
        workers = min(find_floor(standing.job, len(stay)), standing.size)
        extra = stay[workers:]
        for pod in extra:
            self.expect_worker(standing, pod)
        standing.workers = stay[:workers]
        self.book_more(standing, self.counting.get_held(standing, workers) - before)
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
        for kind, alike in groupby(pods, _KIND):
            there = [places[pod.node] for pod in alike if pod.node in places]
            if there:
                found[kind] += there
        return [
            (shape or (job.launcher if is_launcher else job.worker), there)
            for (shape, is_launcher), there in found.items()
        ]

    def list_own(self, standing: Standing) -> list[tuple[Shape, list[int]]]:
        """What stays of a job, by what it takes: nobody's room unless the whole job goes."""
        return self.find_places(standing.job, standing.list_staying())

    def could_ever_start(self, standing: Standing, gang: Gang) -> bool:
        """Whether the gang had room once all jobs that may go had gone, or nodes may come."""
        is_enough = self.count_without_jobs(standing, gang) >= gang.workers
        return is_enough or self.is_autoscaled(standing)

    def count_without_jobs(self, standing: Standing, gang: Gang) -> int:
        """How many of its workers have room beside its launcher then; -1: not even that has any.

        Beside what the job has itself, which stays. Found once in a pass for all who are alike.
        """
        key: Hashable = standing.job.uid if standing.is_admitted else (gang.launcher, gang.worker)
        if key not in self.without_jobs:
            own, room = self.list_own(standing), self.room
            if own:
                found = int(room.count_beside_own(gang.worker, own).sum())
            else:
                found = count_largest(gang, room.count_without_jobs)
            self.without_jobs[key] = found
        return self.without_jobs[key]

    def expect_whole(self, standing: Standing, sign: int = 1) -> None:
        """The room of all that stays of it will be free; -1 takes that back."""
        for shape, places in self.list_own(standing):
            counts = Counter(places)
            self.room.expect(list(counts), [sign * n for n in counts.values()], shape)

    def expect_worker(self, standing: Standing, pod: Pod, count: int = 1) -> None:
        """The worker's room will be free; -1 takes that back."""
        place = self.room.places.get(pod.node)
        if place is not None:
            self.room.expect((place,), (count,), pod.shape or standing.job.worker)

    def rank_priority(self, standing: Standing) -> tuple[int, int]:
        """The rank of a job's reservation: by the queue's priority, then by the job's."""
        queue = self.queues.get(self.get_queue(standing))
        return (queue.priority if queue else 0, standing.job.priority)

    def name_for_others(self, standing: Standing) -> str:
        """How sentences name a job: by its queue, for its namespace is nobody else's business."""
        return f"a job of queue {self.get_queue(standing)}"

    def _note_gift(self, standing: Standing) -> None:
        gift = standing.admission.gave_for
        if gift is not None:
            givers = self.givers.setdefault(gift.uid, [])
            if standing not in givers:
                givers.append(standing)


def _list_shapes(standing: Standing) -> tuple[Shape, Shape]:
    return standing.job.launcher, standing.job.worker
