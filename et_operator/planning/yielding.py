"""What a job's idle workers give back where its launcher finds no room, in a quota or on nodes.

Who is named leaves as any other worker does (leaving.py). Below the number that the command starts
with nobody is named, nor of a job whose launcher has a node.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NamedTuple

from et_kube.resources import Json
from et_operator.model.specs import JobSpec
from et_operator.model.statuses import WorkerRecord
from et_operator.model.texts import name_some
from et_operator.planning.drafts import Draft
from et_operator.planning.leaving import leave
from et_operator.planning.ranking import rank_victims
from et_operator.planning.standings import Standing
from et_operator.planning.trimming import (
    find_launcher_loss,
    find_launcher_refusal,
    is_unplaced,
    list_holders,
)
from et_operator.planning.views import View

YIELDED = "Yielded"
"""Reason of a worker that leaves so that the launcher finds room."""
PATIENCE = timedelta(minutes=1)
"""So long a launcher that cannot be placed waits before workers leave, and again before more do:
the room of those of before is found, or a new node comes."""
MOST_DOUBLED = 20


class Shortage(NamedTuple):
    """What has no room for the launcher, how often that was seen by now, and in whose words."""

    what: str
    times: int
    words: str
    event: str
    is_of_nodes: bool = False


def yield_room(draft: Draft) -> None:
    """Let idle workers above the minimum leave, 1, 3, 7 ... of them the longer it takes.

    Without a launcher they run nothing, and without room no launcher comes. Their places are taken
    again once it is there, as far as there is room then. What has ended goes first.
    """
    if list_holders(draft):
        return
    shortage = _find_refused(draft.view) or _check_unplaced(draft)
    if shortage is None or not shortage.times:
        return
    yielded = 2 ** min(shortage.times, MOST_DOUBLED) - 1
    if shortage.is_of_nodes:
        yielded = min(yielded, _pace_steps(draft))
    roster = rank_victims(draft)
    kept = max(len(roster) + len(_list_left(draft)) - yielded, draft.needed_workers)
    victims = [pod for pod in roster if pod.node or not shortage.is_of_nodes]
    victims = victims[: max(min(len(roster) - kept, len(victims) - draft.needed_workers), 0)]
    for pod in victims:
        leave(draft, pod.name, pod.uid, YIELDED)
    if victims:
        who = name_some([pod.name for pod in victims])
        name = draft.view.launcher_name
        why = f"{shortage.what} no room for {name}, without which workers run nothing"
        draft.tell(shortage.event, f"{why}: {who} leave: {shortage.words}", is_warning=True)


def _pace_steps(draft: Draft) -> int:
    """How many may have left by now: whatever else the launcher has waited for, one at first.

    Those who have left tell when that was; who has come to an end by himself was named for another
    reason.
    """
    left = _list_left(draft)
    named = [record.since for record in left if record.since is not None and not record.retries]
    last = max(named, default=None)
    return len(left) if left and draft.wait_out(last, PATIENCE) else 2 * len(left) + 1


def _list_left(standing: Standing) -> list[WorkerRecord]:
    """The places that were left since the launcher was lost: each is named anew at once.

    Growth that was yet to come by then had no room, and leaves none; nor does what was asked for
    since.
    """
    lost, unborn = find_launcher_loss(standing.status), standing.select_unborn()
    places = [r for r in unborn if lost is None or r.since is None or r.since >= lost]
    scaling = standing.status.scaling
    if scaling is None:
        return places
    grown = {worker.name for worker in scaling.added}
    started = scaling.started
    return [r for r in places if r.name not in grown or r.since is None or r.since > started]


def _find_refused(view: View) -> Shortage | None:
    """A quota refused the launcher more than once: what has just ended is counted for a moment."""
    refusal = find_launcher_refusal(view)
    if refusal is None or view.awaited_launchers:
        return None
    return Shortage("a quota has", refusal.count - 1, refusal.message, "QuotaYielded")


def _check_unplaced(draft: Draft) -> Shortage | None:
    pod, waits, spec = draft.view.launcher, count_waits(draft), draft.view.job.spec
    if pod is None or not waits or spec is None or not _may_follow(spec):
        return None
    words = pod.unschedulable_message
    return Shortage("the nodes have", waits, words, "RoomYielded", is_of_nodes=True)


def count_waits(draft: Draft) -> int:
    """For how many waits by now the scheduler has found no node with enough left for the launcher.

    From the first on the job creates no worker above its minimum.
    """
    pod = draft.view.launcher
    if pod is None or not is_unplaced(draft.view):
        return 0
    waits = max((draft.now - pod.created) // PATIENCE, 0)
    draft.wake_at(pod.created + (waits + 1) * PATIENCE)
    return waits


def _may_follow(spec: JobSpec) -> bool:
    """Whether the launcher may run wherever a worker does: another pool's room is of no use to it.

    Told by the templates: it asks for nothing of a node that workers do not ask for, and bears what
    they bear. (Who asks for more may share their nodes all the same; he waits for a node then.)
    """
    launcher, worker = (
        template.get("spec") or {} for template in (spec.launcher_template, spec.worker.template)
    )
    asked, given = launcher.get("nodeSelector") or {}, worker.get("nodeSelector") or {}
    needs = _find_required(launcher)
    borne, met = launcher.get("tolerations") or [], worker.get("tolerations") or []
    return (
        asked.items() <= given.items()
        and (not needs or needs == _find_required(worker))
        and all(toleration in borne for toleration in met)
    )


def _find_required(spec: Json) -> Any:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    return affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
