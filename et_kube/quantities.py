"""Amounts of resources as Kubernetes writes them, as exact integers."""

from __future__ import annotations

import re
from collections.abc import Mapping

MOST = 2**48
"""No amount counts for more: what thousands of nodes have together still fits 64 bits."""
CPU = "cpu"
MILLI = 1000
_MAX_TEXT = 64
_MAX_NAME = 316
_QUANTITY = re.compile(
    r"([+-]?)(\d{1,40})?(?:\.(\d{0,40}))?([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d{1,2})?"
)
_BINARY = {unit: 1024**power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


def parse_quantity(value: object, parts: int = 1) -> int:
    """A quantity in so many parts of one, rounded up, MOST at most; raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("a quantity is a text or a number")  # noqa: TRY004 (one error for all)
    found = _QUANTITY.fullmatch(str(value)[:_MAX_TEXT].strip())
    if found is None or not (found[2] or found[3]):
        raise ValueError(f"not a quantity: {str(value)[:_MAX_TEXT]!r}")
    sign, whole, fraction, suffix = found[1], found[2] or "", found[3] or "", found[4] or ""
    if sign == "-":
        raise ValueError("a quantity of a resource is not negative")
    number, shift = int(whole + fraction) * parts, -len(fraction)
    if suffix in _BINARY:
        number *= _BINARY[suffix]
    elif suffix in _DECIMAL:
        shift += _DECIMAL[suffix]
    else:
        shift += int(suffix[1:])
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
