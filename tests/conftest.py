"""Every run notes which points its tests proved, for the closing table."""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings

# How long an example takes says something about the machine alone. Examples are the same in each
# run, so that a change is blamed for what it did; `--hypothesis-profile searching` finds new ones.
ANY_MACHINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("searching", ANY_MACHINE)
settings.register_profile("the same everywhere", ANY_MACHINE, derandomize=True)
settings.load_profile("the same everywhere")

# Programs under test inherit what is ignored here: under nohup, or as a job in the background of
# a script, that would be signals that they are to be sent.
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(number) == signal.SIG_IGN:
        is_raised = number == signal.SIGINT  # as Python has it where nobody ignores it
        signal.signal(number, signal.default_int_handler if is_raised else signal.SIG_DFL)


# What is found before the first test stays until the last: to look through it again and again is a
# seventh of what unit tests take.
gc.disable()


def pytest_collection_finish() -> None:
    """The collector looks at what tests leave, and at nothing that was there before them."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Append a line for each test with a point to the file that POINTS_FILE names."""
    report = yield
    path = os.environ.get("POINTS_FILE")
    keys = [mark.args[0] for mark in item.iter_markers("point")]
    is_result = report.when == "call" or (report.when == "setup" and not report.passed)
    if path and keys and is_result:
        line = {
            "points": keys,
            "test": item.nodeid,
            "outcome": report.outcome,
            "seconds": round(report.duration, 2),
            "why": call.excinfo.exconly().partition("\n")[0] if call.excinfo else "",
        }
        with Path(path).open("a") as stream:
            stream.write(json.dumps(line) + "\n")
    return report


@pytest.fixture
def quiet_logs() -> Iterator[None]:
    """Nothing but what is critical is logged: these tests make things go wrong on purpose."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()
