"""Alibaba Cloud: the moment at which a preemptible instance is released, five minutes ahead.

www.alibabacloud.com/help/en/ecs/user-guide/query-the-interruption-events-of-preemptible-instances,
and "Instance metadata" for the token, without which a hardened instance answers nothing.
"""

from __future__ import annotations

from et_kube.notices import Notice, NoticeKind
from et_kube.times import parse_time
from et_notices.questions import Answer, Asking, Session, read_text, refuse

MOMENT = "/latest/meta-data/instance/spot/termination-time"
TAKEN = "Alibaba Cloud takes the instance back"


class Alibaba:
    """See the module."""

    address = "http://100.100.100.200"

    def __init__(self) -> None:
        life = ("X-aliyun-ecs-metadata-token-ttl-seconds", "21600")
        self._session = Session(life, "X-aliyun-ecs-metadata-token")

    def ask(self) -> Asking:
        """One question."""
        return read_moment((yield from self._session.get(MOMENT)))


def read_moment(answer: Answer) -> tuple[Notice, ...]:
    """`2015-01-05T18:02:00Z`, in UTC; 404 while it stays."""
    text = read_text(answer, "termination-time")
    if text is None:
        return ()
    moment = parse_time(text)
    if moment is None:
        raise refuse("termination-time", text)
    return (Notice(TAKEN, "termination-time", NoticeKind.FIRM, moment),)
