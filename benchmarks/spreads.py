"""What a list of samples says: least, median, 95th percentile and most.

Pure. Figures judge their goals by it, and rendering.py shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_MEDIAN = 0.5
_NEARLY_ALL = 0.95
_WHOLE = 100.0
_SMALL = 1.0


@dataclass(frozen=True, slots=True)
class Spread:
    """The samples' order statistics, in the samples' own unit."""

    count: int
    least: float
    median: float
    p95: float
    most: float


def measure_spread(samples: Sequence[float]) -> Spread:
    """Of one sample or more, in any order; raises ValueError when there is none."""
    if not samples:
        raise ValueError("a spread needs one sample at least")
    ordered = sorted(samples)
    return Spread(
        count=len(ordered),
        least=ordered[0],
        median=find_quantile(ordered, _MEDIAN),
        p95=find_quantile(ordered, _NEARLY_ALL),
        most=ordered[-1],
    )


def find_quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` of the ascending samples lie.

    0 is the first, 1 the last; between two samples in proportion.
    """
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def format_number(value: float) -> str:
    """Three digits that count, no exponent."""
    size = abs(value)
    if size >= _WHOLE or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.2f}" if size >= _SMALL else f"{value:.3f}"
