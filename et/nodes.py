"""`et node leaving` and `et node staying`: what is on a node is told that it ends, or does not.

Annotations are all that is written, those of et_kube/notices.py: who moves, and when, the operator
decides. Who may not change nodes tells the workers of one namespace, and is told so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from et.clusters import Cluster
from et.errors import FORBIDDEN, EtError, explain
from et.screens import Screen
from et_kube.errors import Conflict, KubeError, NotFound, Refused
from et_kube.notices import LEAVING_AT, LEAVING_REASON, MAX_WORDS, is_long_over
from et_kube.resources import NODES, PODS, Json, Ref, is_name
from et_kube.times import format_time, parse_time
from et_operator.codec.pods import decode_pod
from et_operator.model.names import SELECTOR_OURS
from et_operator.model.pods import Pod
from et_operator.model.texts import count

FURTHEST = timedelta(days=30)
"""Nothing new is put on a node that is said to leave, from when that is said."""


@dataclass(frozen=True, slots=True)
class Departure:
    """When and why: after `span`, or at the moment in `at`; at once without both."""

    span: timedelta | None = None
    at: str = ""
    reason: str = ""


async def say_leaving(cluster: Cluster, screen: Screen, node: str, wish: Departure) -> None:
    """Say that the node ends; EtError for a time that cannot be meant."""
    await _look_up(cluster, node)
    moment = find_moment(wish, cluster.clock.now()).replace(microsecond=0)
    if len(wish.reason) > MAX_WORDS:
        raise EtError(f"--reason has {len(wish.reason)} characters, {MAX_WORDS} at most are shown")
    at = format_time(moment)
    annotations = {LEAVING_AT: at, LEAVING_REASON: wish.reason or None}
    await _tell(cluster, screen, node, annotations, f"leaves at {at}")


async def say_staying(cluster: Cluster, screen: Screen, node: str) -> None:
    """Take back what was said of the node's end: it stays."""
    await _tell(cluster, screen, node, {LEAVING_AT: None, LEAVING_REASON: None}, "stays")


def find_moment(wish: Departure, now: datetime) -> datetime:
    """When it ends; EtError."""
    if not wish.at:
        moment = now + (wish.span or timedelta())
    elif (found := parse_time(wish.at)) is not None:
        moment = found
    else:
        raise EtError(f"--at {wish.at!r} is no time with its zone, as 2026-01-31T12:00:00Z")
    if is_long_over(moment, now):
        raise EtError(f"{format_time(moment)} is over: nobody would be moved for it")
    if moment > now + FURTHEST:
        raise EtError(
            f"{format_time(moment)} is more than {FURTHEST.days} days away, and nothing new is put "
            "on a node from when it is said to leave: say it later"
        )
    return moment


async def _look_up(cluster: Cluster, node: str) -> None:
    """EtError where there is none; whoever may not read nodes has heard what time it is."""
    if not is_name(node):
        raise EtError(f"{node!r} is no name of a node; `kubectl get nodes` shows them")
    try:
        await cluster.api.get(Ref(NODES, "", node))
    except NotFound as error:
        raise EtError(f"there is no node {node!r}; `kubectl get nodes` shows them") from error
    except Refused as error:
        if error.status != FORBIDDEN:
            raise


async def _tell(
    cluster: Cluster,
    screen: Screen,
    node: str,
    annotations: Mapping[str, str | None],
    what: str,
) -> None:
    if not is_name(node):
        raise EtError(f"{node!r} is no name of a node; `kubectl get nodes` shows them")
    body = {"metadata": {"annotations": annotations}}
    try:
        await cluster.api.patch(Ref(NODES, "", node), body)
    except NotFound as error:
        raise EtError(f"there is no node {node!r}; `kubectl get nodes` shows them") from error
    except Refused as error:
        if error.status != FORBIDDEN:
            raise
    else:
        screen.say(f"node {node} {what}")
        return
    await _tell_pods(cluster, screen, node, body, what)


async def _tell_pods(cluster: Cluster, screen: Screen, node: str, body: Json, what: str) -> None:
    """Each pod of a job there that one may change: for who has no right on nodes."""
    found = await cluster.api.list(
        PODS, cluster.namespace, label_selector=SELECTOR_OURS, keep=decode_pod
    )
    affected = [pod for pod in found.items if pod is not None and pod.node == node]
    if not affected:
        raise EtError(
            f"you may not change nodes, and namespace {cluster.namespace!r} has no pod of a job on "
            f"{node!r}: nobody was told"
        )
    told, missed = await _tell_each(cluster, affected, body)
    if told:
        screen.say(", ".join(f"{name} {what}" for name in told))
    screen.hint(
        f"you may not change nodes: of {node} only {count(len(told), 'pod')} of namespace "
        f"{cluster.namespace} were told, and others may come there"
    )
    if missed:
        raise EtError("not told: " + "; ".join(missed))


async def _tell_each(
    cluster: Cluster, pods: Sequence[Pod], body: Json
) -> tuple[list[str], list[str]]:
    """Who was told, and who was not, with why; one that has gone needs to hear nothing."""
    told, missed = [], []
    for pod in pods:
        pinned = {"metadata": {**body["metadata"], "uid": pod.uid}}  # no other of its name
        try:
            await cluster.api.patch(Ref(PODS, pod.namespace, pod.name), pinned)
        except (NotFound, Conflict):
            continue
        except KubeError as error:
            missed.append(f"{pod.name}: {explain(error)}")
        else:
            told.append(pod.name)
    return told, missed
