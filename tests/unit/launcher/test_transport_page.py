"""docs/transport.md says what the code does, where it names frames and numbers."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from et_contract import frames

PAGE = Path(__file__).parents[3] / "docs" / "transport.md"
SOURCE = Path(frames.__file__).read_text()
UNITS = {"": 1, "s": 1, "KiB": 1024, "MiB": 1024 * 1024}


def read_rows(title: str) -> list[list[str]]:
    [section] = [part for part in PAGE.read_text().split("\n## ") if part.startswith(title)]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def test_the_page_is_short() -> None:
    assert len(PAGE.read_text().splitlines()) <= 170


def test_every_frame_is_there_with_its_number_and_its_way() -> None:
    comment = r"^([A-Z_]+) = (\d+)  # ([^:{\n]*[^:{\n ])(?: \{([^}\n]*)\})?"
    comments = re.findall(comment, SOURCE, re.MULTILINE)
    assert {name for name, *_ in comments} == set(frames.NAMES.values())
    rows = [(name, number, way) for name, number, way, *_ in read_rows("Frames")]
    assert rows == [(name, number, way) for name, number, way, _ in comments]
    told = {row[0]: row[3] for row in read_rows("Frames")}
    assert {name: told[name] for name, _, _, body in comments if body} == {
        name: body for name, _, _, body in comments if body
    }


@pytest.mark.parametrize("row", read_rows("Timers"), ids=lambda row: row[1])
def test_every_number_is_that_of_the_code(row: list[str]) -> None:
    value, unit = re.fullmatch(r"([\d.]+) ?(\w*)", row[0]).groups()  # type: ignore[union-attr]
    module, _, name = row[1].strip("`").rpartition(".")
    assert float(value) * UNITS[unit] == getattr(importlib.import_module(module), name)
