"""Azure: scheduled events that name this machine.

learn.microsoft.com/azure/virtual-machines/linux/scheduled-events. The list is of all machines of an
availability set or a scale set, so an event counts where its `Resources` has this one's name. The
first question of a machine switches the service on, which may take two minutes.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from et_contract.texts import parse_json
from et_kube.notices import Notice, NoticeKind
from et_kube.times import parse_time
from et_notices.questions import (
    MAX_BODY,
    PATIENCE,
    Answer,
    Asking,
    Question,
    Unclear,
    read_text,
    refuse,
)

NAME = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
HEADERS = {"Metadata": "true"}
AWAKENING = timedelta(seconds=130)
"""For the first list."""
ENDS = {
    "Preempt": "Azure takes the spot instance back",
    "Terminate": "Azure deletes the instance",
    "Reboot": "Azure reboots the instance",
    "Redeploy": "Azure moves the instance to another host",
}
"""What ends that runs there. Freeze is a pause of some seconds."""
MAX_EVENTS = 1000


class Azure:
    """See the module."""

    address = "http://169.254.169.254"

    def __init__(self) -> None:
        self._name = ""
        self._patience = AWAKENING

    def ask(self) -> Asking:
        """A round: the machine's name, until it is known, then the events that name it."""
        if not self._name:
            answer = yield Question(NAME, headers=HEADERS)
            self._name = read_text(answer, "name") or ""
        if not self._name:
            raise Unclear("name: the machine has none")
        answer = yield Question(EVENTS, headers=HEADERS, patience=self._patience)
        found = read_events(answer, self._name)
        self._patience = PATIENCE
        return found


def read_events(answer: Answer, name: str) -> tuple[Notice, ...]:
    """Notices of the events that end what runs on the machine `name`; raises Unclear."""
    text = read_text(answer, "scheduledevents")
    try:
        told = parse_json(text or "{}", MAX_BODY)
    except ValueError as error:
        raise Unclear(f"scheduledevents: {error}") from error
    events = told.get("Events") if isinstance(told, dict) else None
    if not isinstance(events, list):
        raise refuse("scheduledevents", told)
    found: list[Notice] = []
    trouble: Unclear | None = None
    for event in events[:MAX_EVENTS]:
        try:
            found += _read_event(event, name)
        except Unclear as error:
            trouble = error  # it hides none that is understood
    if trouble is not None and not found:
        raise trouble
    return tuple(found)


def _read_event(event: Any, name: str) -> tuple[Notice, ...]:
    if not isinstance(event, dict):
        raise refuse("scheduledevents", event)
    kind, named = event.get("EventType"), event.get("Resources")
    reason = ENDS.get(kind) if isinstance(kind, str) else None
    names = {str(one).lower() for one in named} if isinstance(named, list) else set()
    if reason is None or name.lower() not in names:
        return ()
    return (Notice(reason, "scheduledevents", NoticeKind.FIRM, _read_moment(event)),)


def _read_moment(event: dict[str, Any]) -> datetime | None:
    """`NotBefore`, as `Mon, 19 Sep 2016 18:29:47 GMT`; None for one that has begun."""
    text = event.get("NotBefore")
    if not text or event.get("EventStatus") == "Started":
        return None
    moment = parse_time(text) or _read_date(str(text))
    if moment is None:
        raise refuse("NotBefore", text)
    return moment


def _read_date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return parse_time(moment.replace(tzinfo=moment.tzinfo or UTC).isoformat())
