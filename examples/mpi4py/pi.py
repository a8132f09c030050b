"""Pi by MPI: each rank adds up its share of the area under a curve, all of them share the sum.

    mpirun -np 4 python3 -m mpi4py pi.py

`--fail-rank N` raises an exception in that rank: with `-m mpi4py` it ends all of them.
`--seconds S` goes on for so long.
"""

from __future__ import annotations

import argparse
import os
import time

from mpi4py import MPI

POINTS = 200_000


def add_up(rank: int, size: int) -> float:
    """This rank's share."""
    step = 1.0 / POINTS
    return sum(4.0 / (1.0 + ((i + 0.5) * step) ** 2) for i in range(rank, POINTS, size)) * step


def main() -> None:
    """Every rank tells where it runs, rank 0 the sum."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fail-rank", type=int, default=-1)
    parser.add_argument("--seconds", type=float, default=0.0)
    arguments = parser.parse_args()
    world = MPI.COMM_WORLD
    rank, size = world.Get_rank(), world.Get_size()
    print(f"rank={rank} size={size} host={os.uname().nodename}", flush=True)
    end = time.monotonic() + arguments.seconds
    while True:
        total = world.allreduce(add_up(rank, size))
        if rank == arguments.fail_rank:
            raise RuntimeError(f"rank {rank} fails as it was told")
        if world.bcast(time.monotonic() >= end):
            break
    if rank == 0:
        print(f"pi={total:.9f}", flush=True)


if __name__ == "__main__":
    main()
