"""Typed access to a JSON object that somebody wrote by hand: every complaint names the path.

A null counts as a field that was left out, as it does for the API server.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from enum import Enum
from typing import Any, TypeVar

from et_contract.texts import clean
from et_kube.errors import InvalidObject
from et_kube.resources import Json

Choice = TypeVar("Choice", bound=Enum)
Content = TypeVar("Content")


MAX_INTEGER = 2**31 - 1
"""As in the CRDs, whose integers are int32 but for `activeDeadlineSeconds`."""
MAX_SECONDS = MAX_INTEGER
"""68 years: every moment that is so long after another can be written down."""
MAX_COMPLAINT = 1024
"""Characters of a sentence about an object, which may quote what its author wrote."""


def attempt(read: Callable[[], Content], path: str) -> tuple[Content | None, str]:
    """What `read` returns; or None, and a sentence about what its author must change.

    Whatever `read` raises stays with the object that it reads. A value that nobody foresaw has no
    check of its own: the sentence names `path`, the whole of what was read.
    """
    try:
        return read(), ""
    except InvalidObject as error:
        return None, clean(str(error), MAX_COMPLAINT)
    except Exception as error:  # noqa: BLE001 (one object must not end what all depend on)
        return None, clean(f"{path}: {explain(error)}", MAX_COMPLAINT)


def explain(error: Exception) -> str:
    """What to do about content that raised an error which is no InvalidObject."""
    return (
        f"cannot be read ({type(error).__name__}: {error}): look for a value of another type than "
        "its field has, for example a number without quotes in a list of strings"
    )


def ask_for_text(value: object) -> str:
    """What to change where a string belongs and `value` is."""
    if isinstance(value, bool | int | float):
        return f"must be a string: put {json.dumps(value)} in quotes"
    return "must be a string"


class Fields:
    """One JSON object at a path. Each method raises InvalidObject for a value of another type."""

    def __init__(self, body: object, path: str) -> None:
        if not isinstance(body, Mapping):
            raise InvalidObject(path, "must be an object")
        self.body: Json = body
        self.path = path

    def fail(self, key: str, message: str) -> InvalidObject:
        """The error to raise about the field `key`."""
        return InvalidObject(self._join(key), message)

    def get_object(self, key: str) -> Fields | None:
        """The object in `key`."""
        body = self.body.get(key)
        return None if body is None else Fields(body, self._join(key))

    def require_object(self, key: str) -> Fields:
        """The object in `key`, which must be there."""
        found = self.get_object(key)
        if found is None:
            raise self.fail(key, "is required")
        return found

    def get_text(self, key: str) -> str | None:
        """The string in `key`."""
        value = self.body.get(key)
        if value is not None and not isinstance(value, str):
            raise self.fail(key, ask_for_text(value))
        return value

    def require_text(self, key: str) -> str:
        """The string in `key`, which must be there and not empty."""
        value = self.get_text(key)
        if not value:
            raise self.fail(key, "is required")
        return value

    def get_integer(self, key: str, *, minimum: int, maximum: int = MAX_INTEGER) -> int | None:
        """The whole number in `key`, within its bounds."""
        value = self.body.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.fail(key, "must be a whole number")
        if value < minimum:
            raise self.fail(key, f"must be {minimum} or more")
        if value > maximum:
            raise self.fail(key, f"must be {maximum} or less")
        return value

    def get_seconds(self, key: str, *, minimum: int) -> timedelta | None:
        """The whole number of seconds in `key`, at most MAX_SECONDS."""
        value = self.get_integer(key, minimum=minimum, maximum=MAX_SECONDS)
        return None if value is None else timedelta(seconds=value)

    def get_flag(self, key: str) -> bool:
        """The boolean in `key`, false where there is none."""
        value = self.body.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.fail(key, "must be true or false")
        return bool(value)

    def get_choice(self, key: str, choices: type[Choice]) -> Choice | None:
        """The member of `choices` that `key` names; an empty text is a field that was left out."""
        value = self.get_text(key)
        if not value:
            return None
        try:
            return choices(value)
        except ValueError as error:
            names = ", ".join(str(choice.value) for choice in choices)
            raise self.fail(key, f"must be one of {names}, not {value!r}") from error

    def get_objects(self, key: str) -> tuple[Fields, ...]:
        """The list of objects in `key`, empty where there is none."""
        return tuple(
            Fields(item, f"{self._join(key)}[{index}]")
            for index, item in enumerate(self._get_list(key))
        )

    def get_texts(self, key: str) -> tuple[str, ...]:
        """The list of strings in `key`, empty where there is none."""
        items = self._get_list(key)
        for index, item in enumerate(items):
            if not isinstance(item, str):
                raise self.fail(f"{key}[{index}]", ask_for_text(item))
        return tuple(items)

    def get_text_map(self, key: str) -> Mapping[str, str]:
        """The object of strings in `key`, empty where there is none; nulls are left out."""
        found = self.get_object(key)
        texts = {name: found.get_text(name) for name in found.body} if found is not None else {}
        return {name: text for name, text in texts.items() if text is not None}

    def _get_list(self, key: str) -> Sequence[Any]:
        value = self.body.get(key)
        if value is None:
            return ()
        if not isinstance(value, list):
            raise self.fail(key, "must be a list")
        return value

    def _join(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key


def dig(body: Any, *path: str) -> Json:
    """The object behind these fields; an empty one where anything of the way is none."""
    for key in path:
        body = body.get(key) if isinstance(body, Mapping) else None
    return body if isinstance(body, Mapping) else {}
