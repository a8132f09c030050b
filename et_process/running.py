"""A program from its start to SIGTERM: what every one of ours does around its own tasks.

The assembly hands in how its parts are built: log, connection, pages for probes, signals and the
end are the same for all. What a program does is not known here.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

import structlog

from et_kube import __version__
from et_kube.clock import ComparedClock
from et_kube.connecting import connect
from et_kube.resources import Resource
from et_kube.rest import Rest
from et_process.logging import configure_logging
from et_process.measuring import Measures
from et_process.serving import build_app, serve
from et_process.settings import ProcessSettings
from et_process.supervising import Tasks, stop_on_signals, supervise

STOP_GRACE = timedelta(seconds=20)

log = structlog.get_logger()


class Program(Protocol):
    """All parts of one replica, wired."""

    @property
    def tasks(self) -> Tasks:
        """What runs until the process is told to stop, by name."""

    def describe_trouble(self) -> str:
        """What keeps this replica from being useful; "" when nothing does."""

    def measure(self) -> None:
        """Bring the gauges up to date, just before they are read."""


def spare_imports() -> None:
    """From now on the garbage collector looks no more at what there is by now.

    A program consists of a hundred thousand objects that never end. To look at them all again took
    longer than the longest pass, in the middle of which it mostly came.
    """
    gc.collect()
    gc.freeze()


async def run_program(
    settings: ProcessSettings, metrics: Measures, build: Callable[[Rest, ComparedClock], Program]
) -> None:
    """Connect, build the program, and run it until SIGTERM or SIGINT."""
    configure_logging(settings.log_format, settings.log_level)
    spare_imports()
    clock = ComparedClock()

    def observe(verb: str, resource: Resource, code: int, seconds: float) -> None:
        metrics.note_request(verb, resource.plural, code, seconds)

    with stop_on_signals() as stop:
        async with connect() as connection:
            program = build(Rest(connection, observe=observe, hear=clock.hear), clock)
            app = build_app(
                metrics,
                healthy=lambda: "",
                ready=program.describe_trouble,
                refresh=program.measure,
            )
            async with serve(app, settings.http_port):
                log.info("started", version=__version__, identity=settings.identity)
                await supervise(program.tasks, stop=stop, clock=clock, grace=STOP_GRACE)
                log.info("stopped")
