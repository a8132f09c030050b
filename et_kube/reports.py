"""What people are told about an object, by whoever decides; it becomes an Event."""

from __future__ import annotations

from dataclasses import dataclass

from et_kube.resources import Ref


@dataclass(frozen=True, slots=True)
class Report:
    """About the object `ref` of this uid: one word for programs, a sentence for people."""

    ref: Ref
    uid: str
    reason: str
    message: str
    is_warning: bool = False
