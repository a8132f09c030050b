"""Google Cloud: preemption, 30 s ahead at most, and maintenance that stops the instance.

cloud.google.com/compute/docs: "Preemptible VM instances", "Query VM metadata" (the header
`Metadata-Flavor` both ways, `wait_for_change` with the `ETag` that was seen last), "Query the
metadata server for maintenance event notices". A live migration ends nothing.
"""

from __future__ import annotations

import re
from datetime import timedelta

from et_kube.notices import Notice, NoticeKind
from et_notices.questions import (
    HTTP_OK,
    PATIENCE,
    Answer,
    Asking,
    Question,
    Unclear,
    read_text,
    refuse,
)

PREEMPTED = "/computeMetadata/v1/instance/preempted"
MAINTENANCE = "/computeMetadata/v1/instance/maintenance-event"
HEADERS = {"Metadata-Flavor": "Google"}
WAIT_SECONDS = 5
"""For a change; without one the server answers after them what it has."""
LEAD = timedelta(seconds=30)
"""From the ACPI signal, and with it TRUE, to the end of the instance: best effort, and no more."""
TAKEN = "Google Cloud takes the instance back"
STOPPED = "Google Cloud stops the instance for maintenance"
_ETAG = re.compile(r"[0-9A-Za-z]{1,64}")


class Gcp:
    """See the module."""

    address = "http://169.254.169.254"

    def __init__(self) -> None:
        self._etag = ""

    def ask(self) -> Asking:
        """The first one waits for a change, once a value was seen."""
        answer = yield self._build_question()
        found = read_preempted(answer)
        self._etag = read_etag(answer)
        return found or read_maintenance((yield Question(MAINTENANCE, headers=HEADERS)))

    def _build_question(self) -> Question:
        if not self._etag:
            return Question(PREEMPTED, headers=HEADERS)
        query = f"wait_for_change=true&timeout_sec={WAIT_SECONDS}&last_etag={self._etag}"
        patience = PATIENCE + timedelta(seconds=WAIT_SECONDS)
        return Question(f"{PREEMPTED}?{query}", headers=HEADERS, patience=patience)


def read_preempted(answer: Answer) -> tuple[Notice, ...]:
    """TRUE or FALSE: nobody says when, so it is LEAD from the moment that it is seen."""
    told = _read_value(answer, "preempted")
    if told == "TRUE":
        return (Notice(TAKEN, "preempted", NoticeKind.FIRM, lead=LEAD),)
    if told in {"FALSE", None}:
        return ()
    raise refuse("preempted", told)


def read_maintenance(answer: Answer) -> tuple[Notice, ...]:
    """TERMINATE_ON_HOST_MAINTENANCE: an hour ahead with GPUs, a minute without: at once, then."""
    told = _read_value(answer, "maintenance-event")
    if told == "TERMINATE_ON_HOST_MAINTENANCE":
        return (Notice(STOPPED, "maintenance-event", NoticeKind.FIRM),)
    if told in {"NONE", "MIGRATE_ON_HOST_MAINTENANCE", None}:
        return ()
    raise refuse("maintenance-event", told)


def read_etag(answer: Answer) -> str:
    """By which the next question waits; "" for one that cannot be sent."""
    etag = answer.headers.get("etag", "")
    return etag if _ETAG.fullmatch(etag) else ""


def _read_value(answer: Answer, what: str) -> str | None:
    is_theirs = answer.headers.get("metadata-flavor") == "Google"
    if answer.status == HTTP_OK and not is_theirs:
        raise Unclear(f"{what}: the answer is not of Google's metadata server")
    return read_text(answer, what)
