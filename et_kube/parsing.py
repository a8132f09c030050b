"""What comes back from an API server: objects, lists, lines; one spoils no other.

rest.py reads answers with it. What cannot be read raises Unreadable, what is nested too deep is
left out: anybody may put anything into an object. Of its fields only the metadata are known here.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import aiohttp

from et_contract.texts import parse_json
from et_kube.api import WatchEvent
from et_kube.errors import Unreadable
from et_kube.resources import Resource
from et_kube.translating import translate_status

MAX_DEPTH = 200
"""Levels of an object of which we see what is in them; an API server takes 10,000."""
MAX_LOG_LINE = 2**20


class TooLarge(Unreadable):
    """The answer has more bytes, or more values, than `Limits` allow."""


def count_values(body: bytes | bytearray) -> int:
    """How many values a JSON text has at most: what it takes in Python goes with that."""
    return sum(map(body.count, (b",", b"[", b"{")))


def trim(obj: dict[str, Any]) -> None:
    """Drop what nobody here reads and what is half of an object's size."""
    metadata = obj.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)


def name_kind(item: dict[str, Any], resource: Resource) -> dict[str, Any]:
    """An item of a list as a whole object: lists leave out apiVersion and kind of their items."""
    trim(item)
    item.setdefault("apiVersion", resource.api_version)
    item.setdefault("kind", resource.kind)
    return item


def read_object(body: bytes, what: str) -> dict[str, Any]:
    """The object in an answer, whatever its author has put there; raises Unreadable."""
    try:
        answer = parse_json(body, len(body), MAX_DEPTH)
    except ValueError as error:
        raise Unreadable(f"{what}: the answer is not JSON: {error}") from error
    if not isinstance(answer, dict):
        raise Unreadable(f"{what}: the answer is not an object")
    return answer


async def read_lines(response: aiohttp.ClientResponse, longest: int) -> AsyncGenerator[bytes, None]:
    """The lines of a streamed answer that are not blank, wherever the network cut it.

    One that is not shorter than `longest` bytes comes in pieces of so many, and what is left of it,
    if nothing, is the last: so whoever reads a line can tell whether it goes on.
    """
    parts: list[bytes] = []
    size, is_rest = 0, False  # of all parts; whether pieces of their line went before
    async for chunk in response.content.iter_any():
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            *pieces, last = cut_line(b"".join([*parts, end]), longest)
            for piece in pieces:
                yield piece
            if pieces or is_rest or last.strip():
                yield last
            parts, size, is_rest = [], 0, False
        parts.append(rest)
        size += len(rest)
        if size >= longest:
            *pieces, last = cut_line(b"".join(parts), longest)
            for piece in pieces:
                yield piece
            parts, size, is_rest = [last], len(last), True
    line = b"".join(parts)
    if is_rest or line.strip():
        yield line


def cut_line(line: bytes, longest: int) -> list[bytes]:
    """Pieces of so many bytes, and what is left of it, which has fewer."""
    return [line[at : at + longest] for at in range(0, len(line) + 1, longest)]


def decode_event(line: bytes) -> WatchEvent:
    """One line of a watch; an ERROR event is raised as what it means."""
    try:
        content = parse_json(line, len(line), MAX_DEPTH)
        kind, obj = content["type"], content["object"]
        if kind == "ERROR":
            raise translate_status(int(obj.get("code", 500)), obj)
        if not isinstance(obj["metadata"]["resourceVersion"], str):
            raise TypeError("resourceVersion is not a string")  # noqa: TRY301 (one way out)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise Unreadable(f"not a watch event: {line[:100]!r}") from error
    trim(obj)
    return WatchEvent(str(kind), obj)
