"""Numbers of peers that are not measured here, each with where it is from.

Shown beside what is measured, as series of a peer; no goal is computed from them.
"""

from __future__ import annotations

ORIGIN = (
    "quoted, from the measurements that this project's goals were set by: the same Kubernetes, "
    "2 cores; not repeated here"
)
START_SECONDS = 2.2
"""A job of 2 workers, created to command, images present."""
SCALE_OUT_SECONDS = 1.1
"""ScaleOut by 2, created to both hosts visible."""
STORM_SECONDS = 24.8
"""50 jobs of 8 workers on simulated nodes, scheduler at its own limit of 50 requests/s."""
STORM_BARE_SECONDS = 7.7
"""A bare script that creates the same pods, there."""
WRITES = 25
"""A job of 8 workers: 9 pods, 8 services, 4 status, 4 access objects."""
MEMORY_MB = 55
"""At 500 pods; 49 to 55 were seen."""

MPI_OPERATOR_ORIGIN = "quoted, from kubelet's documented lag of a mounted ConfigMap (mpi-operator)"
MPI_OPERATOR_SECONDS = 60.0

SCALE_IN = (
    "et-operator finds the end of a process by `ps` through exec, in each of its passes; no number "
    "of its own was taken."
)

EDL = "quoted, from the report on PaddlePaddle's EDL with its 133 nodes; not repeated here"
EDL_1_PENDING = 47.2
"""Mean of the ten runs; the published 42.9 divides them by eleven."""
EDL_1_OFF = 308.5
EDL_2_LOW_TIDE = 79.4
"""Percent of all CPU."""
EDL_2_OFF = 44.9
EDL_2_PENDING = 53.55
