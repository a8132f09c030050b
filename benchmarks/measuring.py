"""Measuring figures one after another, and writing down what came of them at once.

A process of figures runs it (`__main__`), for a cluster inside its network. What a figure has found
is on disk before the next one begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from benchmarks.apis import open_api
from benchmarks.benches import Bench, Site
from benchmarks.drawing import draw, draw_waterfall
from benchmarks.findings import Place
from benchmarks.listing import list_figures
from benchmarks.machines import Run
from benchmarks.records import Record, load_records, save_records
from benchmarks.rendering import render_results, show_record
from devcluster.settings import find_cluster
from et_kube.clock import SystemClock

SAMPLES_FILE = "results.json"
PAGE = "RESULTS.md"
PLOTS = "plots"


async def measure(names: Sequence[str], run: Run, folder: Path, bench: Bench) -> None:
    """Measure these figures, which all need the same; each is written to `folder` when it is done.

    Where a cluster is needed this must run inside its network namespace.
    """
    figures = list_figures()
    async with AsyncExitStack() as stack:
        if any(figures[name].place is not Place.NOTHING for name in names):
            cluster = find_cluster()
            api = await stack.enter_async_context(open_api(cluster))
            bench.site = Site(cluster, api, bench.clock)
        for name in names:
            figure = figures[name]
            print(f"\n==> {name}: {figure.title}", flush=True)
            started = bench.clock.monotonic()
            finding = await figure.measure(bench)
            seconds = bench.clock.monotonic() - started
            record = Record(name, figure.title, figure.explanation, run, seconds, finding)
            print(show_record(record), flush=True)
            write_down(record, folder)


def make_bench(samples: int | None, scale: int) -> Bench:
    """A bench on the machine's own clock."""
    return Bench(SystemClock(), samples, scale)


def write_down(record: Record, folder: Path) -> None:
    """Put a record in the place of the figure's former one; samples, page and plots follow."""
    records = {**load_records(folder / SAMPLES_FILE), record.name: record}
    known = [name for name in list_figures() if name in records]
    ordered = {name: records[name] for name in known}
    draw_anew(folder, [record])
    save_records(folder / SAMPLES_FILE, ordered)
    (folder / PAGE).write_text(render_results(ordered))


def draw_anew(folder: Path, records: Iterable[Record]) -> None:
    """The pictures of these, from what was recorded."""
    plots = folder / PLOTS
    plots.mkdir(parents=True, exist_ok=True)
    for record in records:
        for chart in record.finding.charts:
            draw(chart, plots / f"{chart.name}.png")
        for waterfall in record.finding.waterfalls:
            draw_waterfall(waterfall, plots / f"{waterfall.name}.png")
