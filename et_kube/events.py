"""What people are told about an object, by whoever decides.

Data alone: et_process/recording.py writes it, once what it tells of was written.
"""

from __future__ import annotations

from dataclasses import dataclass

from et_kube.resources import Ref


@dataclass(frozen=True, slots=True)
class Event:
    """A Kubernetes Event about the object `ref` of this uid: a word for programs, one sentence."""

    ref: Ref
    uid: str
    reason: str
    message: str
    is_warning: bool = False
