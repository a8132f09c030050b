"""Typed access to a JSON object that somebody wrote by hand: every complaint names the path.

A null counts as a field that was left out, as it does for the API server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import Enum
from typing import Any, TypeVar

from et_operator.errors import InvalidObject
from et_operator.model.resources import Json

Choice = TypeVar("Choice", bound=Enum)


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
            raise self.fail(key, "must be a string")
        return value

    def require_text(self, key: str) -> str:
        """The string in `key`, which must be there and not empty."""
        value = self.get_text(key)
        if not value:
            raise self.fail(key, "is required")
        return value

    def get_integer(self, key: str, *, minimum: int, maximum: int | None = None) -> int | None:
        """The whole number in `key`, within its bounds."""
        value = self.body.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.fail(key, "must be a whole number")
        if value < minimum:
            raise self.fail(key, f"must be {minimum} or more")
        if maximum is not None and value > maximum:
            raise self.fail(key, f"must be {maximum} or less")
        return value

    def get_seconds(self, key: str, *, minimum: int) -> timedelta | None:
        """The whole number of seconds in `key`."""
        value = self.get_integer(key, minimum=minimum)
        try:
            return None if value is None else timedelta(seconds=value)
        except OverflowError as error:
            raise self.fail(key, "is longer than anything can last, leave it out") from error

    def get_flag(self, key: str) -> bool:
        """The boolean in `key`, false where there is none."""
        value = self.body.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.fail(key, "must be true or false")
        return bool(value)

    def get_choice(self, key: str, choices: type[Choice]) -> Choice | None:
        """The member of `choices` that `key` names."""
        value = self.get_text(key)
        if value is None:
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
        if not all(isinstance(item, str) for item in items):
            raise self.fail(key, "must be a list of strings")
        return tuple(items)

    def _get_list(self, key: str) -> Sequence[Any]:
        value = self.body.get(key)
        if value is None:
            return ()
        if not isinstance(value, list):
            raise self.fail(key, "must be a list")
        return value

    def _join(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key
