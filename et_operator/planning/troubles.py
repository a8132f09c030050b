"""Why a pod that is there does not run, in the words of who says so, and who has the same trouble.

Words that change with each try of a kubelet, or of a scheduler, are told as one: else a status
would be written anew for each of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from et_contract.pods import Role
from et_operator.model.pods import Pod
from et_operator.model.texts import cut, name_some, show_time
from et_operator.planning.drafts import Draft

SLOW = timedelta(seconds=10)
"""A pod that waits for longer than this has a trouble worth a word."""
PULLS = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName"})
CONFIGS = frozenset({"CreateContainerConfigError", "CreateContainerError"})
UNSCHEDULABLE = "Unschedulable"
MOST_WORDS = 512
"""Bytes, as JSON, of one trouble's words."""
MOST_TROUBLES = 3
"""So many different ones in one message; the others are counted."""
_USUAL = frozenset({"", "ContainerCreating", "PodInitializing"})
_AGAIN = "ErrImagePull: "
"""What a kubelet says of its last try while it waits for the next one, before the words of it."""

_UNFIT = re.compile(
    r"0/\d+ nodes are available: (.*?)(?:\.(?: [a-z ,]*preemption: .*)?)?", re.DOTALL
)
"""What kube-scheduler says: so many nodes do not fit for this, so many for that, and, where it has
looked whether others could go, the same of that (k8s.io/kubernetes, pkg/scheduler/framework)."""
_COUNT = re.compile(r"(?:^|, )\d+ ")


class Trouble(NamedTuple):
    """`reason` is a word as Kubernetes has it, `words` are a sentence of whoever says so."""

    reason: str
    words: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.words}" if self.words else self.reason


def diagnose(draft: Draft, pod: Pod) -> Trouble | None:
    """Why it does not start; None where it runs, ends, or may just need a moment."""
    if pod.is_terminal or pod.is_deleting:
        return None
    if pod.waiting_reason not in _USUAL:
        is_pull = pod.waiting_reason in PULLS - {"InvalidImageName"}
        _, _, last = pod.waiting_message.partition(_AGAIN)
        words = (is_pull and last) or pod.waiting_message
        reason = "ImagePullBackOff" if is_pull else pod.waiting_reason
        return Trouble(reason, cut(words.strip(), MOST_WORDS))
    if pod.unschedulable_message and not draft.wait_out(pod.created, SLOW):
        words = _leave_counts(pod.unschedulable_message)
        return Trouble(UNSCHEDULABLE, cut(words, MOST_WORDS) + _describe_avoided(draft, pod))
    return None


def _describe_avoided(draft: Draft, pod: Pod) -> str:
    """Where it may not go by our own doing, which a scheduler calls its affinity."""
    is_bound = pod.role is Role.WORKER or draft.view.must_launcher_keep_off
    nodes = draft.view.kept_off.get(pod.avoids) if is_bound else None
    return f"; it keeps off {name_some(nodes)}, for that is said to end" if nodes else ""


def _leave_counts(words: str) -> str:
    """For what reasons nodes do not fit, and not how many: that changes as nodes come and go."""
    found = _UNFIT.fullmatch(words)
    if found is None:
        return words
    reasons = sorted({reason for reason in _COUNT.split(found[1]) if reason})
    return f"no node fits: {', '.join(reasons)}"


def list_troubles(draft: Draft) -> list[tuple[Pod, Trouble]]:
    """All pods that do not start, and why."""
    found = ((pod, diagnose(draft, pod)) for pod in draft.view.snapshot.pods)
    return [(pod, trouble) for pod, trouble in found if trouble is not None]


def tell_troubles(found: Iterable[tuple[Pod, Trouble]], reasons: frozenset[str]) -> str:
    """Pods that do not start for one of these reasons, as text; "" where there is none."""
    return tell_groups((p.name, p.created, str(t)) for p, t in found if t.reason in reasons)


def tell_groups(told: Iterable[tuple[str, datetime, str]]) -> str:
    """Of (name, since when, what): `a, b: what, since ...`, once for each thing that is told."""
    groups: dict[str, list[tuple[str, datetime]]] = {}
    for name, since, what in told:
        groups.setdefault(what, []).append((name, since))
    sentences = []
    for what, pods in list(groups.items())[:MOST_TROUBLES]:
        first = show_time(min(moment for _, moment in pods))
        sentences.append(f"{name_some([name for name, _ in pods])}: {what} (since {first})")
    more = sum(map(len, list(groups.values())[MOST_TROUBLES:]))
    return "; ".join(sentences) + (f"; and {more} more" if more else "")
