from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from launcher.broker.logging import log


def read_lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_each_line_has_the_facts_the_event_its_level_and_the_time(
    capsys: pytest.CaptureFixture[str],
):
    log.warning("config not read", reason='it says "no"\nand no more', failures=2)
    [line] = read_lines(capsys)
    age = datetime.now(UTC) - datetime.fromisoformat(str(line.pop("time")))  # noqa: TID251
    assert abs(age) < timedelta(minutes=1)
    assert line == {
        "event": "config not read",
        "level": "warning",
        "reason": 'it says "no"\nand no more',
        "failures": 2,
    }


def test_each_level_says_which_it_is(capsys: pytest.CaptureFixture[str]):
    for tell in (log.info, log.warning, log.error, log.critical):
        tell("happened")
    assert [line["level"] for line in read_lines(capsys)] == [
        "info",
        "warning",
        "error",
        "critical",
    ]


def test_what_is_no_json_is_told_as_python_shows_it(capsys: pytest.CaptureFixture[str]):
    log.error("not written", path=Path("/job"))
    assert read_lines(capsys)[0]["path"] == "PosixPath('/job')"
