"""`et restart --workers`: the operator replaces them one after the other while the job trains.

An annotation on the job is all that is written. Interrupted or too late, it only stops telling: the
operator goes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from et.clusters import Cluster
from et.errors import EtError
from et.following import follow_within
from et.reading import explain_end, has_ended, read_job
from et.screens import Screen
from et_contract.pods import read_worker_index
from et_kube.resources import TRAINING_JOBS, Json, Ref
from et_operator.codec.decoding import decode_job
from et_operator.model.conditions import find_condition
from et_operator.model.jobs import TrainingJob
from et_operator.model.names import ANNOTATION_RENEWED
from et_operator.model.statuses import WorkerState
from et_operator.model.texts import count


async def renew(cluster: Cluster, screen: Screen, name: str, limit: timedelta) -> None:
    """Ask for it, and see it done.

    Raises:
        EtError: nothing can be replaced while the job runs, or it is not done within `limit`; what
            was begun goes on then.
    """
    stored = await read_job(cluster, name)
    job = decode_job(stored)
    check(job)
    through = job.status.last_worker_index
    wish = {ANNOTATION_RENEWED: f"{through}/{job.uid}"}
    body = {"metadata": {"uid": job.uid, "annotations": wish}}
    ref = Ref(TRAINING_JOBS, cluster.namespace, name)
    await cluster.api.patch(ref, body)
    number = count(job.status.decided_replicas, "worker")
    screen.say(f"{name}: {number} to be replaced one after the other while it trains")
    left = f"it goes on: condition RestartingWorkers, `et describe {name}`"
    waiting = Renewal(screen, through)
    try:
        with screen.telling(left, unless=(Exception,)):  # Ctrl-C
            await follow_within(cluster, ref, waiting.see, limit)
    except TimeoutError as error:
        seconds = limit.total_seconds()
        raise EtError(f"not all are replaced after {seconds:.0f} s; {left}") from error


def check(job: TrainingJob) -> None:
    """Raises EtError where none can leave while the command runs; says what can be done."""
    name, spec, status = job.key.name, job.spec, job.status
    if has_ended(job):
        raise EtError(f"{name} has ended ({status.phase}): {explain_end(job)}; submit it again")
    if spec is None or status.is_suspended or status.decided_replicas is None:
        raise EtError(f"{name} has no workers now ({status.phase}): its next ones are new anyway")
    if not spec.is_elastic:
        raise EtError(
            f"{name}'s command starts all its processes at once: `et restart {name}` starts all of "
            "it anew"
        )
    least = max(spec.worker.min_replicas or 1, spec.command_least)
    if status.decided_replicas <= least:
        raise EtError(
            f"{name} has {count(status.decided_replicas, 'worker')} and cannot go on with fewer: "
            f"`et scale {name} --by +1` first, or `et restart {name}`"
        )


@dataclass(slots=True)
class Renewal:
    """Watches a job until no worker is left with an index up to `through`."""

    screen: Screen
    through: int
    said: str = ""

    def see(self, obj: Json | None) -> bool:
        """Take the job as it is now; True when all workers are new, and run."""
        if obj is None:
            raise EtError("the job was deleted")
        job = decode_job(obj)
        if has_ended(job):
            raise EtError(f"the job has ended meanwhile: {explain_end(job)}")
        told = find_condition(job.status.conditions, "RestartingWorkers")
        message = told.message if told is not None and told.status == "True" else ""
        if message and message != self.said:
            self.said = message
            self.screen.say(f"  {message}")
        if not self._is_over(job):
            return False
        self.screen.say(f"{job.key.name} has {count(job.status.decided_replicas, 'new worker')}")
        return True

    def _is_over(self, job: TrainingJob) -> bool:
        status = job.status
        leaving = [r.name for r in status.workers if r.state is WorkerState.LEAVING]
        names = [*status.target_workers, *leaving]
        if any((read_worker_index(name) or 0) <= self.through for name in names):
            return False
        return len(status.current_workers) == status.decided_replicas
