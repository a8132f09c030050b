"""What the author of a job wrote that does nothing, or does not go together: a sentence each.

None of it keeps the job from its start; it is told once, as it starts, and by `et submit`.
"""

from __future__ import annotations

from collections.abc import Iterator

from et_contract.paths import DISCOVER_SCRIPT
from et_contract.starters import Choice
from et_contract.texts import clean
from et_kube.resources import Json
from et_operator.codec.fields import dig
from et_operator.codec.templates import find_restarting
from et_operator.model.specs import JobSpec
from et_operator.model.texts import count

_ANNOTATION_SSH_SECRET = "arena.kubeflow.org/ssh-secret"  # noqa: S105 (a name, not a secret)
_NEVER_RESTARTED = "pods are never restarted in place: use spec.restartPolicy"
_MOST = 1024
"""Characters of a sentence."""


def find_misfits(job: Json, spec: JobSpec, choice: Choice) -> tuple[str, ...]:
    """All of them. `job` is what its author wrote, `spec` and `choice` what was read of it."""
    found = (*_find_ignored(job), *_find_contradictions(spec, choice))
    return tuple(clean(sentence, _MOST) for sentence in found)


def _find_ignored(job: Json) -> Iterator[str]:
    """What nothing follows from."""
    roles = dig(job, "spec", "etReplicaSpecs")
    for role in ("launcher", "worker"):
        for place in ((), ("template", "spec")):
            policy = dig(roles, role, *place).get("restartPolicy")
            if policy not in (None, "", "Never"):
                path = ".".join(("spec.etReplicaSpecs", role, *place))
                yield f"{path}.restartPolicy: {policy} is ignored, {_NEVER_RESTARTED}"
        for path in find_restarting(dig(roles, role, "template", "spec")):
            yield (
                f"spec.etReplicaSpecs.{role}.template.spec.{path} is ignored, {_NEVER_RESTARTED}"
            )
    if _ANNOTATION_SSH_SECRET in dig(job, "metadata", "annotations"):
        yield f"annotation {_ANNOTATION_SSH_SECRET} is ignored, keys for ssh are made by us"


def _find_contradictions(spec: JobSpec, choice: Choice) -> Iterator[str]:
    """What does not go together."""
    needed = spec.find_needed(None)
    if spec.command_least > needed:
        yield (
            f"the command of the launcher needs {spec.command_least} workers, and is started with "
            f"{needed}: without more it gives up, after ten minutes as a rule. Correct minReplicas "
            "or replicas, or the command's own least number (horovodrun's is -np where --min-np "
            "is not given)"
        )
    allowed = max(spec.worker.max_replicas or 0, spec.worker.replicas)
    if choice.most and choice.most < allowed:
        yield _describe_most(spec, choice, allowed)
    if choice.is_hostless:
        yield (
            "the command of the launcher tells horovodrun of no hosts: its processes run in the "
            "launcher's own pod, or it ends at once, and workers run nothing. Give it "
            f"--host-discovery-script {DISCOVER_SCRIPT}"
        )


def _describe_most(spec: JobSpec, choice: Choice, allowed: int) -> str:
    """That the command has no room for as many workers as there may be; what would have."""
    most, slots = choice.most, spec.slots_per_worker
    if not choice.name.startswith("horovodrun"):
        return (
            f"the command of the launcher lets {count(most, 'worker')} take part at most, and "
            f"{allowed} are allowed: those above run nothing. Raise the command's own most "
            f"(torchrun's is the second of --nnodes, which would be {allowed}) or lower "
            "maxReplicas"
        )
    size = f"{count(most, 'worker')} of slotsPerWorker {slots}"
    return (
        f"the command's --max-np is for {size} at most, and {allowed} are allowed: those above "
        f"run nothing. Raise it (--max-np {allowed * slots}) or lower maxReplicas"
    )
