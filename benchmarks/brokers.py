"""A stand-in for the brokers of simulated jobs, in whose pods nothing runs.

It reads each job's config and writes its report: a member is listed at once, and who drains is
closed at once.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

from benchmarks.apis import Api, ApiRefused, build_path, wait_for
from et_contract.documents import (
    HostConfig,
    MemberState,
    Report,
    decode_config,
    encode_report,
)
from et_contract.names import CONFIG_KEY, build_report_key, build_report_name
from et_contract.pods import LABEL_JOB, LABEL_ROLE, Role, read_launcher_epoch

_RETRY_SECONDS = 0.1


def answer(config: HostConfig, epoch: int, launcher_uid: str) -> Report:
    """What a broker has to say of this config where every process does at once as it is told."""
    draining = (m.uid for m in config.members if m.state is MemberState.DRAINING)
    return Report(
        epoch,
        launcher_uid,
        1,
        config.generation,
        config.generation,
        listed=frozenset(m.uid for m in config.members),
        closed=frozenset(draining),
    )


class Brokers:
    """The brokers of all jobs of a namespace."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api, self._namespace = api, namespace
        self._configs: dict[str, HostConfig] = {}
        self._launchers: dict[str, tuple[int, str]] = {}
        self._changed: set[str] = set()
        self._news = asyncio.Event()

    async def run(self) -> None:
        """Answer until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow("configmaps", self.note_config))
            selector = f"{LABEL_ROLE}={Role.LAUNCHER}"
            group.create_task(self._follow("pods", self.note_launcher, labelSelector=selector))
            group.create_task(self._write_all())

    def note_config(self, obj: dict[str, Any]) -> None:
        """A ConfigMap as it is now; others than configs are passed over."""
        text = (obj.get("data") or {}).get(CONFIG_KEY)
        if text is not None:
            config = decode_config(text)
            self._configs[config.job] = config
            self._tell(config.job)

    def note_launcher(self, pod: dict[str, Any]) -> None:
        """A launcher's pod as it is now."""
        metadata = pod["metadata"]
        epoch = read_launcher_epoch(metadata["name"])
        if epoch is not None and pod["status"].get("phase") == "Running":
            job = metadata["labels"][LABEL_JOB]
            self._launchers[job] = max(self._launchers.get(job, (0, "")), (epoch, metadata["uid"]))
            self._tell(job)

    def find_report(self, job: str) -> Report | None:
        """What the broker of its newest launcher says; None before there is one."""
        config, launcher = self._configs.get(job), self._launchers.get(job)
        if config is None or launcher is None or launcher[0] < config.epoch:
            return None
        return answer(config, *launcher)

    def _tell(self, job: str) -> None:
        self._changed.add(job)
        self._news.set()

    async def _follow(self, plural: str, note: Any, **params: str) -> None:
        path = build_path(plural, self._namespace)
        async with aclosing(self._api.watch(path, **params)) as events:
            async for event in events:
                if event["type"] != "DELETED":
                    note(event["object"])

    async def _write_all(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            jobs, self._changed = self._changed, set()
            await asyncio.gather(*map(self._write, jobs))

    async def _write(self, job: str) -> None:
        path = build_path("configmaps", self._namespace, build_report_name(job))

        async def is_written() -> bool:
            report = self.find_report(job)
            if report is None:
                return True
            body = {"data": {build_report_key(report.epoch): encode_report(report)}}
            try:
                await self._api.patch(path, body)
            except (ApiRefused, TimeoutError):  # it may not be there yet
                return False
            return True

        await wait_for(is_written, f"{path} takes a report", interval=_RETRY_SECONDS)
