"""Scalings that cannot come to their end by themselves: none of them holds up the next ones.

A scaling's end is told in its own status, which a policy, a webhook or a finalizer may prevent. The
pods of its victims are deleted, which may be refused, or never be confirmed.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from et_kube.resources import PODS, SCALE_INS, SCALE_OUTS, Ref, Resource
from et_operator.model.scalings import Scaling
from et_operator.model.statuses import ScalingKind, ScalingRecord, UntoldEnd, WorkerId, WorkerState
from et_operator.model.texts import MAX_REASON, cut
from et_operator.planning.drafts import Draft
from et_operator.planning.views import View

TELLING = timedelta(seconds=60)
"""How long the next scaling waits until the end of the last one is told."""
MOST_UNTOLD = 16
"""Ends that are remembered until they can be told; before there is room for another, no ScaleIn or
ScaleOut is begun."""
CONFIRMING = timedelta(minutes=5)
"""How much longer than the grace of its deletion a pod may take to its end."""
REFUSED_OFTEN = 4
"""So often in a row, within about a minute, a deletion is refused by a server that means it."""


def get_scaling_resource(kind: ScalingKind) -> Resource:
    """Of what kind a ScaleIn or ScaleOut is in the API."""
    return SCALE_INS if kind is ScalingKind.IN else SCALE_OUTS


def put_away(draft: Draft, scaling: ScalingRecord) -> None:
    """Clear the record of a scaling whose end is known, or cannot be made known, where it must."""
    live = draft.view.find_scaling(scaling)
    if live is None and scaling.uid:
        draft.rest_on(get_scaling_resource(scaling.kind), scaling.name)
    if live is None or needs_no_word(live):
        draft.change(scaling=None)
        return
    ended = scaling.ended or scaling.started
    outcome, untold = scaling.outcome, draft.status.untold
    if outcome is None or len(untold) >= MOST_UNTOLD:
        return
    if not timedelta() <= draft.now - ended < TELLING:
        short = replace(outcome, message=cut(outcome.message, MAX_REASON))
        end = UntoldEnd(scaling.kind, scaling.name, scaling.uid, short)
        draft.change(scaling=None, untold=(*untold, end))
    else:
        draft.wake_at(ended + TELLING)


def forget_told(draft: Draft) -> None:
    """Drop the ends that are known by now, or that nobody is there to be told of."""
    scalings = {scaling.uid: scaling for scaling in draft.view.snapshot.scalings}
    kept = []
    for end in draft.status.untold:
        live = scalings.get(end.uid)
        if live is None:
            draft.rest_on(get_scaling_resource(end.kind), end.name)
        elif not needs_no_word(live):
            kept.append(end)
    if len(kept) < len(draft.status.untold):
        draft.change(untold=tuple(kept))


def find_untold(view: View, scaling: Scaling) -> UntoldEnd | None:
    """How this scaling ended, where it could not be told so."""
    return view.untold.get(scaling.uid)


def needs_no_word(live: Scaling) -> bool:
    """Whether the scaling has been told its end, or goes away: then it is never begun again."""
    phase = live.status.phase
    return live.deletion_requested or (phase is not None and phase.is_final)


def check_obstacle(draft: Draft, scaling: ScalingRecord) -> tuple[str, str] | None:
    """Why none of the victims that are left will go (reason, message); None where one may."""
    leaving = {r.uid for r in draft.select_records(WorkerState.LEAVING)}
    told = [_describe_obstacle(draft, v) for v in scaling.victims if v.uid in leaving]
    return ("NotDeleted", "; ".join(told)) if told and all(told) else None


def _describe_obstacle(draft: Draft, victim: WorkerId) -> str:
    ref = Ref(PODS, draft.view.job.key.namespace, victim.name)
    refusal = draft.view.snapshot.refusals.get(ref)
    if refusal is not None and refusal.is_meant and refusal.count >= REFUSED_OFTEN:
        return f"the API server refuses the deletion of Pod {victim.name}: {refusal.message}"
    pod = draft.view.pods.get(victim.uid)
    if pod is None or pod.deletion_requested is None or pod.deletion_grace_seconds is None:
        return ""
    limit = timedelta(seconds=pod.deletion_grace_seconds) + CONFIRMING
    if draft.wait_until(pod.deletion_requested + limit):
        return ""
    return f"Pod {victim.name} is deleted and does not end"
