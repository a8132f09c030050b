"""Times as Go and Python write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from et_kube.times import format_time, parse_time


@pytest.mark.parametrize(
    ("text", "microsecond"),
    [
        ("2026-01-02T03:04:05Z", 0),
        ("2026-01-02T03:04:05.5Z", 500_000),
        ("2026-01-02T03:04:05.123456Z", 123_456),
        ("2026-01-02T03:04:05.123456789Z", 123_456),
        ("2026-01-02T11:04:05+08:00", 0),
    ],
)
def test_every_spelling_of_a_time(text: str, microsecond: int):
    assert parse_time(text) == datetime(2026, 1, 2, 3, 4, 5, microsecond, tzinfo=UTC)


@pytest.mark.parametrize("text", [None, "", "yesterday", "2026-01-02T03:04:05", "2026-13-01"])
def test_what_is_no_time(text: str | None):
    assert parse_time(text) is None


@pytest.mark.long
@given(st.timedeltas(timedelta(0), timedelta(days=20_000)))
def test_there_and_back(age: timedelta):
    moment = datetime(2000, 1, 1, tzinfo=UTC) + age
    assert parse_time(format_time(moment)) == moment


@pytest.mark.long
@given(st.text())
def test_no_text_raises(text: str):
    parse_time(text)
