"""`status.admission`: written by et-scheduler, read here and never written.

Called by decoding.py. A word that cannot be read becomes a sentence and never an exception; lists
and texts are cut to their bounds, and a list that is of use only as a whole is dropped instead.
"""

from __future__ import annotations

from et_contract.admissions import MAX_NODES, AdmissionState, Elasticity, Placement
from et_contract.documents import MAX_WORKERS
from et_contract.texts import clean
from et_kube.errors import InvalidObject
from et_operator.codec.fields import Fields, attempt
from et_operator.model.admissions import Admission

_PATH = "status.admission"
_MAX_MESSAGE = 1024
_MAX_QUEUE = 63


def decode_admission(body: object) -> tuple[Admission | None, str]:
    """What is told there, None where nothing is; and why it cannot be read."""
    if body is None:
        return None, ""
    return attempt(lambda: _decode(Fields(body, _PATH)), _PATH)


def _decode(fields: Fields) -> Admission:
    number = fields.get_integer("number", minimum=0)
    state = fields.get_choice("state", AdmissionState)
    if number is None or state is None:
        raise InvalidObject(_PATH, "has no number or no state")
    placement = fields.get_object("placement") or Fields({}, f"{_PATH}.placement")
    return Admission(
        number=number,
        state=state,
        elasticity=fields.get_choice("elasticity", Elasticity) or Elasticity.AUTO,
        workers=fields.get_integer("workers", minimum=0, maximum=MAX_WORKERS) or 0,
        leaving=tuple(fields.get_texts("leaving"))[:MAX_WORKERS],
        placement=Placement(
            launcher=placement.get_text("launcher") or "",
            only=_read_nodes(placement, "only", is_needed_whole=True),
            avoid=_read_nodes(placement, "avoid", is_needed_whole=False),
        ),
        message=clean(fields.get_text("message") or "", _MAX_MESSAGE),
        queue=clean(fields.get_text("queue") or "", _MAX_QUEUE),
    )


def _read_nodes(placement: Fields, key: str, *, is_needed_whole: bool) -> tuple[str, ...]:
    """Too many nodes that a pod must be on are none: a part of them could be the full ones."""
    found = tuple(placement.get_texts(key))
    return () if is_needed_whole and len(found) > MAX_NODES else found[:MAX_NODES]
