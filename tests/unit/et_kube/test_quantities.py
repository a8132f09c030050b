from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from et_kube.quantities import MOST, parse_quantity, read_amounts

UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


@pytest.mark.long
@given(
    st.integers(0, 10**6),
    st.integers(0, 999),
    st.sampled_from(sorted(UNITS)),
    st.sampled_from([1, 1000]),
)
def test_quantities_are_exact_and_rounded_up(whole: int, part: int, unit: str, parts: int) -> None:
    exact = Fraction(f"{whole}.{part:03}") * UNITS[unit] * parts
    assert parse_quantity(f"{whole}.{part:03}{unit}", parts) == min(ceil(exact), MOST)


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        ("100m", 100),
        (".5", 500),
        ("1.", 1000),
        ("1n", 1),
        ("+2", 2000),
        ("1e3", 10**6),
        ("5E-1", 500),
        (0.25, 250),
        (3, 3000),
        ("2E", MOST),
        ("9" * 40, MOST),
        ("1" * 5000, MOST),
        ("0" * 5000 + "4", 4000),
        ("0" * 50 + "4000m", 4000),
        ("1e" + "0" * 80 + "3", 10**6),
        ("7e00", 7000),
        ("1e400", MOST),
        ("1e-400", 1),
        ("0e400", 0),
        ("0." + "0" * 70 + "1", 1),
        ("4e4294967296", 4000),
    ],
)
def test_every_form_is_read(text: object, milli: int) -> None:
    assert parse_quantity(text, 1000) == milli


@pytest.mark.parametrize(
    "text", ["", "-1", "one", "1 Gi", "1gi", ".", "1e", "1e" + "9" * 20, True, None, [], "--1"]
)
def test_what_is_none_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="quantity"):
        parse_quantity(text)


def test_cpu_alone_is_in_thousandths_and_nothing_of_0_is_kept() -> None:
    assert read_amounts({"cpu": "1", "memory": "1Ki", "nvidia.com/gpu": 2, "pods": "0"}) == {
        "cpu": 1000,
        "memory": 1024,
        "nvidia.com/gpu": 2,
    }
