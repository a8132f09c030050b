"""RESULTS.md and what the terminal shows, from records.

Texts from records and nothing else: no figure is asked, and no file is written here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from benchmarks.findings import Goal, Series, Table
from benchmarks.records import Record
from benchmarks.spreads import format_number, measure_spread

HEAD = """# Benchmarks

Written by `make bench`; do not edit. `make bench ONLY=<name>` measures one figure again and
replaces its section, `SAMPLES=n` says how many samples to take, `SCALE=1000` adds the longest run.
`results.json` has every sample.

Beside each figure stands the same load without the operator, measured in the same run: that is what
this machine can do. A peer's number is marked as run here or as quoted; ratios count, absolute
times belong to the machine.
"""
BUSY = "**The machine was busy when this was measured: not a final figure.**"
_SERIES = ("what", "whose", "samples", "min", "median", "p95", "max", "unit", "from")


def render_results(records: Mapping[str, Record]) -> str:
    """The whole page."""
    ordered = list(records.values())
    parts = [HEAD, render_goals(ordered)]
    parts += [render_record(record) for record in ordered]
    return "\n".join(parts)


def render_goals(records: Iterable[Record]) -> str:
    """The table of all goals."""
    rows = [
        (f"[{record.name}](#{record.name})", *describe_goal(goal))
        for record in records
        for goal in record.finding.goals
    ]
    table = Table("Goals", ("figure", "goal", "reached", ""), tuple(rows))
    return render_table(table)


def describe_goal(goal: Goal) -> tuple[str, str, str]:
    """What was aimed at, what was reached, and whether that will do."""
    sign = ">=" if goal.is_floor else "<="
    wanted = f"{goal.text} {sign} {format_number(goal.limit)} {goal.unit}"
    return wanted, f"{format_number(goal.value)} {goal.unit}", "met" if goal.is_met else "MISSED"


def render_record(record: Record) -> str:
    """One figure's section."""
    finding = record.finding
    about = f"**{record.title}.** {record.explanation}"
    blocks = [f"## {record.name}", about, describe_run(record)]
    if record.run.is_busy:
        blocks.append(BUSY)
    if finding.series:
        rows = tuple(describe_series(series) for series in finding.series)
        blocks.append(format_table(_SERIES, rows))
    for goal in finding.goals:
        wanted, reached, verdict = describe_goal(goal)
        blocks.append(f"Goal: {wanted}. Reached: {reached}, **{verdict}**.")
    blocks += [render_table(table) for table in finding.tables]
    pictures = [(p.title, p.name) for p in finding.charts]
    pictures += [(p.title, p.name) for p in finding.waterfalls]
    blocks += [f"![{title}](plots/{name}.png)" for title, name in pictures]
    if finding.notes:
        blocks.append("\n".join(f"- {note}" for note in finding.notes))
    return "\n\n".join(blocks) + "\n"


def describe_run(record: Record) -> str:
    """When and where, in one paragraph."""
    run = record.run
    load = " ".join(f"{value:.2f}" for value in run.load)
    return (
        f"{run.date}, commit {run.commit}, `{run.command}`, {record.seconds:.0f} s; "
        f"load average before the run {load}; {run.machine}; {run.versions}"
    )


def describe_series(series: Series) -> tuple[str, ...]:
    """One row of the table of samples."""
    spread = measure_spread(series.samples)
    values = (spread.least, spread.median, spread.p95, spread.most)
    numbers = [format_number(value) for value in values]
    if spread.count == 1:
        numbers = ["", numbers[1], "", ""]
    return (
        series.label,
        series.side.value,
        str(spread.count),
        *numbers,
        series.unit,
        series.origin,
    )


def render_table(table: Table) -> str:
    """A table under its title."""
    return f"### {table.title}\n\n{format_table(table.header, table.rows)}"


def format_table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Markdown; a bar in a cell would end it."""
    head = list(header)
    return "\n".join(_write_rows([head, ["---"] * len(head), *map(list, rows)]))


def show_record(record: Record) -> str:
    """A figure's section for a terminal: the spread of each series, then the goals."""
    rows = [_SERIES[:-1], *(describe_series(series)[:-1] for series in record.finding.series)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_SERIES) - 1)]
    padded = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]
    lines = [f"  {'  '.join(cells)}".rstrip() for cells in padded]
    lines += ["  goal: " + ", ".join(describe_goal(goal)) for goal in record.finding.goals]
    for table in record.finding.tables:
        lines += [f"  {table.title}", *(f"    {' | '.join(row)}" for row in table.rows)]
    return "\n".join(lines + [f"  - {note}" for note in record.finding.notes])


def _write_rows(rows: Iterable[Iterable[str]]) -> Iterator[str]:
    for row in rows:
        cells = " | ".join(cell.replace("|", "\\|") for cell in row)
        yield f"| {cells} |"
