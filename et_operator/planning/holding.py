"""Which hosts have the training's state, so that one of them stays whoever must go.

A host that is new to the list has it from the others a while later. A command all of whose hosts
are new ends ("No hosts from previous set remaining", horovod/runner/elastic/driver.py).
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from et_contract.documents import MemberState
from et_operator.model.listings import Listing
from et_operator.model.pods import Pod
from et_operator.model.scalings import Scaling
from et_operator.planning.drafts import Draft
from et_operator.planning.standings import Standing

SETTLED = timedelta(seconds=60)
"""Who is listed for so long has joined the training."""
GATHERING = timedelta(seconds=10)
"""So long those that are listed wait for others, so that one write tells of all."""


def note_listings(draft: Draft) -> None:
    """Record since when each host is listed; of those that have settled, only that they have.

    What the next launcher lists begins anew. Who has left goes from the record with the next one.
    """
    view, known = draft.view, _find_moments(draft)
    is_over = draft.decided.epoch != view.status.epoch  # what this launcher's broker tells
    listed = {p.index for p in view.live_workers if p.uid in view.listed and not is_over}
    if known and not listed:
        draft.change(listings=())
    if listed <= known.keys() or _gather(draft):
        return
    now = draft.now.replace(microsecond=0)
    first = min(known.values(), default=now)
    moments: dict[datetime, list[int]] = {}
    for index in sorted(index for index in listed if index is not None):
        since = known.get(index, now)
        moments.setdefault(first if _is_over(draft, since) else since, []).append(index)
    listings = tuple(Listing(since, tuple(moments[since])) for since in sorted(moments))
    draft.change(listings=listings)


def select_holders(standing: Standing) -> list[Pod]:
    """Those of the roster that have the state; where none surely has, those that are listed first.

    A command that has just begun has it nowhere yet, and one that has lost all who had it began
    anew from those.
    """
    hosts = _list_hosts(standing)
    moments = [since for since, _ in hosts]
    first = min(moments, default=standing.now)
    return [pod for since, pod in hosts if _is_over(standing, since) or since == first]


def check_state_stays(draft: Draft, going: Collection[str]) -> bool:
    """Whether a host with the state stays when those with these uids go; nobody has it: yes.

    Asks to be woken when it will be so.
    """
    holders = select_holders(draft)
    if not draft.view.can_command_run or not holders or any(p.uid not in going for p in holders):
        return True
    for since, pod in _list_hosts(draft):
        if pod.uid not in going:
            draft.wait_out(since, SETTLED)
    return False


def await_state(draft: Draft, scaling: Scaling) -> bool:
    """Whether those that a ScaleIn names stay for now, for none that stays has the state yet.

    A minute after the others are listed one of them has it; where none is, it is as was asked for,
    a minute later.
    """
    uids = {pod.uid for pod in draft.view.workers if pod.name in scaling.pod_names}
    if not uids or check_state_stays(draft, uids):
        return False
    is_one_coming = any(pod.uid not in uids for _, pod in _list_hosts(draft))
    return is_one_coming or draft.wait_out(scaling.created, SETTLED)


def _list_hosts(standing: Standing) -> list[tuple[datetime, Pod]]:
    """The hosts that the command uses, and since when each is listed."""
    listed, moments = standing.view.listed, _find_moments(standing)
    pods = [pod for pod in standing.select_usable() if pod.uid in listed]
    return [(moments.get(pod.index, standing.now), pod) for pod in pods]


def _gather(draft: Draft) -> bool:
    """Whether more hosts are about to be listed: until they are recorded, they are new."""
    view, listings = draft.view, draft.decided.listings
    active = (m.uid for m in view.members.values() if m.state is MemberState.ACTIVE)
    if all(uid in view.listed for uid in active):
        return False
    begun = view.launcher.started if view.launcher is not None else None
    return draft.wait_out(listings[-1].since if listings else begun, GATHERING)


def _find_moments(standing: Standing) -> dict[int | None, datetime]:
    return {
        index: listing.since for listing in standing.decided.listings for index in listing.indexes
    }


def _is_over(standing: Standing, since: datetime) -> bool:
    return standing.now >= since + SETTLED
