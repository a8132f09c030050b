"""What a pod itself tells of its end: who ended it, and whether it was its image or its node.

Facts of one pod, by the reasons that kubelet, scheduler and controllers write: no view, no time, no
job. What an end means for the job is for judging.py and replacing.py.
"""

from __future__ import annotations

import re

from et_operator.model.pods import Pod

_DISRUPTIONS = frozenset(
    {"Evicted", "NodeLost", "NodeShutdown", "Preempting", "Shutdown", "Terminated"},
)
"""Reasons of a failed pod which say that the platform ended it."""
_NODE_REFUSALS = frozenset(
    {"NodeAffinity", "NodePorts", "TopologyAffinityError", "UnexpectedAdmissionError"},
)
"""Reasons of a failed pod which say that its node did not take it; also "OutOf" a resource."""
_UNSEEN = frozenset({"ContainerStatusUnknown", "Unknown"})
"""Reasons of a container's end that nobody saw: most often its node was started anew."""
_UNSTARTED = frozenset({"ContainerCannotRun", "RunContainerError", "StartError"})
"""Reasons of a container that could not be started, for its image's or its node's fault."""
_COMMAND_NOT_FOUND = 127
NEEDS_PYTHON = "the image needs python3 (3.7 or newer) in its PATH"
"""What is said of an image that is unfit."""
_NAMES_PID_1 = re.compile(r"""python3|["'`]sh["'`]""")


def is_disrupted(pod: Pod) -> bool:
    """Whether the platform, or somebody through it, ended this pod."""
    return _is_claimed(pod) or is_refused_by_node(pod) or is_unseen(pod)


def is_cut_off(pod: Pod) -> bool:
    """Whether the pod has run for longer than its own spec allows (activeDeadlineSeconds)."""
    return pod.pod_reason == "DeadlineExceeded" and not is_disrupted(pod)


def is_taken(pod: Pod) -> bool:
    """Whether somebody wanted the pod's place, which will happen to any pod there.

    A kubelet evicts for what a pod uses (memory, disk), and may do so again each time.
    """
    is_evicted = pod.pod_reason == "Evicted" and not pod.is_deleting
    return _is_claimed(pod) and not is_evicted and not is_refused_by_node(pod)


def is_refused_by_node(pod: Pod) -> bool:
    """Whether the kubelet did not admit it: the scheduler may put the next one there again."""
    return pod.pod_reason in _NODE_REFUSALS or pod.pod_reason.startswith("OutOf")


def is_image_unfit(pod: Pod) -> bool:
    """Whether the container could not be started with our PID 1 (most often: no python3 in it)."""
    end = pod.termination
    if end is None:
        return pod.waiting_reason in _UNSTARTED and _names_pid_1(pod.waiting_message)
    is_unstarted = end.reason in _UNSTARTED or end.exit_code == _COMMAND_NOT_FOUND
    return is_unstarted and not end.init_container and _names_pid_1(end.message)


def is_failed_by_node(pod: Pod) -> bool:
    """Whether the pod's container could not be started there though its image is fit."""
    end = pod.termination
    return end is not None and end.reason in _UNSTARTED and not is_image_unfit(pod)


def _names_pid_1(message: str) -> bool:
    return _NAMES_PID_1.search(message) is not None


def _is_claimed(pod: Pod) -> bool:
    """Whether somebody wanted its place, or its node went away in order."""
    return pod.is_deleting or bool(pod.disruption_reason) or pod.pod_reason in _DISRUPTIONS


def is_unseen(pod: Pod) -> bool:
    """Whether the code of its end is none of its own."""
    return pod.termination is not None and pod.termination.reason in _UNSEEN
