"""What was said of the ends of a job's nodes and pods."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from et_kube.notices import NoticeKind


@dataclass(frozen=True, slots=True)
class NoticeRecord:
    """It was said of this node, or of this one pod (`uid`): since when, and when it ends.

    `deadline` None: nobody says when, so at once. `withdrawn`: since when it is said no more,
    though the node, or the pod, is there.
    """

    reason: str
    kind: NoticeKind
    since: datetime
    node: str = ""
    uid: str = ""
    deadline: datetime | None = None
    withdrawn: datetime | None = None
