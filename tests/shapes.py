"""Whether what was printed has the shape of what a page shows.

Lines are the same but for what differs from run to run: times, ages, losses, the numbers of steps,
random ends of names, hosts of ranks, addresses, and the width of columns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

GAP = "..."
"""In a line: something. As a line of its own: lines that the page leaves out."""
_MASKS = (
    (re.compile(r"\b[0-9a-f]{8}(?=-)"), "<uid>"),
    (re.compile(r"\b\d{1,3}(\.\d{1,3}){3}\b"), "<address>"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "<time>"),
    (re.compile(r"\b(\d+[dhms])+(?=[\s,;)]|$)"), "<age>"),
    (re.compile(r'(?<="seconds":)\d+(\.\d+)?'), "<number>"),  # without a last zero
    (re.compile(r"\b\d+\.\d+(?= s\b)|\b\d+\.\d{3,}\b|(?<=\bt=)\d+\.\d+"), "<number>"),
    (re.compile(r"(?<=\bstep )\d+|(?<=\bstep=)\d+|(?<=\bepoch=)\d+"), "<count>"),
    (re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}(?![\w-])"), "-<random>"),
    (re.compile(r"(?<=\bhost=)\S+"), "<host>"),
    (re.compile(r"^\[\d+\](?=<std)"), "[<rank>]"),
    (re.compile(r"\s+"), " "),
)


def find_missing(shown: str, printed: str) -> str:
    """The first stretch of `shown` that `printed` has not, after what came before it; else "".

    A stretch are lines without an empty one or a gap between them, and is printed as such.
    """
    lines = [mask(line) for line in printed.splitlines() if line.strip()]
    start = 0
    for stretch in _split(shown):
        wanted = [_compile(line) for line in stretch]
        ends = range(start, len(lines) - len(wanted) + 1)
        found = next((place for place in ends if _fits(wanted, lines[place:])), None)
        if found is None:
            return "\n".join(stretch)
        start = found + len(wanted)
    return ""


def mask(line: str) -> str:
    """The line with a word in the place of all that differs from run to run."""
    for pattern, word in _MASKS:
        line = pattern.sub(word, line)
    return line.strip()


def _split(shown: str) -> list[list[str]]:
    stretches: list[list[str]] = [[]]
    for line in shown.splitlines():
        if line.strip() in {"", GAP}:
            stretches.append([])
        else:
            stretches[-1].append(line)
    return [stretch for stretch in stretches if stretch]


def _compile(line: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, mask(line).split(GAP))))


def _fits(wanted: Sequence[re.Pattern[str]], lines: Sequence[str]) -> bool:
    return all(one.fullmatch(line) for one, line in zip(wanted, lines, strict=False))
