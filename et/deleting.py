"""`et delete`: jobs go, with all that belongs to them.

`et run` replaces by it too. Deleted is only the very job that was read, and none before somebody
has agreed to all of them; what else belongs to it the cluster collects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from et.clusters import Cluster
from et.errors import EtError
from et.reading import read_job, read_pods, read_scalings
from et.screens import Screen
from et.waiting import wait_until
from et_kube.errors import Conflict, NotFound
from et_kube.resources import PODS, TRAINING_JOBS
from et_operator.codec.decoding import decode_job
from et_operator.model.jobs import TrainingJob
from et_operator.model.texts import count

STAYS = (
    "what stays: claims and their volumes, and the Secrets and ConfigMaps that were not made for it"
)


async def delete_jobs(
    cluster: Cluster,
    screen: Screen,
    names: Sequence[str],
    *,
    is_sure: bool,
    limit: timedelta | None,
) -> None:
    """Delete them, once somebody agrees, and for so long wait until nothing of them is there.

    Raises:
        EtError: one is not there or somebody says no, and none was deleted; or they are not gone.
    """
    jobs = [decode_job(await read_job(cluster, name)) for name in dict.fromkeys(names)]
    if not is_sure:
        for job in jobs:
            screen.hint(await describe_loss(cluster, job))
        screen.hint(STAYS)
        if not screen.ask("Delete?"):
            raise EtError("nothing was deleted")
    for job in jobs:
        await delete_job(cluster, job)
        screen.say(f"TrainingJob {job.key.name} is deleted")
    if limit is not None:
        await wait_until_gone(cluster, jobs, limit)


async def describe_loss(cluster: Cluster, job: TrainingJob) -> str:
    """What goes with a job that is deleted."""
    pods, scalings = await read_pods(cluster, job), await read_scalings(cluster, job)
    goes = [count(len(pods), "pod") + " with what they have printed"] if pods else []
    goes += [count(len(scalings), "scaling")] if scalings else []
    phase = job.status.phase or "not begun"
    return f"TrainingJob {job.key.name} ({phase})" + "".join(f", {one}" for one in goes)


async def delete_job(cluster: Cluster, job: TrainingJob) -> None:
    """Delete this very job; EtError where another one has its name by now."""
    try:
        await cluster.api.delete(job.key.ref, uid=job.uid, propagation="Background")
    except NotFound:
        return  # that was wanted
    except Conflict as error:
        raise EtError(
            f"{job.key.name} was deleted and made anew meanwhile: look at the new one first"
        ) from error


async def wait_until_gone(cluster: Cluster, jobs: Sequence[TrainingJob], limit: timedelta) -> None:
    """Until neither they nor their pods are there; EtError after so long, with what still is."""
    remains = Remains(cluster, jobs)
    try:
        await wait_until(cluster.clock, remains.look, limit)
    except TimeoutError as error:
        after = f"after {limit.total_seconds():.0f} s"
        if str(error):
            raise EtError(f"deleted; whether it is gone is not known {after}: {error}") from error
        raise EtError(f"deleted, and not gone {after}: {', '.join(remains.found)}") from error


@dataclass(slots=True)
class Remains:
    """What is still there of jobs that were deleted."""

    cluster: Cluster
    jobs: Sequence[TrainingJob]
    found: list[str] = field(default_factory=list)

    async def look(self) -> bool:
        """Whether nothing is."""
        self.found = [words for job in self.jobs for words in await self._find(job)]
        return not self.found

    async def _find(self, job: TrainingJob) -> list[str]:
        found = [
            f"{PODS.kind} {pod.name}" + (f" on {pod.node}" if pod.node else "")
            for pod in await read_pods(self.cluster, job)
        ]
        try:
            stored = await self.cluster.api.get(job.key.ref)
        except NotFound:
            return found
        if decode_job(stored).uid == job.uid:
            holders = ", ".join(stored["metadata"].get("finalizers") or ())
            held = f" (held by the finalizer {holders})" if holders else ""
            found.append(f"{TRAINING_JOBS.kind} {job.key.name}{held}")
        return found
