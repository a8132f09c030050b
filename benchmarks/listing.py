"""Which figures there are: every module of benchmarks/figures, by its file's name.

A module there without a FIGURE is an error; nothing has to be registered anywhere else.
"""

from __future__ import annotations

import importlib
import pkgutil

from benchmarks import figures
from benchmarks.findings import Figure, Place


def list_figures() -> dict[str, Figure]:
    """Name -> figure; those that need least around them first, then by name."""
    found: dict[str, Figure] = {}
    for module in pkgutil.iter_modules(figures.__path__):
        figure = importlib.import_module(f"{figures.__name__}.{module.name}").FIGURE
        if not isinstance(figure, Figure):
            raise TypeError(f"FIGURE of benchmarks/figures/{module.name}.py is no Figure")
        found[module.name.replace("_", "-")] = figure
    places = list(Place)
    return dict(sorted(found.items(), key=lambda pair: (places.index(pair[1].place), pair[0])))
