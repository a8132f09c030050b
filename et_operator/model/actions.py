"""The things a plan can ask for: plain data, run by acting/executing in the plan's order.

Every action is idempotent: running it again after a crash or an unknown outcome does no harm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from et_contract.pods import Role
from et_kube.resources import PODS, SCALE_INS, SCALE_OUTS, SECRETS, Json, Ref, Resource


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object. A name that is held already is reported back as a conflict."""

    resource: Resource
    manifest: Json


@dataclass(frozen=True, slots=True)
class CreateKeys:
    """Create a Secret, and make up the ssh keys in it.

    The server makes up the end of its name: nobody can have put another one there before, and what
    it answers is the only word of it. Where no answer comes, another Secret is made; the first one
    is used by nobody and goes with the job.
    """

    manifest: Json


@dataclass(frozen=True, slots=True)
class DryRun:
    """Ask the server whether it would create this pod, and as what. Nothing is created.

    Its name is for the server to make up: whoever has that of a pod says nothing of what it asks.
    """

    role: Role
    manifest: Json


@dataclass(frozen=True, slots=True)
class Patch:
    """Merge-patch an object that still has this uid and, where given, this resourceVersion."""

    ref: Ref
    uid: str
    body: Json
    resource_version: str | None = None
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object that still has this uid and, where given, this resourceVersion.

    `grace_seconds` None leaves the object's own grace; the object being gone is success.
    """

    ref: Ref
    uid: str
    resource_version: str | None = None
    grace_seconds: int | None = None


Action: TypeAlias = Create | CreateKeys | DryRun | Patch | Delete

Subject: TypeAlias = Resource | Ref
"""What the answers to writes are remembered under: see get_subject."""


def get_resource(action: Action) -> Resource:
    """The kind of object that an action is about."""
    match action:
        case Create(resource=resource):
            return resource
        case CreateKeys():
            return SECRETS
        case DryRun():
            return PODS
        case Patch(ref=ref) | Delete(ref=ref):
            return ref.resource


def get_ref(action: Action) -> Ref:
    """The object that an action is about."""
    match action:
        case Create(manifest=manifest) | CreateKeys(manifest=manifest) | DryRun(manifest=manifest):
            metadata = manifest["metadata"]
            name = metadata.get("name") or metadata["generateName"]
            return Ref(get_resource(action), metadata.get("namespace", ""), name)
        case Patch(ref=ref) | Delete(ref=ref):
            return ref


def get_subject(action: Action) -> Subject:
    """Of which actions a server that refuses this one would refuse the next.

    All of its kind: a quota, a right, a policy. But of those that stand alone each is its own.
    """
    return get_ref(action) if stands_alone(action) else get_resource(action)


def stands_alone(action: Action) -> bool:
    """Whether nothing rests on it, nor it on what is before it: deletions, answers to scalings."""
    return isinstance(action, Delete | DryRun) or get_resource(action) in {SCALE_INS, SCALE_OUTS}
