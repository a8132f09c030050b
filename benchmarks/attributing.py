"""Whose the time of a start is, so that the shares sum up to the whole.

Pure. Each start has its own way: of what a milestone waits for the latest counts, and one start may
wait for its broker where the next waits for its workers. Medians of pieces do not sum up; here the
middle half of all starts is averaged, and how far their mean is from the median of all is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from benchmarks.findings import Bar, Table
from benchmarks.milestones import API_SERVER, PARTIES, Span, Steps, Waits
from benchmarks.spreads import measure_spread

Shares = Mapping[str, float]
"""Seconds of one start, by whose they are."""
_LEFT_OUT = 4
"""One of so many starts is left out at either end: who was slowest tells of the machine."""


def trace(steps: Steps, end: str) -> list[Bar]:
    """The pieces from the beginning to this milestone, without gap or overlap.

    What seems to come after what waited for it, as by a coarser clock, takes no time.
    """
    pieces: list[Bar] = []
    name, until = end, steps[end].at
    while name:
        step = steps[name]
        before = max(step.after, key=lambda other: steps[other].at, default="")
        begin = max(min(steps[before].at, until), 0.0) if before else 0.0
        pieces.append(Bar(name, step.whose, begin, until))
        name, until = before, begin
    return pieces[::-1]


def share_out(steps: Steps, end: str, waits: Waits) -> Shares:
    """Whose the seconds until this milestone were; while a party was not answered, the server's."""
    shares = dict.fromkeys(PARTIES, 0.0)
    for piece in trace(steps, end):
        unanswered = _measure_within(waits.get(piece.whose, ()), piece.begin, piece.end)
        shares[piece.whose] += piece.end - piece.begin - unanswered
        shares[API_SERVER] += unanswered
    return shares


def tabulate(title: str, ours: Sequence[Shares], bare: Sequence[Shares]) -> Table:
    """A row for each party, and the rows that close the sum; in seconds, beside bare pods."""
    left, right = _average(ours), _average(bare)
    rows = [(party, left[party], right[party]) for party in PARTIES if left[party] or right[party]]
    whole, bare_whole = [measure_spread(list(map(_sum, starts))).median for starts in (ours, bare)]
    rest, bare_rest = whole - _sum(left), bare_whole - _sum(right)
    rows += [
        ("the median beside the middle half", rest, bare_rest),
        ("whole, median", whole, bare_whole),
    ]
    return Table(
        title,
        ("whose, mean of the middle half of all starts", "s", "bare pods, s", "more, s"),
        tuple((name, f"{a:.3f}", f"{b:.3f}", f"{a - b:+.3f}") for name, a, b in rows),
    )


def _average(starts: Sequence[Shares]) -> Shares:
    ordered = sorted(starts, key=_sum)
    out = len(ordered) // _LEFT_OUT
    middle = ordered[out : len(ordered) - out]
    return {party: fmean(shares[party] for shares in middle) for party in PARTIES}


def _sum(shares: Shares) -> float:
    return sum(shares.values())


def _measure_within(spans: Iterable[Span], begin: float, end: float) -> float:
    """Seconds of this piece that are in one of the spans, or in several."""
    covered, reached = 0.0, begin
    for start, stop in sorted(spans):
        first, last = max(start, reached), min(stop, end)
        if first < last:
            covered, reached = covered + last - first, last
    return covered
