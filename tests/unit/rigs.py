"""A cluster in memory with a client on it and the store of an operator, which sees it by lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from et_kube.resources import Json, Resource
from et_operator.model.keys import JobKey
from et_operator.state.ingesting import Ingest
from et_operator.state.store import Store
from fakes.clients import CallLog, FakeApi
from fakes.clock import FakeClock
from fakes.cluster import FakeCluster

NAMESPACE = "team"


class StoreRig:
    """What every test of a part above the store begins with."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.cluster = FakeCluster(self.clock.now)
        self.log = CallLog()
        self.api = FakeApi(self.cluster, self.log)
        self.store = Store()
        self.ingest = Ingest(self.store)

    def create(
        self, resource: Resource, manifest: Json, namespace: str = NAMESPACE
    ) -> dict[str, Any]:
        """An object of somebody else's."""
        return self.cluster.create(resource, namespace, manifest)

    def look(self, selectors: Mapping[Resource, str]) -> set[JobKey]:
        """Take a complete list of each of these kinds; returns the jobs that this wakes."""
        woken: set[JobKey] = set()
        for resource, selector in selectors.items():
            items = self.cluster.list(resource, label_selector=selector)
            version = str(self.cluster.history.revision)
            at = self.clock.monotonic()
            woken |= self.ingest.sync(resource, None, items, version=version, at=at)
        return woken
