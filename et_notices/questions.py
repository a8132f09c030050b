"""What is asked of a metadata service and what it answers, as data; nothing here asks anybody.

A cloud is a generator: it gives a Question, is sent the Answer, and returns in the end what the
cloud says of this instance. So whatever a server may answer is tried without one.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from et_contract.texts import clean
from et_kube.notices import Notice

MAX_BODY = 64 * 1024
"""Bytes of an answer; the largest that is known, Azure's list of events, has some hundred each."""
PATIENCE = timedelta(seconds=3)
"""For an answer, from the connection to its last byte."""
MAX_TOLD = 80
"""Characters of an answer that are shown where it is not understood."""
HTTP_OK, HTTP_MISSING = 200, 404
HTTP_REFUSED = (401, 403)
_TOKEN = re.compile(r"[\x21-\x7e]{1,4096}")


class Unclear(Exception):  # noqa: N818 (a fact about an answer)
    """Nobody knows by it whether the instance ends: no answer, or none that is understood."""


@dataclass(frozen=True, slots=True)
class Question:
    """`path` has the query, as it is sent; `patience` is for the whole answer."""

    path: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    patience: timedelta = PATIENCE


@dataclass(frozen=True, slots=True)
class Answer:
    """Whatever came; names of `headers` are in lower case, `body` has MAX_BODY bytes at most."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


Asking = Generator[Question, Answer, tuple[Notice, ...]]
"""One round: what the cloud says of the instance's end by now, () for nothing; raises Unclear."""


class Cloud(Protocol):
    """One cloud, with what it remembers from round to round."""

    @property
    def address(self) -> str:
        """Where its metadata service is, from within an instance."""

    def ask(self) -> Asking:
        """One round of questions."""


class Session:
    """A metadata service that wants a token with each question: fetched, and replaced once refused.

    Nobody counts its seconds: a service that does not take it any more says so.

    Args:
        life: the header that asks for a token, with the seconds for which it is wanted.
        header: the one that carries it.
        path: where it is given.
    """

    def __init__(self, life: tuple[str, str], header: str, path: str = "/latest/api/token") -> None:
        self._life = life
        self._header = header
        self._path = path
        self._token = ""

    def get(self, path: str) -> Generator[Question, Answer, Answer]:
        """The answer to a question; Unclear where none of two tokens is taken."""
        answer = yield from self._try(path)
        if answer.status in HTTP_REFUSED:
            self._token = ""
            answer = yield from self._try(path)
        if answer.status in HTTP_REFUSED:
            self._token = ""
            raise Unclear(f"{path}: {answer.status}, with a token that was just given")
        return answer

    def _try(self, path: str) -> Generator[Question, Answer, Answer]:
        if not self._token:
            name, seconds = self._life
            self._token = read_token((yield Question(self._path, "PUT", {name: seconds})))
        return (yield Question(path, headers={self._header: self._token}))


def read_token(answer: Answer) -> str:
    """A token that can be a header; Unclear."""
    text = read_text(answer, "token") or ""
    if not _TOKEN.fullmatch(text):
        raise Unclear(f"token: {clean(text, MAX_TOLD)!r} is none")
    return text


def read_text(answer: Answer, what: str) -> str | None:
    """What was found, None where there is nothing of that name (yet); Unclear for all else."""
    if answer.status == HTTP_MISSING:
        return None
    if answer.status != HTTP_OK:
        raise Unclear(f"{what}: {answer.status}")
    return answer.body.decode("utf-8", "replace").strip()


def refuse(what: str, text: object) -> Unclear:
    """What to raise for something that is not understood."""
    return Unclear(f"{what}: {clean(str(text), MAX_TOLD)!r} is not understood")
