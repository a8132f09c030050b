"""What the author of a job wrote that does nothing, or does not go together: a sentence each.

None of it keeps the job from its start; it is told once, as it starts, and by `et submit`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

from et_contract.texts import clean
from et_kube.resources import Json
from et_operator.codec.fields import dig
from et_operator.codec.templates import find_restarting
from et_operator.model.commands import explain_alone, explain_small
from et_operator.model.jobs import Misfit
from et_operator.model.specs import JobSpec

_ANNOTATION_SSH_SECRET = "arena.kubeflow.org/ssh-secret"  # noqa: S105 (a name, not a secret)
_NEVER_RESTARTED = "pods are never restarted in place: use spec.restartPolicy"
_MOST = 1024
"""Characters of a sentence."""
_MOST_TOLD = 16
"""Sentences of each kind: all are kept with the job, and each field that does nothing is one. Of
what there is more, one says how much."""


def find_misfits(job: Json, spec: JobSpec) -> tuple[Misfit, ...]:
    """As many of them as anybody reads. `job` is what its author wrote, `spec` what was read."""
    found = {"SpecWarning": _find_ignored(job), "CommandWarning": _find_contradictions(spec)}
    return tuple(
        Misfit(kind, clean(sentence, _MOST))
        for kind, told in found.items()
        for sentence in chain(islice(told, _MOST_TOLD), _count_rest(told))
    )


def _count_rest(told: Iterator[str]) -> Iterator[str]:
    if more := sum(1 for _ in told):
        yield f"{more} further fields are ignored, too"


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


def _find_contradictions(spec: JobSpec) -> Iterator[str]:
    """What of the launcher's command does not go together with the job."""
    needed = spec.find_needed(None)
    if spec.command_least > needed:
        yield (
            f"the command of the launcher needs {spec.command_least} workers, and is started with "
            f"{needed}: without more it gives up, after ten minutes as a rule. Correct minReplicas "
            "or replicas, or the command's own least number (horovodrun's is -np where --min-np "
            "is not given)"
        )
    if spec.is_alone:
        yield explain_alone(spec)
    elif told := explain_small(spec):
        yield told
