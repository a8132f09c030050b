"""AWS: instance-action of spot instances, two minutes ahead, and the advice to leave.

docs.aws.amazon.com/AWSEC2/latest/UserGuide: "Spot Instance interruption notices", "EC2 instance
rebalance recommendations", "Use the Instance Metadata Service". IMDSv2 alone: a token by PUT, 401
when it has run out, 404 while there is nothing to say. IPv4.
"""

from __future__ import annotations

from typing import Any

from et_contract.texts import parse_json
from et_kube.notices import Notice, NoticeKind
from et_kube.times import parse_time
from et_notices.questions import MAX_BODY, Answer, Asking, Session, Unclear, read_text, refuse

ACTION = "/latest/meta-data/spot/instance-action"
ADVICE = "/latest/meta-data/events/recommendations/rebalance"
ENDS = {
    "terminate": "AWS takes the spot instance back",
    "stop": "AWS stops the spot instance",
    "hibernate": "AWS hibernates the spot instance",
}
ADVISED = "AWS recommends to leave it"


class Aws:
    """See the module."""

    address = "http://169.254.169.254"

    def __init__(self) -> None:
        life = ("X-aws-ec2-metadata-token-ttl-seconds", "21600")
        self._session = Session(life, "X-aws-ec2-metadata-token")

    def ask(self) -> Asking:
        """The advice is asked for where nothing surer is said."""
        found = read_action((yield from self._session.get(ACTION)))
        return found or read_advice((yield from self._session.get(ADVICE)))


def read_action(answer: Answer) -> tuple[Notice, ...]:
    """`{"action": "terminate", "time": "2017-09-18T08:22:00Z"}`: it ends then."""
    told = _read_object(answer, "instance-action")
    if told is None:
        return ()
    action, moment = told.get("action"), parse_time(told.get("time"))
    reason = ENDS.get(action) if isinstance(action, str) else None
    if reason is None or moment is None:
        raise refuse("instance-action", told)
    return (Notice(reason, "instance-action", NoticeKind.FIRM, moment),)


def read_advice(answer: Answer) -> tuple[Notice, ...]:
    """`{"noticeTime": "2020-10-27T08:22:00Z"}`: since then it is at a higher risk."""
    told = _read_object(answer, "rebalance")
    if told is None:
        return ()
    moment = parse_time(told.get("noticeTime"))
    if moment is None:
        raise refuse("rebalance", told)
    return (Notice(ADVISED, "rebalance", NoticeKind.SOFT, moment),)


def _read_object(answer: Answer, what: str) -> dict[str, Any] | None:
    text = read_text(answer, what)
    if text is None:
        return None
    try:
        told = parse_json(text, MAX_BODY)
    except ValueError as error:
        raise Unclear(f"{what}: {error}") from error
    if not isinstance(told, dict):
        raise refuse(what, told)
    return told
