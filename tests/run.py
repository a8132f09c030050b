"""`make test`: every step in order, then a table with a row for each point that is promised.

`make test-oldest` (--oldest) is the same for what is tried on the oldest Kubernetes too.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from points import OLDEST_POINTS, POINTS, Point

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "out"
POINTS_FILE = OUT / "points.jsonl"
FAILURE = OUT / "failure"
LOGS = OUT / "logs"
STARTED = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
"""What the audit log has from before is not of this run."""


@dataclass(frozen=True)
class Result:
    """What is known of one test or step. `why` is the first line of what a failed test said."""

    test: str
    passed: bool
    seconds: float
    why: str = ""


def main(arguments: list[str]) -> int:
    """Run the steps; 0 only if every point of the table was proven."""
    started = time.monotonic()
    is_oldest = "--oldest" in arguments
    if is_oldest:
        os.environ["DEVCLUSTER_KUBERNETES"] = "oldest"
    OUT.mkdir(exist_ok=True)
    POINTS_FILE.unlink(missing_ok=True)
    shutil.rmtree(LOGS, ignore_errors=True)
    results = run_steps(OLDEST_STEPS) if is_oldest else run_steps(STEPS, STEPS_BESIDE)
    for key, result in read_points(POINTS_FILE):
        results.setdefault(key, []).append(result)
    leave(has_failed=any(not result.passed for found in results.values() for result in found))
    points = OLDEST_POINTS if is_oldest else POINTS
    return close(results, points, time.monotonic() - started)


Step: TypeAlias = tuple[str, str, Sequence[str]]
"""Its key, its title, its command."""


@dataclass(frozen=True)
class StepBeside:
    """A step that goes on while others do, from the start of `first` to the end of `last`."""

    step: Step
    first: str
    last: str
    within: float
    """Seconds that it may take once those have ended."""
    gives_way: bool = False
    """Whether it takes only what all others leave, the pods of the cluster too."""

    def start(self, logs: Path) -> Beside:
        """Begin it; what it says goes to a file of its own there."""
        key, title, command = self.step
        return Beside(title, command, logs / f"{key}.log", gives_way=self.gives_way)


def run_steps(
    steps: Sequence[Step], beside: Sequence[StepBeside] = (), logs: Path | None = None
) -> dict[str, list[Result]]:
    """Run one after the other, by key what came of each; without what others need: no more.

    What goes on beside them has ended by itself, or was ended, when this returns.
    """
    results: dict[str, list[Result]] = {}
    running: list[tuple[StepBeside, Beside]] = []
    try:
        for key, title, command in steps:
            running += [(one, one.start(logs or LOGS)) for one in beside if one.first == key]
            print(f"\n==> {title}\n    {' '.join(command)}", flush=True)
            started = time.monotonic()
            done = subprocess.run(command, cwd=ROOT, env=build_environment(), check=False)
            code, seconds = done.returncode, time.monotonic() - started
            print(f"    took {seconds:.0f} s", flush=True)
            results.setdefault(key, []).append(Result(" ".join(command[-3:]), code == 0, seconds))
            is_over = code != 0 and key in NEEDED
            for one, process in running:
                if is_over or one.last == key:
                    results[one.step[0]] = [process.end(one.within)]
            running = [found for found in running if found[0].step[0] not in results]
            if is_over:
                print(f"==> {title} failed with exit code {code}: what follows needs it, stopping")
                break
    finally:
        for _, process in running:  # it was interrupted
            process.stop()
    return results


class Beside:
    """A step that goes on while others do."""

    def __init__(
        self, title: str, command: Sequence[str], log: Path, *, gives_way: bool = False
    ) -> None:
        self._title, self._command, self._log = title, command, log
        self._started = time.monotonic()
        print(f"\n==> {title}, beside what follows\n    {' '.join(command)}", flush=True)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=build_environment(), stdout=file, stderr=file,
                start_new_session=True,
            )  # fmt: skip
        if gives_way:
            have_give_way(Path(f"/proc/{self._process.pid}/autogroup"))

    def end(self, within: float) -> Result:
        """Wait for it, show what it said, and say whether it has passed."""
        print(f"\n==> {self._title}", flush=True)
        try:
            code = self._process.wait(timeout=within)
        except subprocess.TimeoutExpired:
            print(f"    still at work after {within:.0f} s more, ended")
            code = self.stop()
        print(self._log.read_text(errors="replace"), flush=True)
        seconds = time.monotonic() - self._started
        return Result(" ".join(self._command[-3:]), code == 0, seconds)

    def stop(self, within: float = 30.0) -> int:
        """End it and what it has started, whatever it does; its exit code.

        As by Ctrl-C first: who has a cluster of his own takes it down then.
        """
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=within)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        return self._process.wait()


def have_give_way(autogroup: Path) -> None:
    """Have a session give way to all others; where that cannot be, it goes on as they do.

    A nice value counts within a session alone where the kernel shares by sessions (sched(7)).
    """
    try:
        autogroup.write_text("19")
    except OSError as error:
        print(f"    beside others as one of them: {error}", flush=True)


def leave(*, has_failed: bool) -> None:
    """Take the cluster down, unless somebody will want to look at what failed on it."""
    if has_failed and not os.environ.get("CI"):
        print("\n==> the cluster stays up to be looked at; `make down` takes it away")
        return
    command = [PY, "-m", "devcluster", "down"]
    subprocess.run(command, cwd=ROOT, env=build_environment(), check=False)


PY = sys.executable
PYTEST = [PY, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
E2E = [*PYTEST, "--timeout=400", "tests/e2e"]
CHART = "deploy/helm/et-operator"
BY_FILE = ("-n", "2", "--dist", "loadfile")
SIDE_BY_SIDE = "cluster and not alone and not last"
UNIT = ("tests/unit", "tests/devcluster", "tests/contract")
LONG = [*PYTEST, "-n", "2", "-m", "long and not cluster"]
IN_MEMORY = ("tests/unit/planning", "tests/unit/scheduler")
"""What is tested there has no clock but its own: it may be made to wait as long as one likes."""
BY_THE_CLOCK = [f"--ignore={path}" for path in IN_MEMORY]
SIMULATE = os.environ.get("SIMULATE", "eighth")
CLUSTERS = 2000 if SIMULATE == "all" else 200
SIMULATION = [
    *("nice", "-n", "19", "env", f"SIMULATE={SIMULATE}", f"CLUSTERS={CLUSTERS}"),
    *(*PYTEST, "-n", "2"),
    *("tests/simulation", "tests/specs", "tests/chaos", "tests/unit/scheduler/test_properties.py"),
]
NEEDED = {"check", "cluster-up", "images", "deploy"}
"""What follows these makes no sense where they fail."""
STEPS = (
    ("check", "style, types, layers, unit tests", ["tests/check.sh"]),
    ("long", "long unit tests by the real clock", [*LONG, *UNIT, *BY_THE_CLOCK]),
    ("transport", "the transport", [*PYTEST, "--timeout=300", "-n", "2", "tests/transport"]),
    ("prerequisites", "Debian packages and Go", ["devcluster/prerequisites.sh"]),
    ("cluster-up", "the test cluster", [PY, "-m", "devcluster", "up"]),
    ("helm", "the chart, linted", [PY, "-m", "devcluster", "helm", "lint", "--strict", CHART]),
    ("images", "the images", [PY, "-m", "devcluster", "images", "--load"]),
    ("deploy", "the operator, with the rights of deploy/", [PY, "-m", "devcluster", "deploy"]),
    ("specs", "bad manifests, some of them", [PY, "-m", "tests.specs", "--short"]),
    ("contract", "contract with the API server", [*PYTEST, "-m", "cluster", "tests/contract"]),
    ("e2e", "end to end", [*E2E, "-m", SIDE_BY_SIDE, "-n", "3", "--dist", "worksteal"]),
    ("e2e-alone", "end to end, what breaks the cluster itself", [*E2E, "-m", "alone"]),
    ("demo", "the demo", [*PYTEST, "-s", "tests/e2e/test_demo.py"]),
    ("audit", "what the whole run has left behind", [*E2E, "-m", "last"]),
)  # fmt: skip

STEPS_BESIDE = (
    StepBeside(  # it waits more than it works
        ("soak", "long faults of the transport, shortened", [PY, "-m", "tests.soak", "--short"]),
        first="long",
        last="transport",
        within=300.0,
    ),
    StepBeside(
        ("packages", "chart, wheel and sdist", [*PYTEST, *BY_FILE, "tests/packaging"]),
        first="images",
        last="contract",
        within=300.0,
        gives_way=True,
    ),
    StepBeside(  # a cluster of its own; the one that is tested on mostly waits meanwhile
        ("devcluster", "the cluster itself", [*PYTEST, "-m", "cluster", "tests/cluster"]),
        first="e2e-alone",
        last="audit",
        within=600.0,
    ),
    StepBeside(
        ("old-python", "what runs in user containers, on Python 3.7", ["tests/old_python.sh"]),
        first="e2e-alone",
        last="audit",
        within=600.0,
        gives_way=True,
    ),
    StepBeside(
        ("rules", "long unit tests of planning and scheduling", [*LONG, *IN_MEMORY]),
        first="e2e",
        last="audit",
        within=900.0,
        gives_way=True,
    ),
    StepBeside(
        ("simulation", "faults at every write and generated clusters, in memory", SIMULATION),
        first="e2e-alone",
        last="audit",
        within=2700.0 if SIMULATE == "all" else 900.0,
        gives_way=True,
    ),
)

GROWTH = "test_grows_from_two_to_four_and_shrinks_to_three_without_a_repeated_step"
ADMITTED = "the_policy or with_the_account or the_schedulers_token"
"""Words of the names of all tests of policies that are shipped, and of what needs none."""
OLDEST_STEPS = (
    *(step for step in STEPS if step[0] in {"prerequisites", "cluster-up", "images", "deploy"}),
    *(step for step in STEPS if step[0] == "contract"),
    ("e2e", "a scaling with Horovod", [*E2E, "-k", GROWTH]),
    ("e2e", "what admission refuses, and whom", [*E2E, "-k", ADMITTED]),
)


def build_environment() -> dict[str, str]:
    """The steps' environment: where results go, which Python to use."""
    mine = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
    return {
        **mine,  # without the user's own cluster: these tests break theirs on purpose
        "PY": PY,
        "POINTS_FILE": str(POINTS_FILE),
        "FAILURE_DIR": str(FAILURE),
        "LOGS_DIR": str(LOGS),
        "RUN_STARTED": STARTED,
        "PYTHONPATH": str(ROOT),
    }


