"""All that a planner may see of one job.

state/views.py builds it for a pass, and a planner may ask for nothing else: a fact that is not here
is in no decision. Nobody changes one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from et_contract.documents import HostConfig, Report
from et_contract.pods import Role
from et_kube.resources import Json
from et_operator.model.actions import Subject
from et_operator.model.jobs import TrainingJob
from et_operator.model.keys import Owner
from et_operator.model.pods import Node, Pod
from et_operator.model.scalings import Scaling
from et_operator.model.statuses import Runtime

REFUSED_LATELY = timedelta(minutes=10)
"""Longer than the longest wait before another try: what is not refused again by then is over."""


@dataclass(frozen=True, slots=True)
class Child:
    """An object of the job that is not a pod: enough to see that it is there and is ours."""

    name: str
    uid: str
    resource_version: str = field(compare=False)
    owner: Owner | None
    digest: str = ""
    created: datetime | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """The server did not do our newest writes of one subject; kept in memory only.

    `generation` is that of the job whose wish it was, `name` the object that it was about, `count`
    how many in a row met just that. `is_meant` says that it was refused (403, 422); else the server
    failed (5xx), most often because somebody's webhook did, and the next try may be answered. Not
    `is_answered`: asked what it would do, it said nothing in time, or that it has no time.
    """

    message: str
    count: int
    at: datetime
    generation: int
    name: str = ""
    is_meant: bool = True
    is_deletion: bool = False
    is_answered: bool = True


@dataclass(frozen=True, slots=True)
class Proof:
    """What the server would have created, `at` then, for the job of this generation.

    `shape`: the document of et_kube/shaping.
    """

    generation: int
    at: datetime
    shape: Json


@dataclass(frozen=True, slots=True)
class RuntimeFiles:
    """The runtime that this operator ships: file name -> text, and the hash over them."""

    runtime: Runtime
    files: Mapping[str, str]
    pull_secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One job, its children and its scalings, as believed now.

    `pods` are those whose controller owner is this job's uid, dying ones included. `taken_names`
    are those of objects in the namespace that this job would use and that are somebody else's,
    `borrowed` accounts that its templates name and that are another job's broker's. `role_names` is
    everything that its Role gives rights on, `spare_roles` are its other Roles that give any,
    `bindings` those of its Role, with the accounts that each gives it to,
    `keys_secret` a Secret of ssh keys that was made for it and is not recorded yet. `proofs` say as
    what the server would create its pods.
    `told_since` is since when it is known that the command of this epoch's launcher has ended: to
    this process, for nobody writes it down.
    `nodes` are those that its pods are on or keep off, and those of `status.notices`; `firm_nodes`
    and `soft_nodes` are all of the cluster of whose end something is said, `said_ends` the last
    moment of each of which nothing is said without one, and `hostnames` how those of all of these
    are called that are not called by their name. `are_nodes_known` says that a node which is
    missing in `nodes` is not there.
    `has_quiet_nodes`: some node of the cluster is there of whose end nothing is said, as far as
    nodes are known at all.
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
    spare_roles: tuple[Child, ...] = ()
    bindings: Mapping[Child, frozenset[str]] = field(default_factory=dict)
    network_policy: Child | None = None
    runtimes: frozenset[str] = frozenset()
    nodes: Mapping[str, Node] = field(default_factory=dict)
    firm_nodes: frozenset[str] = frozenset()
    soft_nodes: frozenset[str] = frozenset()
    said_ends: Mapping[str, datetime] = field(default_factory=dict)
    hostnames: Mapping[str, str] = field(default_factory=dict)
    are_nodes_known: bool = True
    has_quiet_nodes: bool = True
    taken_names: frozenset[str] = frozenset()
    borrowed: frozenset[str] = frozenset()
    keys_secret: str = ""
    refusals: Mapping[Subject, Refusal] = field(default_factory=dict)
    proofs: Mapping[Role, Proof] = field(default_factory=dict)
    told_since: datetime | None = None
    complete_since: datetime | None = None
