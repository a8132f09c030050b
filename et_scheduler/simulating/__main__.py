"""`python -m et_scheduler.simulating CASE [POLICY ...]`: prints a table, goals beside figures."""

from __future__ import annotations

import argparse

from et_scheduler.simulating.cases import run_case_1, run_case_2
from et_scheduler.simulating.policies import POLICIES, Policy
from et_scheduler.simulating.report import GOALS, print_table
from et_scheduler.simulating.traces import run_trace
from et_scheduler.simulating.workloads import WORKLOADS

CASES = {"edl-1": run_case_1, "edl-2": run_case_2}


def main() -> None:
    """Read the arguments, run, print."""
    parser = argparse.ArgumentParser(prog="python -m et_scheduler.simulating", description=__doc__)
    parser.add_argument("case", choices=[*CASES, *WORKLOADS])
    parser.add_argument("policies", nargs="*", help="default: all of them")
    parser.add_argument("--no-drains", action="store_true", help="workers go at once, as on KWOK")
    parser.add_argument("--gpus", type=int, default=64, help="of the cluster, for workloads")
    parser.add_argument("--seed", type=int, default=1, help="of drains, for EDL's cases")
    arguments = parser.parse_args()
    chosen = [one for one in POLICIES if one.name in arguments.policies or not arguments.policies]
    outcomes = {one.name: run(one, arguments) for one in chosen}
    side = "at once" if arguments.no_drains else "with drains"
    print_table(outcomes, GOALS.get((arguments.case, side), {}))


def run(policy: Policy, arguments: argparse.Namespace) -> dict[str, float]:
    """The numbers of one policy."""
    case, drains = arguments.case, not arguments.no_drains
    if case in CASES:
        return CASES[case](policy, drains=drains, seed=arguments.seed).numbers
    return run_trace(case, policy, drains=drains, gpus=arguments.gpus)


if __name__ == "__main__":
    main()
