"""How long the demo waits, and for whom: a scripted look in place of the cluster's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from examples.demo.observing import Observer
from examples.demo.places import Place
from examples.demo.trainings import DemoError, Training


class Scripted(Observer):
    """Each look finds the next phases of its jobs."""

    script: Iterator[tuple[str, ...]]

    def look(self) -> None:
        for training, phase in zip(self.trainings, next(self.script), strict=True):
            training.status["phase"] = phase

    def pause(self) -> None:
        pass


def make_observer(*script: tuple[str, ...]) -> tuple[Scripted, Training, Training]:
    observer = Scripted(Place(None, None, "image"), "demo", live=False)
    large, small = Training("large"), Training("small")
    observer.trainings += [large, small]
    observer.script = iter(script)
    return observer, large, small


def test_it_looks_until_it_is_so() -> None:
    observer, large, small = make_observer(("Created", ""), ("Running", ""), ("Running", "Created"))
    observer.wait(large, lambda: small.phase == "Created", "small is there")
    assert large.phase == "Running"


def test_a_job_that_has_succeeded_ends_no_wait_for_another() -> None:
    observer, large, _ = make_observer(("Running", "Succeeded"), ("Scaling", "Succeeded"))
    observer.wait(large, lambda: large.phase == "Scaling", "large grows")


def test_a_job_that_ends_too_early_is_named() -> None:
    observer, large, _ = make_observer(("Succeeded", "Running"))
    with pytest.raises(DemoError, match="the job large ended before large grows"):
        observer.wait(large, lambda: False, "large grows")


def test_who_fails_is_told_whoever_is_waited_for() -> None:
    observer, large, small = make_observer(("Running", "Failed"))
    small.status["conditions"] = [{"message": "exit code 3"}]
    with pytest.raises(DemoError, match=r"while waiting until large grows\nsmall:(.|\n)*code 3"):
        observer.wait(large, lambda: False, "large grows")
