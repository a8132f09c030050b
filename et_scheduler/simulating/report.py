"""Tables for people: one row a measure, one column a policy, the goal beside them.

Goals are written down here before anything runs, figures are handed in. Printing judges nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

GOALS: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("edl-1", "with drains"): {
        "started": "20",
        "first trainer, mean s": "<= 30",
        "whole gang, mean s": "<= 30",
        "whole gang, max s": "<= 70",
        "Jain": ">= 0.95",
        "trainers ended": "<= 300",
        "of the placed bound, %": ">= 98",
    },
    ("edl-1", "at once"): {
        "started": "20",
        "first trainer, mean s": "<= 3",
        "whole gang, mean s": "<= 3",
        "Jain": ">= 0.95",
        "trainers ended": "<= 420",
        "of the placed bound, %": ">= 98",
    },
    ("rigid", "with drains"): {"largest gang, max wait min": "<= 32"},
    ("edl-2", "with drains"): {
        "2: 100, after 20 s, %": ">= 98",
        "services, max wait s": "<= 65",
    },
    ("edl-2", "at once"): {
        "2: 100, after 20 s, %": ">= 98",
        "services, max wait s": "<= 3",
    },
}


def print_table(outcomes: Mapping[str, Mapping[str, float]], goals: Mapping[str, str]) -> None:
    """Measures in the order of the first outcome."""
    names = list(outcomes)
    measures = list(next(iter(outcomes.values()), {}))
    width = max([len(measure) for measure in measures], default=0)
    print(" " * width, *[f"{name:>12}" for name in names], f"{'goal':>10}")
    for measure in measures:
        cells = [f"{outcomes[name].get(measure, float('nan')):12.2f}" for name in names]
        print(f"{measure:<{width}}", *cells, f"{goals.get(measure, ''):>10}")
