"""Reading the config: a watch for speed, and a read now and then for what a watch may miss.

Only reads, and only this one object. A server that is away is waited for without end; whether a
config is newer than the last one, or another launcher's, is judged in hosts.py.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from datetime import timedelta

from et_contract import names
from et_contract.documents import HostConfig, InvalidDocument, decode_config
from et_kube.api import Api
from et_kube.errors import Expired, KubeError
from et_kube.resources import Json, Ref
from launcher.broker.logging import log
from launcher.broker.retrying import delay

WATCH = timedelta(seconds=60)
READ_SECONDS = 30.0
REST_SECONDS = 0.25
"""At most, after a watch that ended as it should: a server may end every watch at once."""


class Follower:
    """Hands each readable version of the config on; whether it is news is for others to say.

    Args:
        api: the API server.
        ref: the ConfigMap.
        take: given each config.
        complain: given what is wrong with one that cannot be read.
        chance: the dice for waiting.
    """

    def __init__(
        self,
        api: Api,
        ref: Ref,
        *,
        take: Callable[[HostConfig], None],
        complain: Callable[[str], None],
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._api = api
        self._ref = ref
        self._take = take
        self._complain = complain
        self._chance = chance

    async def run(self) -> None:
        """Watch the config, and read it now and then, for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch())
            group.create_task(self._read_often())

    async def _watch(self) -> None:
        failures, is_remembered = 0, True  # counted anew once a watch brings anything; no end
        while True:
            try:
                version = await self._read()
                async for event in self._api.watch(
                    self._ref.resource,
                    self._ref.namespace,
                    resource_version=version if is_remembered else "",
                    field_selector=f"metadata.name={self._ref.name}",
                    timeout=WATCH,
                ):
                    failures = 0
                    if event.type in ("ADDED", "MODIFIED"):
                        self._open(event.object)
                failures = 0
            except KubeError as error:
                failures += 1
                # What has not been written for minutes is older than all that a busy server
                # remembers. A watch from nowhere begins with the object as it is.
                is_remembered = is_remembered and not isinstance(error, Expired)
                log.warning("config not watched", failures=failures, reason=str(error))
            chance = self._chance()
            await asyncio.sleep(delay(failures, chance) if failures else REST_SECONDS * chance)

    async def _read_often(self) -> None:
        while True:
            await asyncio.sleep(READ_SECONDS)
            try:
                await self._read()
            except KubeError as error:
                log.warning("config not read", reason=str(error))

    async def _read(self) -> str:
        found = await self._api.get(self._ref)
        self._open(found)
        return str(found.get("metadata", {}).get("resourceVersion", ""))

    def _open(self, found: Json) -> None:
        text = (found.get("data") or {}).get(names.CONFIG_KEY)
        if text is None:
            # The operator makes the object before it knows what to write.
            return
        try:
            config = decode_config(text)
        except InvalidDocument as error:
            log.warning("config unreadable", reason=str(error))
            self._complain(str(error))
            return
        self._take(config)
