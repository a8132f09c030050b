"""The last lines that a worker printed, as a broker leaves them in its own log for `et logs`.

One JSON object a line, as all that a broker logs: what a worker prints is a text in it, and cannot
begin another one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from et_contract.texts import parse_json

TOLD = "last lines of a worker"
MOST_BYTES = 2**13
"""Of what one worker printed: the end of it."""
ALL_BYTES = 2**22
"""Of what all workers of a launcher printed, together: a kubelet begins a log anew at 10 MiB."""
_MOST_RECORD = 4 * MOST_BYTES


@dataclass(frozen=True, slots=True)
class LastLines:
    """What the processes of one worker printed last, while one broker lived."""

    worker: str
    lines: tuple[str, ...]
    is_cut: bool
    """There may have been more before."""


def cut_lines(printed: bytes, most: int, *, is_cut: bool) -> tuple[tuple[str, ...], bool]:
    """The last lines of what was printed, in `most` bytes of JSON; whether there was more before.

    Where the beginning is missing (`is_cut`), the first line is not whole, and left out.
    """
    lines = printed.decode("utf-8", "replace").split("\n")
    if not lines[-1]:
        lines.pop()
    if is_cut and len(lines) > 1:
        lines = lines[1:]
    kept: list[str] = []
    for line in reversed(lines):
        most -= _measure(line)
        if most < 0:
            return tuple(reversed(kept or [_cut(line, most + _measure(line))])), True
        kept.append(line)
    return tuple(reversed(kept)), is_cut


def encode_last_lines(last: LastLines) -> dict[str, Any]:
    """The fields of the line that the broker logs, beside its `event`, which is TOLD."""
    return {"worker": last.worker, "cut": last.is_cut, "lines": list(last.lines)}


def decode_last_lines(text: str) -> LastLines | None:
    """What such a line says, None for any other."""
    if TOLD not in text:
        return None
    try:
        body = parse_json(text, _MOST_RECORD)
        if body["event"] != TOLD:
            return None
        return LastLines(_read(body["worker"]), _read_all(body["lines"]), body["cut"] is not False)
    except (LookupError, TypeError, ValueError):
        return None


def _read(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("text is wanted where there is none")
    return value


def _read_all(values: Iterable[object]) -> tuple[str, ...]:
    return tuple(map(_read, values))


def _measure(line: str) -> int:
    return len(json.dumps(line)) + 2


def _cut(line: str, most: int) -> str:
    """The end of a line that is too long as a whole."""
    while line and _measure(line) > most:
        line = line[len(line) // 8 + 1 :]
    return line
