"""What a figure is given: the clock, how much to measure, and the cluster if it asked for one.

measuring.py makes it, and a figure takes of it what it needs: nothing but storms of one size is
handed on from one figure to the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.apis import Api
from benchmarks.machines import Usage
from devcluster.settings import Cluster
from et_kube.clock import Clock


@dataclass(frozen=True, slots=True)
class Site:
    """The test cluster with the operator on it, seen from inside its network."""

    cluster: Cluster
    api: Api
    clock: Clock


@dataclass(frozen=True, slots=True)
class Storm:
    """So many jobs of 8 workers, created at once: `seconds` from the first creation to all Running.

    `cpu` is what each process used meanwhile, `passes` and `writes` are those of the operator until
    it came to rest; `idle_cpu` is then a share of one core, measured after the first of a size.
    """

    jobs: int
    seconds: float
    cpu: Mapping[str, float]
    passes: Counter[str]
    writes: Counter[tuple[str, str, str]]
    usage: Usage
    idle_cpu: float
    idle_passes: int
    pods: tuple[dict[str, Any], ...] = field(repr=False)
    """The pods of one job, as the API server has them."""

    @property
    def operator_cpu(self) -> float:
        """Seconds of CPU of the operator in the storm."""
        return self.cpu["operator"]


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
