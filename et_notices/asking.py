"""One question to a metadata service, whatever answers: bounded in time, in bytes, in places.

No proxy of the environment is asked, no redirect followed, no cookie kept, nothing unpacked.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp

from et_kube import __version__
from et_kube.notices import Notice
from et_notices.questions import MAX_BODY, Answer, Cloud, Question, Unclear

Ask = Callable[[Question], Awaitable[Answer]]
"""Puts one question; raises Unclear where no answer comes."""


class Asker:
    """An Ask of the service at `address`, as `http://169.254.169.254`."""

    def __init__(self, session: aiohttp.ClientSession, address: str) -> None:
        self._session = session
        self._address = address.rstrip("/")

    async def __call__(self, question: Question) -> Answer:
        """See Ask."""
        timeout = aiohttp.ClientTimeout(total=question.patience.total_seconds())
        what = f"{question.method} {question.path.partition('?')[0]}"
        try:
            async with self._session.request(
                question.method,
                self._address + question.path,
                headers=question.headers,
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                body = await _read_body(response)
                headers = {name.lower(): value for name, value in response.headers.items()}
                return Answer(response.status, body, headers)
        except TimeoutError as error:
            seconds = question.patience.total_seconds()
            raise Unclear(f"{what}: no answer in {seconds:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise Unclear(f"{what}: {type(error).__name__}: {error}"[:200]) from error


@asynccontextmanager
async def open_session() -> AsyncIterator[aiohttp.ClientSession]:
    """For one Asker: a connection for each question, so that none is stale."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=1, force_close=True),
        headers={"User-Agent": f"et-notices/{__version__}"},
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
    ) as session:
        yield session


async def consult(cloud: Cloud, ask: Ask) -> tuple[Notice, ...]:
    """One round: the notices that the cloud returns; raises Unclear."""
    asking = cloud.ask()
    try:
        question = next(asking)
        while True:
            question = asking.send(await ask(question))
    except StopIteration as end:
        found: tuple[Notice, ...] = end.value
        return found
    finally:
        asking.close()


async def _read_body(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > MAX_BODY:
            raise ValueError(f"more than {MAX_BODY} bytes")
    return bytes(body)
