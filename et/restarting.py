"""`et restart`: all pods of a job end, and it goes on with new ones from its own checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from et.clusters import Cluster
from et.errors import REFUSALS, EtError
from et.reading import explain_end, has_ended, read_job, read_pods
from et.screens import Screen
from et.suspending import resume, suspend
from et_contract.pods import Role
from et_kube.errors import Conflict, NotFound
from et_kube.racing import run_within
from et_kube.retrying import ask_again
from et_operator.codec.decoding import decode_job
from et_operator.model.jobs import TrainingJob
from et_operator.model.pods import Pod

LOOK = timedelta(seconds=1)


async def restart(cluster: Cluster, screen: Screen, name: str, limit: timedelta) -> None:
    """Suspend the job, wait until its pods have ended, and resume it.

    Of a job that is suspended already only the rest is done: who was interrupted types it again.

    Raises:
        EtError: the job has ended, or its pods have not within `limit`; it stays suspended then.
    """
    stored = await read_job(cluster, name)
    job = decode_job(stored)
    if has_ended(job):
        raise EtError(f"{name} has ended ({job.status.phase}): {explain_end(job)}; submit it again")
    if job.status.phase == "Waiting":
        raise EtError(f"{name} waits in a queue and has no pods: `et why {name}` says for what")
    stop = Stop(cluster, job)
    await stop.look()  # who may not list pods hears so before anything ends
    with screen.telling(f"{name} may be suspended: `et restart {name}` goes on", unless=REFUSALS):
        await suspend(cluster, stored)
    screen.say(f"{name} is suspended: its pods end, each has its grace to save")
    left = f"{name} stays suspended: `et restart {name}` goes on"
    with screen.telling(left, unless=(EtError, NotFound, Conflict)):  # or it is there no more
        await _wait(cluster, stop, limit)
        await resume(cluster, stored)
    screen.say(f"{name} goes on with new pods, from its own checkpoint if it wrote one")


async def _wait(cluster: Cluster, stop: Stop, limit: timedelta) -> None:
    name = stop.job.key.name
    try:
        await run_within(cluster.clock, limit, stop.wait(limit))
    except TimeoutError as error:
        names = ", ".join(stop.left) or "the operator has not answered"
        raise EtError(
            f"{name} has not stopped after {limit.total_seconds():.0f} s ({names}) and stays "
            f"suspended: `et restart {name}` goes on"
        ) from error


@dataclass(slots=True)
class Stop:
    """What of a suspended job still runs."""

    cluster: Cluster
    job: TrainingJob
    left: list[str] = field(default_factory=list)

    async def wait(self, limit: timedelta) -> None:
        """Until the suspension is recorded and no pod of it runs; one ended launcher may stay."""
        clock = self.cluster.clock
        while not await ask_again(clock, LOOK, limit)(self.look):
            await clock.sleep(LOOK)

    async def look(self) -> bool:
        """Whether all has stopped; EtError where nothing is left to be stopped."""
        job = decode_job(await read_job(self.cluster, self.job.key.name))
        if job.uid != self.job.uid:
            raise EtError(f"{job.key.name} was deleted and made anew meanwhile")
        if has_ended(job):
            raise EtError(f"{job.key.name} has ended meanwhile: {explain_end(job)}")
        pods = await read_pods(self.cluster, job)
        self.left = [pod.name for pod in pods if not _is_over(pod)]
        return job.status.is_suspended and not self.left


def _is_over(pod: Pod) -> bool:
    """Its log may keep a launcher; a worker has ended when it is not there."""
    return pod.role is Role.LAUNCHER and pod.is_terminal
