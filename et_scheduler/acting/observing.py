"""Stands in writing's place with --observe: logs what would be written, and writes nothing.

assembly.py gives it to the loop for the writer and for the recorder of Events. It touches neither
the server nor the store, so the next pass decides the same again; what was shown is not repeated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

import structlog

from et_kube.events import Event
from et_kube.resources import TRAINING_JOBS, Ref
from et_scheduler.acting.writing import Entries
from et_scheduler.model.decisions import Change

log = structlog.get_logger()


class Observer:
    """Takes decisions and Events in a writer's place, and logs what is new of them."""

    def __init__(self) -> None:
        self._shown: dict[str, Change] = {}

    def list_resting(self) -> Mapping[str, int]:
        """Jobs that rest after writes in vain: none, for nothing is written."""
        return {}

    def list_kept_off(self) -> Mapping[str, int]:
        """Namespaces whose jobs cut passes short: none."""
        return {}

    def find_wait(self) -> timedelta | None:
        """How long until a resting job is tried again: None, for none rests."""
        return None

    async def write(self, changes: Sequence[Change], entries: Entries) -> timedelta | None:
        """Show each decision about a job once; it is made again in every pass.

        The next pass comes when something happens: nothing was written that it could follow.
        """
        for change in changes:
            if self._shown.get(change.uid) == change:
                continue
            told = change.admission
            log.info(
                "would write",
                job=str(Ref(TRAINING_JOBS, *entries[change.uid].place)),
                step=change.step.name,
                state=told.state.value,
                workers=told.workers,
                leaving=told.leaving,
                reason=told.reason.value,
                message=told.message,
            )
        self._shown = {change.uid: change for change in changes}
        return None

    def record(self, event: Event) -> None:
        """An Event that would be written."""
        log.info("would tell", about=str(event.ref), reason=event.reason)
