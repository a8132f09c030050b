"""TrainingJob: what its author asked for, and what the operator recorded about it.

The codec makes it, also of what cannot be used: `spec` is then None, or `invalid` and `unread` say
what is wrong. Who decides asks for that first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from et_operator.model.admissions import Admission
from et_operator.model.keys import JobKey, Owner
from et_operator.model.specs import JobSpec
from et_operator.model.statuses import JobStatus


class Misfit(NamedTuple):
    """What its author wrote that does nothing, or does not go together."""

    kind: str
    """The reason of its Event: about a field of the manifest, or about the launcher's command."""
    text: str


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """One TrainingJob as last seen; `invalid` says what its author must change, if anything.

    `is_orphaning`: who deletes it wants its pods and all else of it to stay. `annotations` are
    those that decisions read, and no others. `unread` are the fields of its status, by their names
    on the wire, that hold decisions and cannot be read, each with the reason: as written by a newer
    operator, or by hand.

    `admission` is et-scheduler's word; None where it has said none that can be read.
    """

    key: JobKey
    uid: str
    resource_version: str = field(compare=False)
    generation: int
    created: datetime
    spec: JobSpec | None
    status: JobStatus = field(default_factory=JobStatus)
    annotations: Mapping[str, str] = field(default_factory=dict)
    deletion_requested: datetime | None = None
    is_orphaning: bool = False
    invalid: str = ""
    warnings: tuple[Misfit, ...] = ()
    is_foreign: bool = False
    unread: Mapping[str, str] = field(default_factory=dict)
    admission: Admission | None = None

    @property
    def owner(self) -> Owner:
        """What everything that is the job's own says of its owner."""
        return Owner(self.key.name, self.uid)

    def fill_queue(self, queue: str) -> TrainingJob:
        """The job, in this queue where its author names none."""
        if self.spec is None or self.spec.queue:
            return self
        return replace(self, spec=replace(self.spec, queue=queue))
