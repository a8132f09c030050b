"""Writing the report: urgent facts at once, the others once a second, nothing ever lost.

The whole report is written each time, so a write that failed, or whose outcome is unknown, needs no
memory but that there is something to write.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import structlog

from et_operator.errors import EtOperatorError
from et_operator.kube.api import Api
from et_operator.model.resources import Ref
from launcher import contract
from launcher.broker.facts import Ledger
from launcher.broker.retrying import delay
from launcher.documents import InvalidDocument, decode_report, encode_report

EVERY_SECONDS = 1.0
LEAST_SECONDS = 0.05

log = structlog.get_logger()


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
        self._key = f"{contract.REPORT_KEY_PREFIX}{ledger.report.epoch}"
        self._news = asyncio.Event()
        self._urgent_news = asyncio.Event()
        self._written = asyncio.Event()
        self._is_ending = False
        self._revision = 0
        self._urgent = 0

    def look(self) -> None:
        """The ledger may have changed."""
        if self._ledger.revision != self._revision:
            self._news.set()
            if self._is_ending or self._ledger.urgent != self._urgent:
                self._urgent_news.set()

    async def run(self) -> None:
        """Until another epoch begins. After a restart it first takes what was reported before."""
        if self._ledger.report.broker_start > 1:
            await self._insist(self._read_back)
        while self._may_write():
            self.look()
            await self._news.wait()
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
        try:
            async with asyncio.timeout(EVERY_SECONDS):
                await self._urgent_news.wait()
        except TimeoutError:
            return

    async def _insist(self, call: Callable[[], Awaitable[None]]) -> None:
        failures = 0
        while self._may_write():
            try:
                await call()
            except EtOperatorError as error:
                failures += 1
                log.warning("report not written", failures=failures, reason=str(error))
                await asyncio.sleep(delay(failures, self._chance()))
            else:
                return

    async def _write(self) -> None:
        self._news.clear()
        self._urgent_news.clear()
        revision, urgent = self._ledger.revision, self._ledger.urgent
        text = encode_report(self._ledger.report)
        await self._api.patch(self._ref, {"data": {self._key: text}})
        self._revision, self._urgent = revision, urgent
        self._written.set()

    async def _read_back(self) -> None:
        """A patch that changes nothing: we may not get the object, but a patch answers with it."""
        found = await self._api.patch(self._ref, {"data": {}})
        text = (found.get("data") or {}).get(self._key)
        if text is None:
            return
        try:
            self._ledger.absorb(decode_report(text))
        except InvalidDocument as error:
            log.warning("earlier report unreadable", reason=str(error))
