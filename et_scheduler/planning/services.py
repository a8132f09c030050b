"""Services first: pods of others that would fit once elastic workers have gone make them go."""

from __future__ import annotations

from collections import defaultdict

from et_scheduler.model.cluster import PendingPod
from et_scheduler.model.jobs import Gift, Purpose
from et_scheduler.model.shapes import Shape
from et_scheduler.planning.donors import Donors
from et_scheduler.planning.drafts import Draft
from et_scheduler.planning.fitting import Gang
from et_scheduler.planning.giving import Rank, Search
from et_scheduler.planning.standings import Standing
from et_scheduler.planning.turns import Turns


def serve(draft: Draft) -> None:
    """Keep room for each pending pod, for a time; where there is none, let workers shrink.

    One that preempts nobody has what is free, or becomes so.
    """
    reserved = _list_reserved(draft)
    robbed = sum(
        standing.least
        for standing in draft.standings.values()
        if standing.is_waiting and standing.admission.reserved
    )
    groups = _list_groups(draft)
    if not groups:
        return
    donors = Donors(draft)
    turns = Turns(draft, ((one[0].namespace, one[0].uid) for one in groups if one[0].preempts))
    for pods in groups:
        priority, preempts, shape = pods[0].priority, pods[0].preempts, pods[0].shape
        search = Search(draft, _rank_donors(draft, priority), avoided=reserved)
        giving = [group for group, one in donors.first.items() if search.rank(one, 0) is not None]
        may_fit = preempts and donors.may_fit(Gang(None, shape, 1), None, giving)
        if may_fit and turns.has(pods[0].uid):
            search.collect()
        # Services take whatever is freed first, the seats of waiting gangs too, as long as any of
        # them comes: so room for both is asked for once more, and is there for the next of them.
        count = len(pods) + (len(pods) + robbed if robbed and preempts else 0)
        search.find(Gang(None, shape, count), is_whole=False)
        gift = Gift(Purpose.SERVICE, pods[0].uid)
        search.commit(gift, f"gives workers for pods of priority {priority} that have no room")


def _list_groups(draft: Draft) -> list[list[PendingPod]]:
    """Pods that are served, by what they ask, in the order in which they are."""
    groups: dict[tuple[int, bool, Shape], list[PendingPod]] = defaultdict(list)
    for pod in sorted(draft.served, key=lambda pod: (pod.since, pod.uid)):
        groups[(pod.priority, pod.preempts, pod.shape)].append(pod)
    return sorted(groups.values(), key=_rank)


def _list_reserved(draft: Draft) -> frozenset[int]:
    """Where others wait for room: what they are given is theirs while there is other room."""
    names = {name for one in draft.standings.values() for name in one.admission.reserved}
    return frozenset(draft.room.places[name] for name in names if name in draft.room.places)


def _rank(pods: list[PendingPod]) -> tuple[int, int, str]:
    return (-pods[0].priority, pods[0].since, pods[0].uid)


def _rank_donors(draft: Draft, priority: int) -> Rank:
    """Nobody of higher priority; queues above their share first."""

    def rank(donor: Standing, _: int) -> int | None:
        if donor.job.priority > priority:
            return None
        queue = draft.get_queue(donor)
        wanted = draft.room.get_vector(donor.job.worker)
        is_above = queue in draft.queues and draft.ledger.is_above_share(queue, wanted)
        return 0 if is_above else 1

    return rank
