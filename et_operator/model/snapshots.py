"""All that a planner may see of one job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from et_operator.model.jobs import Runtime, TrainingJob
from et_operator.model.pods import Node, Pod
from et_operator.model.resources import Resource
from et_operator.model.scalings import Scaling
from launcher.documents import HostConfig, Report


@dataclass(frozen=True, slots=True)
class Child:
    """An object of the job that is not a pod: enough to see that it is there and is ours."""

    name: str
    uid: str
    resource_version: str
    owner_uid: str | None
    digest: str = ""
    created: datetime | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """The server refused our newest writes of one kind (403, 422); kept in memory only.

    `generation` is that of the job whose wish was refused, `name` the object that it was about,
    `count` how many passes in a row met it.
    """

    message: str
    count: int
    at: datetime
    generation: int
    name: str = ""


@dataclass(frozen=True, slots=True)
class RuntimeFiles:
    """The runtime that this operator ships: file name -> text, and the hash over them."""

    runtime: Runtime
    files: Mapping[str, str]
    pull_secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One job, its children and its scalings, as believed now.

    `pods` are those whose controller owner is this job's uid, dying ones included. `taken` are
    names of objects in the namespace that this job would use and that belong to somebody else.
    `config` and `report` are the decoded ConfigMaps with their identity. `complete_since` is when
    the lists behind this view were first complete; it is None while they are not, and then nothing
    may be concluded from something being absent.
    """

    job: TrainingJob
    shipped: RuntimeFiles
    pods: tuple[Pod, ...] = ()
    scalings: tuple[Scaling, ...] = ()
    config: HostConfig | None = None
    config_object: Child | None = None
    report: Report | None = None
    report_object: Child | None = None
    service_account: Child | None = None
    role: Child | None = None
    role_names: frozenset[str] = frozenset()
    role_binding: Child | None = None
    network_policy: Child | None = None
    runtimes: frozenset[str] = frozenset()
    nodes: Mapping[str, Node] = field(default_factory=dict)
    are_nodes_known: bool = True
    taken: frozenset[str] = frozenset()
    refusals: Mapping[Resource, Refusal] = field(default_factory=dict)
    complete_since: datetime | None = None