def read_points(path: Path) -> Iterator[tuple[str, Result]]:
    """What the tests themselves noted, a line each; only what failed has a `why`."""
    if not path.exists():
        return
    for line in path.read_text().splitlines():
        body = json.loads(line)
        passed, why = body["outcome"] == "passed", body.get("why", "")
        result = Result(body["test"], passed, body["seconds"], why)
        for key in body["points"]:
            yield key, result


def close(
    results: dict[str, list[Result]], points: Sequence[Point] = POINTS, seconds: float = 0.0
) -> int:
    """Print the table, and how long all of it took; 1 if a row is not proven or a step failed."""
    rows = [build_row(point, results.get(point.key, [])) for point in points]
    known = {point.key for point in POINTS}
    failed_steps = [
        f"step {key} failed: {r.test}"
        for key, found in results.items()
        for r in found
        if key not in known and not r.passed
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    print()
    for row in rows:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )
    failed = [row for row in rows if row[0] != "ok"]
    for test, why in sorted({(r.test, r.why) for f in results.values() for r in f if r.why}):
        print(f"{test}: {why}")
    for line in failed_steps:
        print(line)
    if FAILURE.exists() and (failed or failed_steps):
        print(f"logs, Events and objects of what failed: {FAILURE}")
    counts = f"{len(rows) - len(failed)} passed, {len(failed) + len(failed_steps)} failed"
    minutes, rest = divmod(round(seconds), 60)
    print(f"\n{counts}, in {minutes} min {rest} s")
    return 1 if failed or failed_steps else 0


def build_row(point: Point, results: Iterable[Result]) -> tuple[str, str, str, str, str]:
    """State, promise, test, version, seconds."""
    found = list(results)
    bad = [r for r in found if not r.passed]
    state = "NOT RUN" if not found else "FAILED" if bad else "ok"
    shown = (bad or found or [Result("-", passed=False, seconds=0)])[0]
    more = f" (+{len(found) - 1})" if len(found) > 1 else ""
    seconds = sum(r.seconds for r in found)
    return state, point.promise, shown.test + more, point.against, f"{seconds:.1f}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
