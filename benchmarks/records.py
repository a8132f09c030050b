"""The JSON file of raw samples: what each figure found, and in which run.

measuring.py loads and saves, rendering.py shows. A record keeps its figure's words and run, so that
the page can be written anew without measuring.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.findings import (
    Bar,
    Chart,
    Finding,
    Goal,
    Line,
    Series,
    Side,
    Table,
    Waterfall,
)
from benchmarks.machines import Run


@dataclass(frozen=True, slots=True)
class Record:
    """One figure's newest finding; what it is about is kept, for its file may have changed."""

    name: str
    title: str
    explanation: str
    run: Run
    seconds: float
    finding: Finding


def load_records(path: Path) -> dict[str, Record]:
    """All figures that were ever measured, by name; empty when there is no file yet."""
    if not path.exists():
        return {}
    content = json.loads(path.read_text())
    return {name: decode_record(name, body) for name, body in content.items()}


def save_records(path: Path, records: Mapping[str, Record]) -> None:
    """Write the file whole."""
    content = {name: asdict(record) for name, record in records.items()}
    for body in content.values():
        del body["name"]
    path.write_text(json.dumps(content, indent=1) + "\n")


def decode_record(name: str, body: Mapping[str, Any]) -> Record:
    """Inverse of what save_records writes; raises KeyError or TypeError for another content."""
    run = dict(body["run"])
    run["load"] = tuple(run["load"])
    return Record(
        name,
        body["title"],
        body["explanation"],
        Run(**run),
        body["seconds"],
        decode_finding(body["finding"]),
    )


def decode_finding(body: Mapping[str, Any]) -> Finding:
    """A finding from its JSON."""
    return Finding(
        series=tuple(
            Series(
                item["label"],
                item["unit"],
                tuple(item["samples"]),
                Side(item["side"]),
                item["origin"],
            )
            for item in body["series"]
        ),
        goals=tuple(Goal(**item) for item in body["goals"]),
        notes=tuple(body["notes"]),
        tables=tuple(
            Table(item["title"], tuple(item["header"]), tuple(map(tuple, item["rows"])))
            for item in body["tables"]
        ),
        charts=tuple(_decode_chart(item) for item in body["charts"]),
        waterfalls=tuple(
            Waterfall(**{**item, "bars": tuple(Bar(**bar) for bar in item["bars"])})
            for item in body.get("waterfalls", ())
        ),
    )


def _decode_chart(body: Mapping[str, Any]) -> Chart:
    lines = tuple(
        Line(item["label"], tuple((x, y) for x, y in item["points"])) for item in body["lines"]
    )
    return Chart(**{**body, "lines": lines})
