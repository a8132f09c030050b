"""Why a job waits: one sentence with numbers. It tells what others decided, and decides nothing.

gating.py and starting.py call it. Jobs of others are named by their queues, never by namespace or
name; what costs a look at all nodes is found once in a pass.
"""

from __future__ import annotations

from et_scheduler.model.reasons import Reason
from et_scheduler.model.shapes import CPU, describe_requests
from et_scheduler.planning.drafts import ALLOWED, Draft
from et_scheduler.planning.fitting import Gang, count_seats
from et_scheduler.planning.holds import Hold
from et_scheduler.planning.standings import Standing

MOST_NAMED = 3
"""So many queues, or nodes, are named in one sentence."""


def tell_no_room(draft: Draft, standing: Standing, gang: Gang) -> tuple[Reason, str]:
    """What it needs, what is there, who has the rest."""
    fit, hold = _count_fit(draft, standing, gang), draft.holds.by_uid.get(standing.job.uid)
    (pods, owners), largest = _describe_needs(draft, gang), draft.count_without_jobs(standing, gang)
    text = f"needs {gang.workers} workers of {pods}, {_describe_fit(fit, gang)}; {owners}"
    if largest < gang.workers:
        text += _tell_others(draft, gang, largest)
    elif fit < gang.workers:
        text += _tell_oldest(draft, hold)
    if hold is not None:
        own = [draft.room.nodes[place].name for place in hold.places]
        text += f"; holds {_name_some(own)}, which others leave"
    hours = draft.find_spared(standing)
    if hours:
        text += f"; has started {standing.admission.attempts} times and not stood, so that no "
        text += f"whole jobs go for it for {hours} h"
        given = draft.find_spared(standing, ALLOWED)
        text += f", and no workers leave and no nodes are held for {given} h" if given else ""
    pause = draft.find_pause(standing)
    if pause:
        text += f"; whole jobs have gone for it {standing.admission.rounds} times and it has not "
        text += f"stood, so that no more go for {pause} h"
    if gang.worker.unproven:
        text += f"; not modelled: {gang.worker.unproven}"
    return Reason.NO_ROOM, text


def tell_room_comes(draft: Draft, standing: Standing, gang: Gang) -> tuple[Reason, str]:
    """What a gang is told that waits for room, all of which comes: from whom."""
    fit = count_seats(draft.room, gang, draft.holds.get_allowed(standing))
    givers = [one for one in draft.givers.get(standing.job.uid, ()) if one.admission.gave_for]
    names = [draft.name_for_others(one) for one in givers]
    pods = sum(len(one.admission.leaving) for one in givers)
    if givers:
        who = f"{_name_some(names)} give back {pods} workers"
    else:
        who = _tell_coming(draft, standing)
    text = f"needs {describe_gang(gang)}, {_describe_fit(fit, gang)}; {who}"
    return Reason.ROOM_COMES, text


def _tell_coming(draft: Draft, standing: Standing) -> str:
    """What comes that no job gives back."""
    held = standing.held[1].list_places() if standing.held is not None else ()
    places = sorted(draft.room.unready.intersection(held))
    names = [draft.room.nodes[place].name for place in places]
    return f"{_name_some(names)} not ready for the moment" if names else "pods are ending"


def tell_too_large(gang: Gang, largest: int) -> str:
    """An empty cluster would not hold it."""
    if largest < 0:
        launcher = describe_requests(gang.launcher) if gang.launcher else ""
        return f"no node is large enough for its launcher of {launcher}"
    return f"needs {describe_gang(gang)}; an empty cluster holds {largest} workers"


def describe_gang(gang: Gang) -> str:
    """As people write it: "10 workers of 5 CPU, 8 Gi and a launcher of 1 CPU"."""
    return f"{gang.workers} workers of {_describe_pods(gang)}"


def _describe_pods(gang: Gang) -> str:
    text = describe_requests(gang.worker)
    if gang.launcher is not None and gang.launcher.requests:
        text += f" and a launcher of {describe_requests(gang.launcher)}"
    return text


def _describe_needs(draft: Draft, gang: Gang) -> tuple[str, str]:
    """What its pods are, and who has most of that: once in a pass for all who are alike."""
    key = (gang.launcher, gang.worker)
    if key not in draft.needs:
        draft.needs[key] = (_describe_pods(gang), _describe_owners(draft, gang))
    return draft.needs[key]


def _tell_others(draft: Draft, gang: Gang, largest: int) -> str:
    """No job that ends or gives way would help: pods of others are in its way."""
    text = f"room for {largest} workers" if largest >= 0 else "no node for its launcher"
    shape = gang.launcher if gang.launcher is not None and largest < 0 else gang.worker
    ports = sorted(draft.room.list_ports_of_others(shape))
    had = f", and have {_name_some(ports)}" if ports else ""
    whose = "pods of others and pods that do not go" if draft.room.is_stranded else "pods of others"
    return f"; {whose} leave {text}{had}"


def _tell_oldest(draft: Draft, own: Hold | None) -> str:
    """Whose reservation keeps others off nodes for longest."""
    uid = "" if own is None else own.standing.job.uid
    if uid not in draft.holds.told:
        holds = (one for one in draft.holds.by_uid.values() if one is not own)
        hold = min(holds, key=lambda one: one.standing.admission.queued_at, default=None)
        draft.holds.told[uid] = "" if hold is None else _tell_hold(draft, hold)
    return draft.holds.told[uid]


def _tell_hold(draft: Draft, hold: Hold) -> str:
    names = [draft.room.nodes[place].name for place in hold.places]
    return f"; {_name_some(names)} reserved for {draft.name_for_others(hold.standing)}"


def _count_fit(draft: Draft, standing: Standing, gang: Gang) -> int:
    """Counted once in a pass for all who may go to the same nodes."""
    if standing.job.uid in draft.holds.by_uid:
        return count_seats(draft.room, gang, draft.holds.get_allowed(standing))
    key = (gang.worker, draft.rank_priority(standing))
    found = draft.fits.get(key)
    if found is None:
        allowed = draft.holds.get_allowed(standing)
        fits = draft.room.count_fits(gang.worker)
        found = draft.fits[key] = int(fits.sum() if allowed is None else fits[allowed].sum())
    return min(found, gang.workers)


def _describe_fit(fit: int, gang: Gang) -> str:
    return f"{fit} fit now" if fit < gang.workers else "the workers fit, the launcher does not"


def _describe_owners(draft: Draft, gang: Gang) -> str:
    """Which queues have most of what the worker requests first."""
    name = gang.worker.requests[0][0] if gang.worker.requests else CPU
    for resource, _ in gang.worker.requests:
        if resource != CPU and "/" in resource:
            name = resource  # accelerators are what people wait for
    if name not in draft.owners:
        draft.owners[name] = _list_owners(draft, name)
    return draft.owners[name]


def _list_owners(draft: Draft, name: str) -> str:
    owners = []
    for queue, vector in draft.ledger.allocated.items():
        amount = draft.pools.name(vector).get(name, 0)
        if amount > 0:
            owners.append((-amount, queue))
    unit = "CPU" if name == CPU else name
    scale = 1000 if name == CPU else 1
    parts = [f"{queue} has {-amount / scale:g} {unit}" for amount, queue in sorted(owners)]
    return ", ".join(parts[:MOST_NAMED]) or "others have the rest"


def _name_some(names: list[str]) -> str:
    found = sorted(set(names))
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return ", ".join(found[:MOST_NAMED]) + more
