"""Tencent Cloud: the moment at which a spot instance is taken back, in Beijing's time.

www.tencentcloud.com/document/product/213/32487. The service has no token; its address is what
`metadata.tencentyun.com` is there, so that nobody's DNS has a say.
"""

from __future__ import annotations

import re

from et_kube.notices import Notice, NoticeKind
from et_kube.times import parse_time
from et_notices.questions import Answer, Asking, Question, read_text, refuse

MOMENT = "/latest/meta-data/spot/termination-time"
TAKEN = "Tencent Cloud takes the instance back"
_LOCAL = re.compile(r"(\d{4}-\d{2}-\d{2})[ T](\d{2}:\d{2}:\d{2})")


class Tencent:
    """See the module."""

    address = "http://169.254.0.23"

    def ask(self) -> Asking:
        """One question."""
        return read_moment((yield Question(MOMENT)))


def read_moment(answer: Answer) -> tuple[Notice, ...]:
    """`2018-08-18 12:05:33`, in UTC+8; 404 while it stays."""
    text = read_text(answer, "termination-time")
    if text is None:
        return ()
    local = _LOCAL.fullmatch(text)
    moment = parse_time(f"{local[1]}T{local[2]}+08:00") if local else None
    if moment is None:
        raise refuse("termination-time", text)
    return (Notice(TAKEN, "termination-time", NoticeKind.FIRM, moment),)
