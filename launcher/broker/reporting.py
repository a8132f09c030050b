"""Writing the report: urgent facts at once, others once a second, those for people now and then.

Nothing is ever lost. The user's command ends sessions as fast as it likes: the API server, which
others use too, must not feel that.

The whole report is written each time, so a write that failed, or whose outcome is unknown, needs no
memory but that there is something to write. Reports of former epochs are removed: together they
would be more than a ConfigMap holds. One that is refused for its size is written without what is
only for people, and says so.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from et_contract import names
from et_contract.documents import InvalidDocument, decode_report, encode_report
from et_kube.api import Api
from et_kube.errors import KubeError, Refused
from et_kube.resources import Json, Ref
from launcher.broker.facts import Ledger, shorten
from launcher.broker.logging import log
from launcher.broker.retrying import delay

EVERY_SECONDS = 1.0
PEOPLE_SECONDS = 10.0
"""Between two reports that differ only in what nothing is decided by."""
LEAST_SECONDS = 0.05
AGAIN_SECONDS = 300.0
"""So long without news, and it is written again: somebody may have written over it, or set it back
with all of etcd. Where it is as it was, the server stores nothing."""
SHORTENED = "ReportShortened"
_TOO_LARGE = (413, 422)
"""What the API server says of a ConfigMap above 1 MiB, and a proxy on the way of a long request."""


class Reporter:
    """Keeps `report-<epoch>` in the report's ConfigMap as the ledger is.

    Args:
        api: the API server.
        ref: the ConfigMap.
        ledger: what to write.
        may_write: False when another epoch has begun.
        chance: the dice for waiting.
    """

    def __init__(
        self,
        api: Api,
        ref: Ref,
        ledger: Ledger,
        *,
        may_write: Callable[[], bool],
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._api = api
        self._ref = ref
        self._ledger = ledger
        self._may_write = may_write
        self._chance = chance
        self._epoch = ledger.report.epoch
        self._key = names.build_report_key(self._epoch)
        self._news = asyncio.Event()
        self._needed_news = asyncio.Event()
        self._urgent_news = asyncio.Event()
        self._written = asyncio.Event()
        self._is_ending = False
        self._revision = 0
        self._needed = 0
        self._urgent = 0

    def look(self) -> None:
        """The ledger may have changed."""
        if self._ledger.revision == self._revision:
            return
        self._news.set()
        if self._is_ending or self._ledger.needed != self._needed:
            self._needed_news.set()
        if self._is_ending or self._ledger.urgent != self._urgent:
            self._urgent_news.set()

    async def run(self) -> None:
        """Until another epoch begins. After a restart it first takes what was reported before."""
        if self._ledger.report.broker_start > 1:
            await self._insist(self._read_back)
        while self._may_write():
            self.look()
            await _hear(self._news, AGAIN_SECONDS * (1.0 + self._chance()))
            await self._insist(self._write)
            self.look()
            await self._rest()

    async def flush(self, seconds: float) -> bool:
        """Wait for `run` to write what is left, at once; False when there was no time."""
        self._is_ending = True
        self.look()
        try:
            async with asyncio.timeout(seconds):
                while self._may_write() and self._ledger.revision != self._revision:
                    self._written.clear()
                    await self._written.wait()
        except TimeoutError:
            return False
        return True

    async def _rest(self) -> None:
        """Let some time go by, and less when something urgent comes: ends come in bursts."""
        await asyncio.sleep(LEAST_SECONDS)
        if not await _hear(self._urgent_news, EVERY_SECONDS):
            await _hear(self._needed_news, PEOPLE_SECONDS - EVERY_SECONDS)

    async def _insist(self, call: Callable[[], Awaitable[None]]) -> None:
        failures = 0
        while self._may_write():
            try:
                await call()
            except KubeError as error:
                failures += 1
                log.warning("report not written", failures=failures, reason=str(error))
                await asyncio.sleep(delay(failures, self._chance()))
            else:
                return

    async def _write(self) -> None:
        for news in (self._news, self._needed_news, self._urgent_news):
            news.clear()
        ledger = self._ledger
        revision, needed, urgent = ledger.revision, ledger.needed, ledger.urgent
        try:
            found = await self._patch(encode_report(self._ledger.report))
            self._ledger.withdraw(SHORTENED)
        except Refused as error:
            if error.status not in _TOO_LARGE:
                raise
            found = await self._write_less(error)
        self._revision, self._needed, self._urgent = revision, needed, urgent
        self._written.set()
        await self._prune(found)

    async def _write_less(self, error: Refused) -> Json:
        """Make room; where there is none to be made, leave out what the operator does not need."""
        log.error("report refused", reason=str(error))
        if await self._prune(await self._look_at_it()):
            return await self._patch(encode_report(self._ledger.report))
        advice = "remove what others have written to it"
        self._ledger.complain(SHORTENED, f"ConfigMap {self._ref.name}: {error.message}; {advice}")
        return await self._patch(encode_report(shorten(self._ledger.report)))

    async def _patch(self, text: str) -> Json:
        return await self._api.patch(self._ref, {"data": {self._key: text}})

    async def _look_at_it(self) -> Json:
        """A patch that changes nothing: we may not get the object, but a patch answers with it."""
        return await self._api.patch(self._ref, {"data": {}})

    async def _prune(self, found: Json) -> bool:
        """Remove the reports of former epochs; whether there were any."""
        held = found.get("data") or {}
        old = [key for key in held if 0 < names.read_report_epoch(key) < self._epoch]
        if old:
            await self._api.patch(self._ref, {"data": dict.fromkeys(old)})
        return bool(old)

    async def _read_back(self) -> None:
        found = await self._look_at_it()
        text = (found.get("data") or {}).get(self._key)
        if text is None:
            return
        try:
            self._ledger.absorb(decode_report(text))
        except InvalidDocument as error:
            log.warning("earlier report unreadable", reason=str(error))


async def _hear(news: asyncio.Event, seconds: float) -> bool:
    """Whether there is news within so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            await news.wait()
    except TimeoutError:
        return False
    return True
