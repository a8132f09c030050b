"""Metrics and logs of an operator, read as an administrator sees them."""

from __future__ import annotations

from datetime import timedelta

from et_operator.measuring import Metrics
from tests.specs.witnesses import Durations, read_line, read_metrics


def make(*seconds: float, errors: int = 0) -> tuple[Durations, Durations, int]:
    metrics = Metrics()
    for each in seconds:
        metrics.pass_seconds.observe(each)
        metrics.plan_seconds.observe(each / 10)
    metrics.passes.labels("error").inc(errors)
    return read_metrics(metrics.render().decode())


def test_passes_and_plans_are_counted_by_their_length():
    before, _, _ = make(0.002, 20)
    passes, plans, errors = make(0.002, 20, 0.002, 0.07, 0.4, errors=2)
    assert errors == 2
    assert (passes - before).count == 3
    assert (passes - before).count_longer(0.1) == 1
    assert (passes - before).longest == 0.5
    assert (passes - before).find_share(0.5) == 0.1
    assert plans.count_longer(0.1) == 1
    assert Durations().longest == timedelta().total_seconds()


def test_a_line_of_the_log_is_a_defect_by_its_level():
    assert read_line('{"level": "error", "event": "reconcile failed"}')["event"]
    assert read_line("Traceback (most recent call last):")["level"] == "critical"
    assert read_line("  File x, line 3") == {}
