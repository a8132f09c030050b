"""`make bench`: measure all figures but the longest, or those that are named, into RESULTS.md.

preparing.py readies a cluster, and measuring.py does the rest in a process for each kind of
figures, one after the other. A figure that misses its goal ends nothing, and a cluster that was
there before is never taken down.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from benchmarks import preparing
from benchmarks.findings import Figure, Place
from benchmarks.listing import list_figures
from benchmarks.machines import ROOT, Run, count_cores, describe_commit, describe_machine
from benchmarks.measuring import PAGE, SAMPLES_FILE, draw_anew, make_bench, measure
from benchmarks.records import load_records
from devcluster import networks
from devcluster.settings import KWOK_VERSION, NEWEST, find_cluster
from et_kube.clock import SystemClock
from et_process.running import spare_imports

EXIT_USAGE = 2


def main(arguments: Sequence[str]) -> int:
    """Measure; 0 when every figure was, whatever it found."""
    options = build_parser().parse_args(arguments)
    figures = list_figures()
    unknown = sorted(set(options.names) - set(figures))
    if unknown:
        print(f"no such figure: {', '.join(unknown)}; there are {', '.join(figures)}")
        return EXIT_USAGE
    names = choose(figures, options.names)
    if options.draw:
        records = load_records(options.folder / SAMPLES_FILE)
        draw_anew(options.folder, [records[name] for name in names if name in records])
        return 0
    if options.run:
        run = Run(**json.loads(options.run))
        bench = make_bench(options.samples, options.scale)
        spare_imports()  # as the programs do, whose passes are measured in this process
        asyncio.run(measure(names, run, options.folder, bench))
        return 0
    return measure_all(names, options)


def choose(figures: Mapping[str, Figure], asked: Sequence[str]) -> list[str]:
    """Which are measured: those that are named, or all but the ones that have to be."""
    if asked:
        return [name for name in figures if name in asked]
    return [name for name, figure in figures.items() if not figure.is_asked_for]


def measure_all(names: Sequence[str], options: argparse.Namespace) -> int:
    """Each kind of figures in a process of its own, which for a cluster lives in its network."""
    run = describe_run(options)
    was_up = preparing.is_cluster_up()
    figures = list_figures()
    needed = [place for place in Place if any(figures[name].place is place for name in names)]
    for place in needed:
        try:
            preparing.prepare(place)
            chosen = [name for name in names if figures[name].place is place]
            command = build_command(chosen, run, options, place)
            code = subprocess.run(command, cwd=ROOT, check=False).returncode
            preparing.restore(place)
        except preparing.PreparationFailed as error:
            print(f"bench: {error}")
            return 1
        if code:
            print(f"bench: {', '.join(chosen)} ended with {code}; the cluster stays up")
            return code
    if not was_up and needed != [Place.NOTHING]:
        preparing.take_down()
    print(f"\nwritten to {options.folder / PAGE}")
    return 0


def build_command(
    names: Sequence[str], run: Run, options: argparse.Namespace, place: Place
) -> list[str]:
    """This program again, for these figures, where their cluster is."""
    prefix = networks.enter(find_cluster().namespace) if place is not Place.NOTHING else []
    flags = ["--folder", str(options.folder), "--run", json.dumps(asdict(run))]
    if options.samples:
        flags += ["--samples", str(options.samples)]
    if options.scale:
        flags += ["--scale", str(options.scale)]
    return [*map(str, prefix), sys.executable, "-m", "benchmarks", *names, *flags]


def describe_run(options: argparse.Namespace) -> Run:
    """This run, before it has changed the machine's load."""
    words = ["make", "bench"]
    words += [f"ONLY={shlex.quote(' '.join(options.names))}"] if options.names else []
    words += [f"SAMPLES={options.samples}"] if options.samples else []
    words += [f"SCALE={options.scale}"] if options.scale else []
    client = version("aiohttp")
    return Run(
        date=SystemClock().now().isoformat(sep=" ", timespec="minutes"),
        commit=describe_commit(),
        command=" ".join(words),
        machine=describe_machine(),
        versions=f"Kubernetes {NEWEST.version}, KWOK {KWOK_VERSION}, "
        f"Python {platform.python_version()}, aiohttp {client}",
        load=os.getloadavg(),
        cores=count_cores(),
    )


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="FIGURE", help="default: all but the longest")
    parser.add_argument("--samples", type=int, help="of each figure, instead of its own number")
    parser.add_argument("--scale", type=int, default=0, help="jobs of the longest run (none)")
    parser.add_argument("--folder", type=Path, default=Path("benchmarks"), help="where to write")
    parser.add_argument("--draw", action="store_true", help="what was recorded, measuring nothing")
    parser.add_argument("--run", help=argparse.SUPPRESS)  # what a process of figures is told
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
