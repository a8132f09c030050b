"""Amounts of resources as Kubernetes writes them, as exact integers.

Pure, and never a float: an amount is rounded up and cut at MOST, so that sums of thousands are
exact. What is no amount of a resource raises ValueError.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

MOST = 2**48
"""No amount counts for more: what thousands of nodes have together still fits 64 bits."""
CPU = "cpu"
MILLI = 1000
_MAX_TEXT = 64
_MAX_NAME = 316
_MAX_DIGITS = 40
"""Before or after the point: beyond them an amount is more than MOST, or the least there is."""
_QUANTITY = re.compile(  # gives nothing back: of what is no quantity each character is read once
    r"([+-]?)(\d*+)(?:\.(\d*+))?+(?:([KMGTPE]i|[numkMGTPE]?)|[eE]([+-]?)(?=\d)0*+(\d{0,19}))"
)
_BINARY = {unit: 1024**power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_WRAP = 2**31


def parse_quantity(value: object, parts: int = 1) -> int:
    """A quantity in so many parts of one, rounded up, MOST at most; raises ValueError.

    All that the API server stores is read as it means it: it keeps any number of zeros before a
    quantity, or its exponent, as they were written, and wraps an exponent at 32 bits.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("a quantity is a text or a number")  # noqa: TRY004 (one error for all)
    found = _QUANTITY.fullmatch(str(value).strip())
    if found is None or not (found[2] or found[3]):
        raise ValueError(f"not a quantity: {str(value)[:_MAX_TEXT]!r}")
    if found[1] == "-":
        raise ValueError("a quantity of a resource is not negative")
    fraction, suffix = found[3] or "", found[4] or ""
    shift = _DECIMAL.get(suffix, 0)
    if found[6]:  # an exponent of zeros alone shifts nothing
        shift = (int(found[5] + found[6]) + _WRAP) % (2 * _WRAP) - _WRAP
    digits = (found[2] + fraction).lstrip("0")
    return _multiply(digits, shift - len(fraction), parts * _BINARY.get(suffix, 1))


def _multiply(digits: str, shift: int, factor: int) -> int:
    """These digits times ten to the power of `shift` times `factor`."""
    if not digits:
        return 0
    if abs(len(digits) + shift) > _MAX_DIGITS:
        return MOST if shift > -len(digits) else 1
    kept = digits[: 2 * _MAX_DIGITS]
    number, shift = int(kept) * factor, shift + len(digits) - len(kept)
    ten: int = 10 ** abs(shift)
    return min(number * ten if shift >= 0 else -(-number // ten), MOST)


def read_amounts(body: object) -> dict[str, int]:
    """Amounts by resource, cpu in thousandths; what is no quantity raises ValueError."""
    if body is None:
        return {}
    if not isinstance(body, Mapping):
        raise ValueError("amounts of resources are an object")  # noqa: TRY004 (one error for all)
    found = {
        str(name)[:_MAX_NAME]: parse_quantity(value, MILLI if name == CPU else 1)
        for name, value in body.items()
    }
    return {name: amount for name, amount in found.items() if amount}
