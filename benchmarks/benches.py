"""What a figure is given: the clock, how much to measure, and the cluster if it asked for one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchmarks.apis import Api
from devcluster.settings import Cluster
from et_kube.clock import Clock

if TYPE_CHECKING:
    from benchmarks.storms import Storm


@dataclass(frozen=True, slots=True)
class Site:
    """The test cluster with the operator on it, seen from inside its network."""

    cluster: Cluster
    api: Api
    clock: Clock


@dataclass(slots=True)
class Bench:
    """One run of one or several figures.

    `samples` overrides how many a figure takes, `scale` is the most jobs at once beyond its usual
    sizes (0: none). `storms` keeps, by jobs, what several figures read from the same storm.
    """

    clock: Clock
    samples: int | None = None
    scale: int = 0
    site: Site | None = None
    storms: dict[int, Storm] = field(default_factory=dict)

    def get_site(self) -> Site:
        """The cluster; RuntimeError for a figure that does not say that it needs one."""
        if self.site is None:
            raise RuntimeError("this figure needs a cluster and its Figure does not say so")
        return self.site

    def count_samples(self, usual: int) -> int:
        """How many samples to take."""
        return self.samples or usual
