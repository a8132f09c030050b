"""What was said of the ends of a job's nodes and pods.

planning/noticing.py records them, planning/presence.py dates what is said now by them. Which signs
there are is said in et_kube/notices. A key never has a word that anybody may choose for a reason.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

from et_kube.notices import Notice, NoticeKind
from et_operator.model.texts import cut, measure

MAX_REMEMBERED = 96
"""Bytes of a reason, and of a source, as they are remembered."""
Place = tuple[str, str]
"""What a notice is about: the name of a node, or the uid of a pod; the other one is ""."""
NoticeKey = tuple[str, str, str]
"""What a notice is about, as Place has it, and the sign that says so: one record for each."""


@dataclass(frozen=True, slots=True)
class NoticeRecord:
    """What was said of a node, or of one pod (`uid`): since when, and when it ends.

    `source` is by which sign: each is remembered by itself. `deadline` None: nobody says when, so
    at once. `withdrawn`: since when it is said no more, though the node, or the pod, is there.
    `through` is the highest index that a worker of the job had when this was first said: all above
    it were made in spite of it. None: not known.
    """

    reason: str
    kind: NoticeKind
    since: datetime
    node: str = ""
    uid: str = ""
    deadline: datetime | None = None
    withdrawn: datetime | None = None
    source: str = ""
    through: int | None = None

    @property
    def key(self) -> NoticeKey:
        """The key under which planning/noticing finds the record again in the next pass."""
        return self.node, self.uid, self.source


def build_key(place: Place, notice: Notice) -> NoticeKey:
    """The key of what this notice is remembered as: never of its reason, which anybody words."""
    source = notice.source
    if measure(source) > MAX_REMEMBERED:
        mark = f"#{hashlib.sha256(source.encode()).hexdigest()[:8]}"
        source = cut(source, MAX_REMEMBERED - len(mark)) + mark
    return (*place, source)
