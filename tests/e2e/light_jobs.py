"""Jobs that train nothing: a shell in the launcher, processes in the workers, no Horovod."""

from __future__ import annotations

from typing import Any

from tests.e2e.world import RealWorld, build_job

FOREVER = "while /etc/edl/discover_hosts.sh > /dev/null; do sleep 1; done"
"""As horovodrun does, it asks for the hosts all the time: no worker leaves before it was heard."""
IN_EACH_WORKER = (
    "for host in $(/etc/edl/discover_hosts.sh | cut -d: -f1); do "
    "/etc/mpi/kubexec.sh $host '{}' || exit; done"
)
"""A launcher's script that runs a command in one listed worker after the other."""


def build_light_job(name: str, script: str, *, workers: int = 1, **spec: Any) -> dict[str, Any]:
    """A TrainingJob whose command is this shell script."""
    command = ["sh", "-c", script]
    return build_job(name, command=command, workers=workers, minimum=workers, maximum=40, **spec)


def get_container(job: dict[str, Any], role: str) -> dict[str, Any]:
    """The first container of a role's template, to be changed."""
    template = job["spec"]["etReplicaSpecs"][role]["template"]
    container: dict[str, Any] = template["spec"]["containers"][0]
    return container


def read_output(world: RealWorld, pod: str) -> list[str]:
    """What a launcher's command has printed, without what our PID 1 says."""
    lines = world.log(pod, "launcher").splitlines()
    return [line for line in lines if not line.startswith("edl: ")]


def wait_for_output(world: RealWorld, pod: str) -> list[str]:
    """Until a launcher's command has printed something; all of it."""
    return world.wait(lambda: read_output(world, pod), f"the command of {pod} prints")


def find_pods(world: RealWorld, job: str) -> dict[str, Any]:
    """The job's pods that are not being deleted, by name."""
    found = world.core.list_namespaced_pod(
        world.namespace, label_selector=f"training-job-name={job}"
    )
    return {p.metadata.name: p for p in found.items if not p.metadata.deletion_timestamp}


def wait_for_condition(
    world: RealWorld, job: str, kind: str, status: str = "True", timeout: float = 120
) -> str:
    """Until the job has this condition; its message."""

    def look() -> dict[str, Any]:
        conditions = world.status("trainingjobs", job).get("conditions", [])
        found = [c for c in conditions if c["type"] == kind and c["status"] == status]
        return found[0] if found else {}

    condition = world.wait(look, f"{job} has the condition {kind}={status}", timeout)
    message: str = condition.get("message", "")
    return message


def wait_for_event(world: RealWorld, name: str, reason: str) -> str:
    """Until an Event with this reason is there about the object of this name; its message."""

    def look() -> list[str]:
        return [text for about, why, text in world.events() if (about, why) == (name, reason)]

    return world.wait(look, f"an Event {reason} about {name}")[0]
