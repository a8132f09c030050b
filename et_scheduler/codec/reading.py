"""Values that others may have written, read with their bounds; ValueError says which is wrong.

One value at a time, for the other modules of the codec; what a field is for is said there. `read_`
refuses what `find_` passes over.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

from et_contract.texts import clean
from et_kube.resources import Json
from et_kube.times import format_time, parse_time

MAX_INTEGER = 2**31 - 1
MAX_NAME = 253
_START = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_LATEST = 250_000_000_000_000
"""Milliseconds, in the year 9892: no moment that is computed from a time here is unwritable."""

Choice = TypeVar("Choice", bound=StrEnum)


def read_object(body: object, key: str) -> Json:
    """The object in `key`, empty where there is none."""
    value = body.get(key) if isinstance(body, Mapping) else None
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"{key} is not an object")  # noqa: TRY004 (one error for all)
    return value


def read_list(body: Json, key: str, most: int) -> list[Any]:
    """The list in `key`, empty where there is none."""
    value = body.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or len(value) > most:
        raise ValueError(f"{key} is not a list of at most {most}")
    return value


def read_objects(body: Json, key: str, most: int) -> list[Json]:
    """The list of objects in `key`."""
    found = read_list(body, key, most)
    if not all(isinstance(item, Mapping) for item in found):
        raise ValueError(f"{key} has something that is not an object")
    return found


def read_text(body: Json, key: str, most: int = MAX_NAME) -> str:
    """The text in `key`, "" where there is none."""
    value = body.get(key)
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > most:
        raise ValueError(f"{key} is not a text of at most {most} characters")
    return value


def read_words(body: Json, key: str, most: int) -> str:
    """The text in `key` as it can be shown to people, cut where it is longer."""
    return clean(body.get(key), most)


def read_texts(body: Json, key: str, most: int, longest: int = MAX_NAME) -> tuple[str, ...]:
    """The list of texts in `key`."""
    found = read_list(body, key, most)
    if not all(isinstance(item, str) and len(item) <= longest for item in found):
        raise ValueError(f"{key} has something that is not a text of at most {longest} characters")
    return tuple(found)


def read_integer(body: Json, key: str, default: int = 0, *, least: int = 0, most: int) -> int:
    """The whole number in `key`."""
    value = body.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{key} is not a whole number from {least} to {most}")
    return value


def read_flag(body: Json, key: str, *, default: bool = False) -> bool:
    """The boolean in `key`."""
    value = body.get(key)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise ValueError(f"{key} is not true or false")  # noqa: TRY004 (one error for all)
    return value


def read_choice(body: Json, key: str, choices: type[Choice], default: Choice) -> Choice:
    """The member of `choices` that `key` names; an unknown one raises ValueError."""
    value = body.get(key)
    return default if value in {None, ""} else choices(value)


def find_choice(body: Json, key: str, choices: type[Choice]) -> Choice | None:
    """The choice that `key` names; None also for one of another version, which may have more."""
    return next((one for one in choices if one == body.get(key)), None)


def read_moment(body: Json, key: str) -> int | None:
    """The time in `key` in milliseconds since 1970; None where there is none."""
    found = find_moment(body, key)
    if found is None and body.get(key) is not None:
        raise ValueError(f"{key} is not a time")
    return found


def find_moment(body: Json, key: str) -> int | None:
    """As `read_moment`; None also where it is no time that counts, as one before 1970."""
    moment = parse_time(body.get(key))
    found = None if moment is None else (moment - _START) // _MILLISECOND
    return found if found is not None and 0 <= found <= _LATEST else None


def write_moment(at: int | None) -> str | None:
    """The opposite; to the millisecond."""
    return None if at is None else format_time(_START + at * _MILLISECOND)
