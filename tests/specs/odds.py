"""Values that nobody should write, by what is wrong with them.

Each class is a function of the dice alone, so that a seed gives the same value for ever.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Make = Callable[[random.Random], Any]


@dataclass(frozen=True)
class Raw:
    """JSON that Python's encoder would not write.

    `value` is what an API server makes of the text; REFUSED where it does not take it.
    """

    text: str
    value: Any


class Refused:
    """See Raw."""


REFUSED = Refused()
DEPTHS = (20, 150, 400, 900, 1_500, 5_000, 12_000)
"""Levels of nesting: Python gives up at about 1,000, the API server at 10,000."""
LENGTHS = (254, 5_000, 70_000, 300_000)


def be_of_the_wrong_type(dice: random.Random) -> Any:
    return dice.choice(
        (None, True, False, 0, 1, 2, -1, 1.5, "text", "1", "true", [], ["a"], [1], [None], [[]],
         [{}], {}, {"a": 1}, {"a": None}, {"name": 5}, {"name": {}}, [{"name": ["a"]}], {"0": "a"})
    )  # fmt: skip


def be_empty(dice: random.Random) -> Any:
    return dice.choice((None, "", " ", "\n", [], {}, [""], [None], [{}], {"": ""}, {"": None}))


def be_huge(dice: random.Random) -> Any:
    size = dice.choice(LENGTHS)
    return dice.choice(
        (
            lambda: "x" * size,
            lambda: "echo\n" + "\n" * (size // 10) + "python train.py",
            lambda: "a " * (size // 2),
            lambda: ["x"] * (size // 50),
            lambda: [{"name": f"n{number}", "value": "v"} for number in range(size // 50)],
            lambda: {f"k{number}": "v" for number in range(size // 50)},
        )
    )()


def be_unicode(dice: random.Random) -> Any:
    text = dice.choice(
        ("\ud800", "a\udfffb", "\0", "a\0b", "\x1b[2J\x1b]0;owned\x07", "\x9b31m", "\u202egnp.exe",
         "\ufeffa", "é" * 40, "e\u0301" * 40, "\U0001f4a5", "a\nb", "a\r\nb", "\u2028", "\x7f",
         "${HOME}", "$(reboot)", "; reboot", "../../etc", "%s%n", "{{.}}", "\uff2e", "\u0663")
    )  # fmt: skip
    return dice.choice((text, [text], {"name": text}, {text: "a"}, [{"name": text, "value": text}]))


def be_deep(dice: random.Random) -> Any:
    levels = dice.choice(DEPTHS)
    begin, end = dice.choice((("[", "]"), ('{"a":', "}")))
    text = begin * levels + "1" + end * levels
    value: Any = 1
    for _ in range(levels):
        value = [value] if begin == "[" else {"a": value}
    return Raw(text, REFUSED if levels >= 10_000 else value)


def be_negative(dice: random.Random) -> Any:
    return dice.choice((-1, -2, -(2**31), -(2**31) - 1, -(2**63), -0.5, -1e300, "-1", [-1]))


def be_an_overflow(dice: random.Random) -> Any:
    return dice.choice(
        (99_999, 100_000, 100_001, 2**31 - 1, 2**31, 2**32, 10**11, 10**12, 2**53 + 1, 2**63 - 1,
         2**63, 10**30, 1e308, 0.1 + 0.2, "9" * 19, "9" * 5_000, "1e400", "Infinity", "NaN",
         Raw("1e400", REFUSED), Raw("1" + "0" * 5_000, REFUSED), Raw("1e3", 1000), Raw("-0", 0))
    )  # fmt: skip


def be_a_duplicate(dice: random.Random) -> Any:
    item = dice.choice(("a", {"name": "a"}, {"name": "a", "value": "b"}, {"key": "a"}, 1))
    return dice.choice(([item, item], [item] * 40, Raw('{"a":1,"a":"b"}', {"a": "b"})))


def be_missing(dice: random.Random) -> Any:
    name = dice.choice(("no-such-thing", "no.such.thing", "NO SUCH", "x-worker-0", "x" * 63))
    return dice.choice((name, [name], [{"name": name}], {"name": name}, {"secretName": name}))


def be_ours(dice: random.Random) -> Any:
    """What belongs to the operator, in somebody else's hands."""
    name = dice.choice(
        ("edl-broker", "edl-run", "edl-token", "edl-keys", "edl-runtime-0123456789", "/etc/edl",
         "/var/run/edl", "EDL_JOB_UID", "healthy-launcher", "healthy-worker-0", "healthy-config",
         "healthy-report", "kai.alibabacloud.com", "training-job-name", "replica-index", "ssh")
    )  # fmt: skip
    return dice.choice(
        (name, [name], {"name": name}, [{"name": name}], {name: "healthy"},
         [{"name": name, "mountPath": name}], {"name": name, "value": "healthy"})
    )  # fmt: skip


def be_a_time(dice: random.Random) -> Any:
    return dice.choice(
        ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-02-30T00:00:00Z", "yesterday",
         "2026-01-01T00:00:00+99:99", "2026-01-01", 1_767_225_600, "2026-01-01T00:00:00.5Z")
    )  # fmt: skip


ODDS: Mapping[str, Make] = {
    "wrong type": be_of_the_wrong_type,
    "empty": be_empty,
    "huge": be_huge,
    "unicode": be_unicode,
    "deep": be_deep,
    "negative": be_negative,
    "overflow": be_an_overflow,
    "duplicate": be_a_duplicate,
    "missing": be_missing,
    "ours": be_ours,
    "time": be_a_time,
}
"""The classes by name; a table of a run has a row for each."""

_TYPES: Mapping[str, type | tuple[type, ...]] = {"text": str, "integer": int}


def draw(dice: random.Random, kind: str) -> Any:
    """An odd value of this type (text, integer, time), for places where the server checks types."""
    if kind == "time":
        return dice.choice(("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-01-01T00:00:00Z"))
    if kind == "integer":
        return dice.choice((-(2**31), -1, 0, 1, 2, 99_999, 3_000_000, 2**31 - 1))
    value = ODDS[dice.choice(("empty", "huge", "unicode", "overflow", "missing", "ours"))](dice)
    return value if isinstance(value, str) else dice.choice(("", "x" * 63, "0", "-1", "1e9"))
