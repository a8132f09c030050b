"""Samples are written, read back and shown; nothing here measures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.__main__ import choose
from benchmarks.drawing import find_left
from benchmarks.findings import (
    Bar,
    Chart,
    Finding,
    Goal,
    Line,
    Place,
    Series,
    Side,
    Table,
    Waterfall,
)
from benchmarks.listing import list_figures
from benchmarks.machines import Run
from benchmarks.measuring import PLOTS, draw_anew
from benchmarks.records import Record, load_records, save_records
from benchmarks.rendering import BUSY, render_results, show_record

RUN = Run("2026-01-01", "abc", "make bench", "machine", "versions", (0.1, 0.2, 0.3), 2)
FINDING = Finding(
    series=(
        Series("ours", "s", (1.0, 2.0, 3.0)),
        Series("theirs", "s", (9.0,), Side.PEER, "quoted, from a page"),
    ),
    goals=(Goal("median", 2.0, 1.5, "s"), Goal("rate", 5.0, 4.0, "1/s", is_floor=True)),
    notes=("a note",),
    tables=(Table("words", ("a", "b|c"), (("1", "2"),)),),
    charts=(Chart("cost", "Cost", "size", "seconds", (Line("ours", ((1.0, 2.0), (2.0, 4.0))),)),),
    waterfalls=(
        Waterfall("way", "Way", (Bar("bound", "us", 0.0, 1.0), Bar("run", "it", 1.0, 2.0))),
    ),
)
RECORD = Record("some-figure", "A title", "What it is.", RUN, 12.0, FINDING)


def test_records_come_back_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    assert load_records(path) == {}
    save_records(path, {RECORD.name: RECORD})
    assert load_records(path) == {RECORD.name: RECORD}


@pytest.mark.parametrize(
    ("goal", "met"),
    [
        (Goal("at most", 1.0, 1.0, "s"), True),
        (Goal("at most", 1.1, 1.0, "s"), False),
        (Goal("at least", 1.0, 1.0, "s", is_floor=True), True),
        (Goal("at least", 0.9, 1.0, "s", is_floor=True), False),
    ],
)
def test_a_goal_is_met_on_its_own_side_of_the_limit(goal: Goal, *, met: bool) -> None:
    assert goal.is_met is met


def test_the_page_has_spreads_goals_origins_and_pictures() -> None:
    page = render_results({RECORD.name: RECORD})
    assert "| ours | ours | 3 | 1 | 2 | 2.90 | 3 | s | run here, with this command |" in page
    assert "| theirs | peer | 1 |  | 9 |  |  | s | quoted, from a page |" in page
    assert "| [some-figure](#some-figure) | median <= 1.50 s | 2 s | MISSED |" in page
    assert "rate >= 4 1/s" in page
    assert "| a | b\\|c |" in page
    assert "![Cost](plots/cost.png)" in page
    assert "![Way](plots/way.png)" in page
    assert "load average before the run 0.10 0.20 0.30" in page
    assert BUSY not in page
    assert "MISSED" in show_record(RECORD)


@pytest.mark.long
def test_pictures_are_drawn_from_what_was_recorded(tmp_path: Path) -> None:
    draw_anew(tmp_path, [RECORD])
    drawn = {path.name: path.read_bytes() for path in (tmp_path / PLOTS).iterdir()}
    assert set(drawn) == {"cost.png", "way.png"}
    assert all(picture.startswith(b"\x89PNG") for picture in drawn.values())


def test_a_picture_over_time_begins_with_what_was_before_0() -> None:
    [chart] = FINDING.charts
    assert find_left(chart) == 0.0
    early = replace(chart, lines=(*chart.lines, Line("early", ((-10.0, 0.0), (5.0, 1.0)))))
    assert find_left(early) == -10.0


def test_a_run_on_a_busy_machine_says_that_it_is_not_final() -> None:
    busy = replace(RECORD, run=replace(RUN, load=(1.5, 0.0, 0.0)))
    assert BUSY in render_results({busy.name: busy})


def test_every_file_of_figures_is_a_figure_by_its_name() -> None:
    figures = list_figures()
    places = [figure.place for figure in figures.values()]
    assert places == sorted(places, key=list(Place).index)
    assert "created-to-command" in figures
    assert all(figure.title and figure.explanation for figure in figures.values())


def test_what_takes_half_an_hour_is_measured_where_it_is_named() -> None:
    figures = list_figures()
    assert set(figures) - set(choose(figures, [])) == {"hundred-kills"}
    assert choose(figures, ["hundred-kills", "rest"]) == ["rest", "hundred-kills"]
