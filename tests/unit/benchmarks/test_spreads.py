from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.spreads import find_quantile, format_number, measure_spread

FLOATS = st.floats(-1e6, 1e6)


def test_a_spread_names_least_median_95th_percentile_and_most() -> None:
    spread = measure_spread([float(number) for number in range(100, -1, -1)])
    assert (spread.count, spread.least, spread.median, spread.p95, spread.most) == (
        101,
        0,
        50,
        95,
        100,
    )


def test_a_quantile_between_two_samples_is_in_proportion() -> None:
    assert find_quantile([1.0, 2.0], 0.5) == 1.5
    assert find_quantile([0.0, 10.0, 20.0], 0.95) == pytest.approx(19)


def test_one_sample_is_every_quantile() -> None:
    spread = measure_spread([7.0])
    assert (spread.least, spread.median, spread.p95, spread.most) == (7, 7, 7, 7)


def test_no_sample_has_no_spread() -> None:
    with pytest.raises(ValueError, match="one sample"):
        measure_spread([])


@pytest.mark.long
@given(st.lists(FLOATS, min_size=1))
def test_a_spread_is_in_order_and_within_its_samples(samples: list[float]) -> None:
    spread = measure_spread(samples)
    assert min(samples) == spread.least <= spread.median <= spread.p95 + 1e-9
    assert spread.p95 <= spread.most + 1e-9 == max(samples) + 1e-9


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.12345, "0.123"), (1.2345, "1.23"), (1234.5, "1,234"), (7.0, "7"), (0.0, "0")],
)
def test_numbers_show_three_digits_that_count(value: float, text: str) -> None:
    assert format_number(value) == text
