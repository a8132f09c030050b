"""The things a plan can ask for: plain data, run by acting/executing in the plan's order.

Each says what is wanted in the nouns of the product; codec/encoding knows which fields that is.
Only what is created is whole already, as planning/manifests builds it.

Every action is idempotent: running it again after a crash or an unknown outcome does no harm.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeAlias

from et_contract.documents import HostConfig
from et_contract.pods import Role
from et_kube.resources import PODS, SECRETS, Json, Ref, Resource
from et_operator.model.keys import Owner, OwnerReference
from et_operator.model.rights import Rights
from et_operator.model.scalings import ScalingStatus
from et_operator.model.statuses import JobStatus

Subject: TypeAlias = Resource | Ref
"""What the answers to writes are remembered under: see `subject` of an action."""


class _Aimed(Protocol):
    stands_alone: ClassVar[bool]

    @property
    def ref(self) -> Ref: ...


class _Asked:
    """What every action has; `ref` is the object that it is about.

    `stands_alone`: nothing rests on it, nor it on what is before it.
    """

    __slots__ = ()
    stands_alone: ClassVar[bool] = False

    @property
    def subject(self: _Aimed) -> Subject:
        """Of which actions a server that refuses this one would refuse the next.

        All of its kind: a quota, a right, a policy. But of those that stand alone each is its own.
        """
        return self.ref if self.stands_alone else self.ref.resource


@dataclass(frozen=True, slots=True)
class Create(_Asked):
    """Create an object. A name that is held already is reported back as a conflict."""

    resource: Resource
    manifest: Json

    @property
    def ref(self) -> Ref:
        """Where the server makes up the end of its name, with the beginning."""
        return _find_ref(self.resource, self.manifest)


@dataclass(frozen=True, slots=True)
class CreateKeys(_Asked):
    """Create a Secret, and make up the ssh keys in it.

    The server makes up the end of its name: nobody can have put another one there before, and what
    it answers is the only word of it. Where no answer comes, another Secret is made; the first one
    is used by nobody and goes with the job.
    """

    manifest: Json

    @property
    def ref(self) -> Ref:
        """The Secret, by the beginning of its name."""
        return _find_ref(SECRETS, self.manifest)


@dataclass(frozen=True, slots=True)
class DryRun(_Asked):
    """Ask the server whether it would create this pod, and as what. Nothing is created.

    Its name is for the server to make up: whoever has that of a pod says nothing of what it asks.
    """

    stands_alone = True

    role: Role
    manifest: Json

    @property
    def ref(self) -> Ref:
        """The pod, by the beginning of its name."""
        return _find_ref(PODS, self.manifest)


@dataclass(frozen=True, slots=True)
class _Changed(_Asked):
    """A change of an object that still has this uid and this resourceVersion; else a conflict."""

    ref: Ref
    uid: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class WriteStatus(_Changed):
    """Write a job's status; fields of it that could not be read (`unread`) stay as they are."""

    status: JobStatus
    unread: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class SetReplicas(_Changed):
    """Put this number of workers into a job's spec, and say for which scaling, where one asked."""

    number: int
    scaling_uid: str = ""


@dataclass(frozen=True, slots=True)
class WriteConfig(_Changed):
    """Write what the broker reads, and the same for people, in the place of what was there."""

    config: HostConfig


@dataclass(frozen=True, slots=True)
class SetRights(_Changed):
    """Let a Role give these rights and no others."""

    rights: Rights


@dataclass(frozen=True, slots=True)
class SetAccounts(_Changed):
    """Let a RoleBinding give its Role to these ServiceAccounts of its namespace and no others."""

    accounts: frozenset[str]


@dataclass(frozen=True, slots=True)
class AcceptScaling(_Changed):
    """Make a scaling the job's own, beside the owners that it has."""

    stands_alone = True

    owners: tuple[OwnerReference, ...]
    job: Owner


@dataclass(frozen=True, slots=True)
class AnswerScaling(_Changed):
    """Write a scaling's status."""

    stands_alone = True

    status: ScalingStatus


@dataclass(frozen=True, slots=True)
class Delete(_Asked):
    """Delete an object that still has this uid and, where given, this resourceVersion.

    `grace_seconds` None leaves the object's own grace; the object being gone is success.
    """

    stands_alone = True

    ref: Ref
    uid: str
    resource_version: str | None = None
    grace_seconds: int | None = None


Change: TypeAlias = (
    WriteStatus
    | SetReplicas
    | WriteConfig
    | SetRights
    | SetAccounts
    | AcceptScaling
    | AnswerScaling
)
"""What becomes a merge patch."""

Action: TypeAlias = Create | CreateKeys | DryRun | Change | Delete


def _find_ref(resource: Resource, manifest: Json) -> Ref:
    metadata = manifest["metadata"]
    name = metadata.get("name") or metadata["generateName"]
    return Ref(resource, metadata.get("namespace", ""), name)
