"""A night: a job that trains, round after round of its schedule, and what was seen of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from tests.chaos.judging import CONCLUDED
from tests.chaos.records import STEADY, Passage, Record, Step, Strike
from tests.chaos.schedules import FIRST, LEAST, MOST, Kind, Round, build_schedule
from tests.chaos.striking import PLENTY, Striker
from tests.chaos.telling import Telling, find_folder
from tests.e2e.faults import find_processes, get_spec
from tests.e2e.histories import ENDED, JOB, POD, SCALINGS, History, find_label
from tests.e2e.operators import Operators
from tests.e2e.test_troubles import set_quota
from tests.e2e.world import LOGS, PAUSE, RealWorld, build_job, train

NAME = "night"
STEP_SECONDS = "0.3"
COMMIT_EVERY = 5
BOUND = 180.0
"""Seconds until all is well again: a place that was lost often waits a minute to be filled."""
PATIENCE = 420.0
"""Seconds after which a night is over in which something does not become well."""
START, CLEANING = 180.0, 90.0
NOT_ITS_OWN = ("kube-root-ca.crt", "default", "edl-runtime-")
"""What these begin with belongs to a namespace, or to all jobs there."""


class Night:
    """One job in a namespace of its own, and a seed."""

    def __init__(
        self,
        world: RealWorld,
        folder: Path,
        *,
        seconds: float,
        patience: float = PATIENCE,
        tell: Callable[[str], None] = print,
    ) -> None:
        self._world = world
        self._seconds, self._patience = seconds, patience
        self._tell = tell
        self._operators = Operators()
        self._lives = self._list_lives()
        self._begun: set[str] = set()
        self._passages: list[Passage] = []
        self._history = History(
            world, seconds=seconds + START + patience, kinds=(JOB, POD, *SCALINGS)
        )
        self._uid = world.create(build_training(folder))["metadata"]["uid"]
        self._logs = LOGS / f"{world.namespace}-night"
        self._logs.mkdir(parents=True)
        self._telling = Telling(self._list_launchers, self._logs)
        self._striker = Striker(world, NAME)

    def live(self, seed: int, kinds: tuple[Kind, ...]) -> Record:
        """Start, live through as many rounds as begin within the seconds, end, and look around."""
        if Kind.QUOTA in kinds:
            set_quota(self._world, PLENTY)
        assert self._wait_until_well(FIRST, 0.0, [], START), self._world.describe(NAME)
        until = time.monotonic() + self._seconds
        for one in build_schedule(seed, kinds):
            if time.monotonic() > until or not self._pass(one):
                break
            PAUSE.wait(one.pause)
        self._telling.close()
        self._world.dump(self._logs)
        return Record(
            job=NAME,
            maximum=MOST,
            commit_every=COMMIT_EVERY,
            bound=BOUND,
            passages=self._passages,
            steps=self._telling.list_steps(),
            left=[*self._end()],
            versions=self._history.list_versions(),
            operators=frozenset(self._begun),
        )

    def _pass(self, one: Round) -> bool:
        """Live through a round; whether all was well again in the end."""
        strikes: list[Strike] = []
        for fault in one.faults:
            if strikes:
                PAUSE.wait(one.apart)
            strikes.append(self._striker.strike(fault))
        ended = time.monotonic()
        back = self._wait_until_well(one.faults[-1].wanted, ended, strikes, self._patience)
        self._passages.append(Passage(one, tuple(strikes), ended, back))
        self._begun |= self._list_lives() - self._lives
        took = "never" if back is None else f"{back - strikes[0].at:.0f} s"
        said = "; ".join(f"{strike.kind} {strike.said}" for strike in strikes)
        self._tell(f"round {one.number}: {said}: {took}")
        return back is not None

    def _wait_until_well(
        self, wanted: int, since: float, strikes: Sequence[Strike], patience: float
    ) -> float | None:
        """Until so many train, none of them struck, and nothing goes on; when that was."""
        until = time.monotonic() + patience
        while time.monotonic() < until:
            last = self._telling.list_steps()[-STEADY:]
            if not self._is_quiet(wanted, strikes):
                since = time.monotonic()
            elif are_steady(last, wanted, since):
                return last[0].at
            PAUSE.wait(0.5)
        return None

    def _is_quiet(self, wanted: int, strikes: Sequence[Strike]) -> bool:
        """Whether the pods that live are as many as wanted, all run, and no scaling goes on."""
        try:
            pods = [pod for pod in self._world.pods() if pod.status.phase not in ENDED]
            phases = {
                self._world.status(*scaling.split("/")).get("phase")
                for strike in strikes
                for scaling in strike.objects
            }
        except (ApiException, HTTPError):  # the server is only just back
            return False
        struck = {uid for strike in strikes for uid in strike.pods}
        return (
            len(pods) == wanted + 1
            and struck.isdisjoint(pod.metadata.uid for pod in pods)
            and all(p.status.phase == "Running" and not p.metadata.deletion_timestamp for p in pods)
            and phases <= CONCLUDED
        )

    def _list_launchers(self) -> Iterator[tuple[str, Path]]:
        seen = set()
        for version in self._history.list_versions():
            metadata, node = version.body["metadata"], version.body.get("spec", {}).get("nodeName")
            is_launcher = version.kind == POD and find_label(version.body, "role") == "launcher"
            if is_launcher and node and metadata["uid"] not in seen:
                seen.add(metadata["uid"])
                name, uid = metadata["name"], metadata["uid"]
                yield uid, find_folder(self._world.namespace, name, uid, node)

    def _list_lives(self) -> set[str]:
        """Every life of a container of the operator, also those that nobody looked at."""
        return {
            f"{pod.metadata.uid}/{number}"
            for pod in self._operators.pods()
            for status in pod.status.container_statuses or ()
            for number in range(status.restart_count + 1)
        }

    def _end(self) -> Iterator[str]:
        """Delete the job; what is there of it in the end."""
        self._world.delete("trainingjobs", NAME)
        until = time.monotonic() + CLEANING
        while (left := [*self._list_remains()]) and time.monotonic() < until:
            PAUSE.wait(1.0)
        yield from left

    def _list_remains(self) -> Iterator[str]:
        core, name = self._world.core, self._world.namespace
        rights = client.RbacAuthorizationV1Api(core.api_client)
        for what, listing in {
            "pod": core.list_namespaced_pod,
            "ConfigMap": core.list_namespaced_config_map,
            "Secret": core.list_namespaced_secret,
            "service account": core.list_namespaced_service_account,
            "Role": rights.list_namespaced_role,
            "RoleBinding": rights.list_namespaced_role_binding,
        }.items():
            for item in listing(name).items:
                if not item.metadata.name.startswith(NOT_ITS_OWN):
                    yield f"{what} {item.metadata.name}"
        yield from (f"process {pid}" for pid in find_processes(self._uid))


def are_steady(last: list[Step], wanted: int, since: float) -> bool:
    """Whether these steps, since then, were all of so many workers under one launcher."""
    return (
        len(last) == STEADY
        and last[0].at > since
        and all(step.size == wanted and step.launcher == last[-1].launcher for step in last)
    )


def build_training(folder: Path) -> dict[str, Any]:
    """A real training that goes on from its checkpoint, kept in this folder of all nodes."""
    options = ("--step-seconds", STEP_SECONDS, "--commit-every", str(COMMIT_EVERY))
    command = train("--steps", "1000000", *options, "--checkpoint", "/kept/state", maximum=MOST)
    job = build_job(NAME, command=command, workers=FIRST, minimum=LEAST, maximum=MOST)
    spec = get_spec(job, "worker")
    kept = {"name": "kept", "hostPath": {"path": str(folder), "type": "Directory"}}
    spec["volumes"] = [kept]
    spec["containers"][0]["volumeMounts"] = [{"name": "kept", "mountPath": "/kept"}]
    return job
