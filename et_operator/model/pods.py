"""What a decision needs to know of a pod or a node.

Made by the codec, which alone sees whole pods and nodes: a fact that a rule needs becomes a field
here first. Properties tell what follows from the fields, and never what time it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from et_contract.pods import ENDED, Role
from et_kube.notices import Notice
from et_operator.model.keys import Owner

MAX_RETRIES = 1000
"""Workers in a row of one place, as far as anybody counts them."""


@dataclass(frozen=True, slots=True)
class Termination:
    """How the container that counts ended, or the init container with which its pod failed."""

    exit_code: int
    reason: str = ""
    message: str = ""
    finished: datetime | None = None
    init_container: str = ""
    """The init container's name, "" for the container that counts."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of a job. `container` is the one that the template names first, `started` its start.

    `ips` are its addresses, `account` its ServiceAccount. `index` is a worker's, from its name;
    `epoch` that of a launcher, from its name, or the one that a worker was made in.
    Two that differ in nothing but `resource_version` are equal: no decision depends on that.
    `retries` counts the workers whose place it took one after the other, and that ended soon after
    they were created. `deletion_grace_seconds` is what whoever deletes it gives it.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str = field(compare=False)
    role: Role
    index: int | None
    epoch: int | None
    created: datetime
    phase: str
    owner: Owner | None
    container: str
    node: str | None = None
    deletion_requested: datetime | None = None
    deletion_grace_seconds: int | None = None
    is_container_running: bool = False
    has_container_started: bool = False
    waiting_reason: str = ""
    waiting_message: str = ""
    termination: Termination | None = None
    disruption_reason: str = ""
    disrupted: datetime | None = None
    """When that was written (the condition DisruptionTarget), before its containers end."""
    unschedulable_message: str = ""
    pod_reason: str = ""
    pod_message: str = ""
    deletion_cost: int = 0
    retries: int = 0
    started: datetime | None = None
    ips: tuple[str, ...] = ()
    account: str = ""
    keys_secret: str = ""
    """The Secret of ssh keys that it mounts as ours, "" for none."""
    is_elastic: bool | None = None
    """Of a launcher: whether workers may join and leave while it runs; None: it does not say."""
    command_least: int | None = None
    """Of a launcher: with how few workers its command goes on, 0: not known; None: as above."""
    template: str = ""
    """Which template it was made from (model/packing, digest); "" where it does not say."""
    image: str = ""
    """The image of the pod's container, for messages to people."""
    is_probed: bool = False
    """Whether the container has a livenessProbe or a startupProbe, which may end it."""
    has_pre_stop: bool = False
    """Whether the container has a preStop hook, which runs before anything is sent SIGTERM."""
    notice: Notice | None = None
    """What somebody has said of its end, on the pod itself."""
    misread: str = ""
    """What is wrong with an annotation that should tell it."""
    avoids: str = ""
    """The nodes that it was made to keep off (model/avoiding); of a worker while it has none.

    Of a launcher also those to which it only prefers others.
    """

    @property
    def address(self) -> str:
        """The first of its IPs, "" while it has none."""
        return self.ips[0] if self.ips else ""

    @property
    def is_terminal(self) -> bool:
        """Whether the pod will never run again."""
        return self.phase in ENDED

    @property
    def has_ended(self) -> bool:
        """Whether the container that counts has ended, though others of the pod may live on."""
        return self.is_terminal or self.termination is not None

    @property
    def is_over(self) -> bool:
        """Whether it has ended and does not run again: somebody may have had it started anew."""
        return self.is_terminal or (self.has_ended and not self.is_container_running)

    @property
    def is_deleting(self) -> bool:
        """Whether somebody asked for its deletion."""
        return self.deletion_requested is not None

    @property
    def end_requested(self) -> datetime | None:
        """When somebody first asked for its end, as far as that is told."""
        return min(filter(None, (self.deletion_requested, self.disrupted)), default=None)

    @property
    def grace_end(self) -> datetime | None:
        """Until when its deletion lets it run; None where nobody deletes it, or that is not told.

        A deletion of ours is believed before the event comes that tells its grace.
        """
        if self.deletion_requested is None or self.deletion_grace_seconds is None:
            return None
        return self.deletion_requested + timedelta(seconds=self.deletion_grace_seconds)


@dataclass(frozen=True, slots=True)
class Node:
    """A node as far as the loss of its pods is concerned.

    `is_ready`: its kubelet says so. One that says of itself that it is not is heard, and ends its
    pods; `is_unreachable` are those that nobody hears, or that somebody has declared lost.
    `hostname` is the value of the label by which pods are sent to it: "" where it has none, and
    None where that is its name.
    """

    name: str
    is_ready: bool = True
    is_unreachable: bool = False
    notice: Notice | None = None
    misread: str = ""
    """What is wrong with an annotation that should tell its end."""
    hostname: str | None = None
    notices: tuple[Notice, ...] = ()
    """All that is said of its end, where that is more than `notice`: by now another may count."""

    @property
    def said(self) -> tuple[Notice, ...]:
        """All that is said of its end."""
        return self.notices or (() if self.notice is None else (self.notice,))

    @property
    def last_end(self) -> datetime | None:
        """The last moment of all that is said of its end; None where some of it has none."""
        ends = [notice.deadline for notice in self.said]
        known = [end for end in ends if end is not None]
        return max(known) if known and len(known) == len(ends) else None
