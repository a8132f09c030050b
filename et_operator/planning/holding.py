"""Which hosts have the training's state, so that one of them stays whoever must go.

A host that is new to the list has it from the others a while later. A command all of whose hosts
are new ends ("No hosts from previous set remaining", horovod/runner/elastic/driver.py). Whether one
on a lost node (Presence.is_lost) lives nobody can tell: while another is heard, it has nothing, and
while no other surely has the state, nobody lets it go for all that.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import NamedTuple

from et_contract.documents import MemberState
from et_operator.model.listings import SYNCED_AFTER, Listing
from et_operator.model.pods import Pod
from et_operator.model.scalings import Scaling
from et_operator.planning.drafts import Draft
from et_operator.planning.standings import Standing

GATHERING = timedelta(seconds=10)
"""So long those that are listed wait for others, so that one write tells of all."""


def note_listings(draft: Draft) -> None:
    """Record since when each host is listed; of those that have the state, only that they have.

    What the next launcher lists begins anew. Who has left goes from the record with the next one.
    """
    view, known = draft.view, _find_moments(draft)
    is_over = draft.decided.epoch != view.status.epoch  # what this launcher's broker tells
    listed = {p.index for p in view.live_workers if p.uid in view.listed and not is_over}
    if known and not listed:
        draft.change(listings=())
    if listed <= known.keys() or _gather(draft):
        return
    second = draft.now.replace(microsecond=0)
    first = min(known.values(), default=second)
    now = max((second, *known.values()))
    if known and now == first:
        now = draft.now  # later in that second: they are none of the first
    moments: dict[datetime, list[int]] = {}
    for index in sorted(index for index in listed if index is not None):
        since = known.get(index, now)
        moments.setdefault(first if _is_over(draft, since) else since, []).append(index)
    listings = tuple(Listing(since, tuple(moments[since])) for since in sorted(moments))
    draft.change(listings=listings)


def list_keepers(standing: Standing) -> list[list[Pod]]:
    """Groups of hosts of each of which one stays: first those that have the state.

    Where nobody surely has it, those that are listed first: a command that has just begun has it
    nowhere yet, and one that has lost all who had it began anew from those. Of those that are
    heard, where one is.

    While of these none surely has it, also those that surely had it until they were not heard any
    more: their nodes may be back in a moment.
    """
    hosts = _list_hosts(standing)
    heard = [host for host in hosts if not standing.view.is_lost(host.pod)]
    chosen = heard or hosts
    first = min((host.since for host in chosen), default=standing.now)
    holders = [h.pod for h in chosen if _is_over(standing, h.since) or h.since == first]
    is_sure = any(_is_over(standing, host.since) for host in chosen)
    lost = (host for host in hosts if heard and standing.view.is_lost(host.pod))
    doubted = [h.pod for h in lost if not is_sure and _is_over(standing, h.since)]
    return [group for group in (holders, doubted) if group]


def can_miss_lost(standing: Standing) -> bool:
    """Whether those on lost nodes go before others: one that is heard surely has what they had."""
    hosts = _list_hosts(standing) if standing.view.can_command_run else []
    heard = (host for host in hosts if not standing.view.is_lost(host.pod))
    return not hosts or any(_is_over(standing, host.since) for host in heard)


def check_state_stays(draft: Draft, going: Collection[str]) -> bool:
    """Whether a host with the state stays when those with these uids go; nobody has it: yes.

    Asks to be woken when it will be so.
    """
    groups = list_keepers(draft) if draft.view.can_command_run else []
    if all(any(pod.uid not in going for pod in group) for group in groups):
        return True
    for host in _list_hosts(draft):
        if host.pod.uid not in going:
            draft.wait_out(host.since, SYNCED_AFTER)
    return False


def await_state(draft: Draft, scaling: Scaling) -> bool:
    """Whether those that a ScaleIn names stay for now, for none that stays has the state yet.

    A minute after the others are listed one of them has it, unless its node is lost: that is waited
    for. Where none is listed, it is as was asked for, a minute later.
    """
    names = frozenset(scaling.pod_names)
    uids = {pod.uid for pod in draft.view.workers if pod.name in names}
    if not uids or check_state_stays(draft, uids):
        return False
    is_one_coming = any(host.pod.uid not in uids for host in _list_hosts(draft))
    return is_one_coming or draft.wait_out(scaling.created, SYNCED_AFTER)


class _Host(NamedTuple):
    """A host that the command uses, and since when it is listed."""

    since: datetime
    pod: Pod


def _list_hosts(standing: Standing) -> list[_Host]:
    listed, moments = standing.view.listed, _find_moments(standing)
    pods = [pod for pod in standing.select_usable() if pod.uid in listed]
    return [_Host(moments.get(pod.index, standing.now), pod) for pod in pods]


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
    return standing.now >= since + SYNCED_AFTER
