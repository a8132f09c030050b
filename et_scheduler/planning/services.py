"""Services first: pods of others that would fit once elastic workers have gone make them go.

Pods of others are only read: kube-scheduler puts them into the room that is made. Workers above the
least sizes go for them, and never a whole job.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from et_scheduler.model.cluster import PendingPod
from et_scheduler.model.jobs import ABOVE_ALL, Gift, Purpose
from et_scheduler.model.shapes import Shape
from et_scheduler.planning.donors import Donors
from et_scheduler.planning.drafts import Draft
from et_scheduler.planning.evicting import find_claim, rank_for_claim
from et_scheduler.planning.fitting import Gang
from et_scheduler.planning.giving import Rank, Search
from et_scheduler.planning.keeping import keep_in, list_reserved, rank_places
from et_scheduler.planning.seating import get_gang
from et_scheduler.planning.standings import Standing
from et_scheduler.planning.turns import Turns, count_searches


def serve(draft: Draft) -> None:
    """Keep room for each pending pod, for a time; where there is none, let workers shrink.

    One that preempts nobody has what is free, or becomes so.
    """
    groups = _list_groups(draft)
    if not groups:
        return
    reserved, claims = list_reserved(draft), _Claims(draft)
    donors = Donors(draft)
    asking = ((one[0].namespace, one[0].uid) for one in groups if one[0].preempts)
    turns = Turns(draft, asking, count_searches(draft))
    for pods in groups:
        first = pods[0]
        for rank, count in _list_asks(draft, pods, claims):
            search = Search(draft, rank, avoided=reserved)
            giving = [group for group, one in donors.first.items() if rank(one, 0) is not None]
            may_fit = donors.may_fit(Gang(None, first.shape, 1), None, giving)
            if first.preempts and may_fit and turns.has(first.uid):
                search.collect()
            search.find(Gang(None, first.shape, count), is_whole=False)
            gift = Gift(Purpose.SERVICE, first.uid)
            text = f"gives workers for pods of priority {first.priority} that have no room"
            search.commit(gift, text)


def keep_headroom(draft: Draft) -> None:
    """Keep room free for pods of others that are yet to come.

    Nobody starts or grows there, and where some have taken it, workers shrink until it is there
    again. It is all one to it whose: administrators have said that they go first. It is chosen anew
    in each pass, after what was promised and what others leave for a gang: were it there first, the
    gang would never have it, and others would go in vain.
    """
    headroom = draft.cluster.headroom
    if headroom is None or not headroom.pods or not draft.room.nodes:
        return
    draft.kept = keep_in(draft, draft.room, headroom)
    left = headroom.pods - sum(gang.workers for gang, _ in draft.kept)
    if left:
        tiers = rank_places(draft, headroom.shape)
        avoided = frozenset(np.flatnonzero(tiers > tiers.min()).tolist())
        search = Search(draft, _rank_donors(draft, ABOVE_ALL), avoided=avoided)
        search.collect()
        search.find(Gang(None, headroom.shape, left), is_whole=False)
        search.commit(Gift(Purpose.SERVICE), "gives workers for room that is kept for others' pods")


def _list_groups(draft: Draft) -> list[list[PendingPod]]:
    """Pods that are served, by what they ask, in the order in which they are."""
    groups: dict[tuple[int, bool, Shape], list[PendingPod]] = defaultdict(list)
    for pod in sorted(draft.served, key=lambda pod: (pod.since, pod.uid)):
        groups[(pod.priority, pod.preempts, pod.shape)].append(pod)
    return sorted(groups.values(), key=_rank)


def _list_gangs(draft: Draft) -> list[Standing]:
    """Who waits on nodes of his own, and may ask others to give."""
    waiting = (one for one in draft.standings.values() if one.is_waiting)
    asking = (one for one in waiting if one.job.preempts and not one.job.is_frozen)
    holding = (one for one in asking if one.admission.reserved)
    return [one for one in holding if draft.find_refusal(one) is None]


class _Claims:
    """Whom `gangs` could ask that wait on nodes of their own; `least` are all their workers.

    Found once until somebody gives, which is booked: there may be hundreds of gangs, and as many
    kinds of pods.
    """

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self.gangs = _list_gangs(draft)
        self.least = sum(gang.least for gang in self.gangs)
        self._found_at = -1
        self._rights: list[Rank] = []

    def limit(self, rank: Rank) -> Rank:
        """The donors, without those whom none of the gangs could ask itself."""
        rights = self._find_rights()

        def rank_both(donor: Standing, left: int) -> int | None:
            is_asked = any(right(donor, left) is not None for right in rights)
            return rank(donor, left) if is_asked else None

        return rank_both

    def _find_rights(self) -> list[Rank]:
        draft = self._draft
        if self._found_at != draft.ledger.changes:
            self._found_at = draft.ledger.changes
            found = {find_claim(draft, gang, get_gang(gang)) for gang in self.gangs}
            self._rights = [rank_for_claim(draft, claim) for claim in sorted(found)]
        return self._rights


def _list_asks(draft: Draft, pods: Sequence[PendingPod], claims: _Claims) -> list[tuple[Rank, int]]:
    """For so many such pods these are asked: first for the pods, then for the gangs.

    Pods take whatever is freed first, the seats of waiting gangs too, as long as any of them comes:
    so room for both is asked for once more, and is there for the next of them. But for a gang only
    of those whom it could ask itself, and no more than the pods can take.
    """
    rank, count = _rank_donors(draft, pods[0].priority), len(pods)
    asks = [(rank, count)]
    if claims.gangs and pods[0].preempts:
        asks.append((claims.limit(rank), count + min(claims.least, count)))
    return asks


def _rank(pods: list[PendingPod]) -> tuple[int, int, str]:
    return (-pods[0].priority, pods[0].since, pods[0].uid)


def _rank_donors(draft: Draft, priority: int) -> Rank:
    """The order in which donors are asked for a service: none of higher priority than it has.

    Those of queues above their share are first.
    """

    def rank(donor: Standing, _: int) -> int | None:
        if donor.job.priority > priority:
            return None
        queue = draft.get_queue(donor)
        wanted = draft.pools.get_vector(donor.job.worker)
        is_above = queue in draft.queues and draft.ledger.is_above_share(queue, wanted)
        return 0 if is_above else 1

    return rank
