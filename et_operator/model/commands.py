"""What a launcher's command says itself of where it runs its processes, and with how many workers.

Sentences for people, of what its options tell (et_contract/starters.py).
"""

from __future__ import annotations

from et_contract.paths import DISCOVER_SCRIPT
from et_operator.model.specs import JobSpec
from et_operator.model.texts import count


def explain_alone(spec: JobSpec) -> str:
    """That the command keeps its processes in the launcher's own pod, and what leads them out."""
    if _is_horovodrun(spec):
        return (
            "the command of the launcher tells horovodrun of no hosts: its processes run in the "
            "launcher's own pod, or it ends at once, and workers run nothing. Give it "
            f"--host-discovery-script {DISCOVER_SCRIPT}"
        )
    least, most = spec.worker.min_replicas or 1, max(_count_allowed(spec), 2)
    return (
        "the command of the launcher tells torchrun of one node, or of a rendezvous of its own: "
        "its processes run in the launcher's own pod, and workers run nothing. Give it "
        f"--nnodes={least}:{most}, and no rendezvous"
    )


def explain_small(spec: JobSpec) -> str:
    """That the command lets fewer workers take part than may come; "" where it does not."""
    allowed = _count_allowed(spec) if spec.is_elastic else spec.worker.replicas
    return _explain_most(spec, allowed, "may come")


def explain_surplus(spec: JobSpec, workers: int) -> str:
    """That the command lets fewer take part than are to be there; "" where it does not."""
    return _explain_most(spec, workers, "are to be there")


def explain_joining(spec: JobSpec) -> str:
    """When the command begins to use a worker that is on the list."""
    if not spec.is_elastic:
        return (
            f"{spec.launcher} starts its processes once, as many as its own options say: the "
            "others stay idle until its end"
        )
    if _is_horovodrun(spec):
        return (
            "horovodrun begins once there are as many as its -np says, and lets others in when the "
            "script next commits (state.commit()): a script without commits lets nobody in"
        )
    return f"{spec.launcher} begins with the least of its --nnodes, and lets in up to the most"


def _explain_most(spec: JobSpec, workers: int, verb: str) -> str:
    most, slots = spec.command_most, spec.slots_per_worker
    if not most or most >= workers * slots:
        return ""
    own, fit = "--max-np", f"--max-np {workers * slots}"
    if not _is_horovodrun(spec):
        least = f"{spec.worker.min_replicas or 1}:" if spec.is_elastic else ""
        own, fit = "--nnodes", f"--nnodes={least}{workers}"
    return (
        f"the command runs {most} process{'' if most == 1 else 'es'} at most ({own}), and "
        f"{count(workers, 'worker')} of slotsPerWorker {slots} {verb}: what is above that runs "
        f"nothing. Raise it ({fit}) or have fewer workers (maxReplicas {max(most // slots, 1)})"
    )


def _count_allowed(spec: JobSpec) -> int:
    return max(spec.worker.max_replicas or 0, spec.worker.replicas)


def _is_horovodrun(spec: JobSpec) -> bool:
    return spec.launcher.startswith("horovodrun")
