"""What an installation adds to the table of notices: a file of YAML, read once at the start.

Called while flags are read (settings.py): a file that cannot be used is a ValueError that names row
and field, and the process does not start. What a sign means to a job is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml

from et_contract.texts import clean
from et_kube.notices import MAX_WORDS, ROWS, NoticeKind, Row, Sign

MAX_BYTES = 64 * 1024
MAX_KEY = 316
"""A prefix of 253 characters, a slash and 63: longer is no key of a taint or an annotation."""
MAX_LEAD = 7 * 24 * 3600
_FIELDS = {*Sign, "reason", "kind", "leadSeconds"}


def read_rows(path: str) -> tuple[Row, ...]:
    """The table with the rows of this file before those that are known; of "" these alone.

    Raises:
        ValueError: the file cannot be used; the words name the row and the field.
    """
    if not path:
        return ROWS
    try:
        text = Path(path).read_bytes()[: MAX_BYTES + 1]
        found = yaml.safe_load(text) if len(text) <= MAX_BYTES else None
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    if len(text) > MAX_BYTES:
        raise ValueError(f"{path} has more than {MAX_BYTES} bytes")
    if not isinstance(found, list):
        raise ValueError(f"{path} is no list of notices: begin each with '- taint: KEY'")  # noqa: TRY004 (of a file)
    own = tuple(_list_rows(path, found))
    keys = {(row.sign, row.key) for row in own}
    return (*own, *(row for row in ROWS if (row.sign, row.key) not in keys))


def _list_rows(path: str, found: list[Any]) -> Iterator[Row]:
    for number, body in enumerate(found, start=1):
        where = f"{path}, notice {number}"
        if not isinstance(body, dict):
            raise ValueError(f"{where}: is no object, begin it with '- taint: KEY'")  # noqa: TRY004
        yield _read_row(where, body)


def _read_row(where: str, body: dict[str, Any]) -> Row:
    unknown = ", ".join(sorted(str(key) for key in body.keys() - _FIELDS))
    if unknown:
        raise ValueError(f"{where}: {unknown}: is not known, use {', '.join(sorted(_FIELDS))}")
    signs = [sign for sign in Sign if sign in body]
    if len(signs) != 1:
        raise ValueError(f"{where}: give one of {', '.join(Sign)}, with its key")
    key, words = body[signs[0]], body.get("reason")
    if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY:
        raise ValueError(f"{where}: {signs[0].value}: must be a key of 1 to {MAX_KEY} characters")
    reason = clean(words, MAX_WORDS).strip()
    if not isinstance(words, str) or not reason:
        raise ValueError(f"{where}: reason: is missing, say in words who ends the node and why")
    return Row(signs[0], key, reason, _read_kind(where, body), _read_lead(where, body))


def _read_kind(where: str, body: dict[str, Any]) -> NoticeKind:
    try:
        return NoticeKind(str(body.get("kind")))
    except ValueError as error:
        known = " or ".join(NoticeKind)
        raise ValueError(f"{where}: kind: must be {known}, not {body.get('kind')!r}") from error


def _read_lead(where: str, body: dict[str, Any]) -> timedelta | None:
    seconds = body.get("leadSeconds")
    if seconds is None:
        return None
    if type(seconds) is not int or not 0 <= seconds <= MAX_LEAD:
        raise ValueError(f"{where}: leadSeconds: must be a whole number from 0 to {MAX_LEAD}")
    if Sign.ANNOTATION in body:
        raise ValueError(f"{where}: leadSeconds: leave it out, an annotation is the moment itself")
    return timedelta(seconds=seconds)
