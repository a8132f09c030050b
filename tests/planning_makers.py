"""Small makers for planner tests, and a world of model objects to which plans are applied."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Any

from et_contract.documents import MAX_WORKERS, HostConfig, MemberState, decode_config
from et_contract.documents import Report as BrokerReport
from et_contract.frames import PROTOCOL_VERSION
from et_contract.names import CONFIG_KEY
from et_contract.pods import LABEL_ROLE, MAX_INDEX, Role, read_worker_index
from et_kube.events import Event
from et_kube.notices import Notice, NoticeKind
from et_kube.resources import (
    CONFIG_MAPS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    TRAINING_JOBS,
    Json,
)
from et_kube.shaping import describe_admitted
from et_operator.codec.children import decode_accounts, decode_role_names, find_controller
from et_operator.codec.encoding import encode_change, find_subresource
from et_operator.codec.pods import has_pre_stop
from et_operator.codec.statuses import decode_status, encode_status
from et_operator.model.actions import (
    AcceptScaling,
    Action,
    AnswerScaling,
    Change,
    Create,
    CreateKeys,
    Delete,
    DryRun,
    SetAccounts,
    SetReplicas,
    SetRights,
    Subject,
    WriteConfig,
    WriteStatus,
)
from et_operator.model.jobs import TrainingJob
from et_operator.model.keys import JobKey
from et_operator.model.names import (
    ANNOTATION_AVOIDS,
    ANNOTATION_ELASTIC,
    ANNOTATION_LEAST,
    ANNOTATION_RETRIES,
    ANNOTATION_TEMPLATE,
    LABEL_EPOCH,
    LABEL_INDEX,
)
from et_operator.model.plans import Plan
from et_operator.model.pods import Node, Pod, Termination
from et_operator.model.scalings import Scaling, ScalingStatus
from et_operator.model.snapshots import Child, Proof, Refusal, RuntimeFiles, Snapshot
from et_operator.model.specs import JobSpec, WorkerSpec
from et_operator.model.statuses import JobStatus, Runtime, ScalingKind, WorkerState
from et_operator.planning.planner import plan

START = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
CORDON = Notice("the node is cordoned", "spec.unschedulable", NoticeKind.SOFT)
MAX_PASSES = 60


def make_template(**container: Any) -> dict[str, Any]:
    """A pod template with one container."""
    return {"spec": {"containers": [{"name": "main", "image": "trainer", **container}]}}


def make_spec(replicas: int = 2, **changes: Any) -> JobSpec:
    """A valid spec; `minimum` and `maximum` are those of the workers."""
    worker = WorkerSpec(
        template=make_template(),
        replicas=replicas,
        min_replicas=changes.pop("minimum", None),
        max_replicas=changes.pop("maximum", None),
    )
    template = make_template(command=["horovodrun"], args=["python", "train.py"])
    return JobSpec(launcher_template=template, worker=worker, **changes)


def make_job(replicas: int = 2, **changes: Any) -> TrainingJob:
    """A job that was just created."""
    return TrainingJob(
        key=JobKey("ns", "job"),
        uid="job-uid",
        resource_version="1",
        generation=1,
        created=START,
        spec=make_spec(replicas, **changes),
    )


def make_shipped(digest: str = "d1") -> RuntimeFiles:
    """The runtime of this operator."""
    files = {"launcher/boot.py": "boot", "launcher/agent/__init__.py": ""}
    return RuntimeFiles(Runtime(digest, "broker:1", PROTOCOL_VERSION), files)


def make_scaling(kind: ScalingKind, name: str, **changes: Any) -> Scaling:
    """A scaling that is the job's; with `is_owned=False` one that was just created."""
    fields: dict[str, Any] = {
        "kind": kind,
        "namespace": "ns",
        "name": name,
        "uid": f"{name}-uid",
        "resource_version": "1",
        "generation": 1,
        "created": START,
        "job_name": "job",
        "is_owned": True,
    }
    return Scaling(**(fields | changes))


KEYS_SECRET = "job-ssh-x7f2q"


class ModelWorld:
    """A cluster that does at once what it is asked to; everything else happens when told to.

    Checks at each pass what must hold whatever happens.
    """

    def __init__(self, job: TrainingJob | None = None, shipped: RuntimeFiles | None = None) -> None:
        self.now = START
        self.job = job or make_job()
        self.shipped = shipped or make_shipped()
        self.pods: dict[str, Pod] = {}
        self.scalings: dict[str, Scaling] = {}
        self.config: HostConfig | None = None
        self.report: BrokerReport | None = None
        self.children: dict[str, Child] = {}
        self.role_names: frozenset[str] = frozenset()
        self.bound: frozenset[str] = frozenset()
        self.keys: Json = {}
        self.made_keys = ""
        self.runtimes: frozenset[str] = frozenset()
        self.nodes: dict[str, Node] = {"n1": Node("n1"), "n2": Node("n2")}
        self.are_nodes_known = True
        self.taken_names: frozenset[str] = frozenset()
        self.borrowed: frozenset[str] = frozenset()
        self.refusal: Any = None
        self.refusals: dict[Subject, Any] = {}
        self.proofs: dict[Role, Proof] = {}
        self.objection = ""
        """Why the server would create no pod."""
        self.complete_since: datetime | None = START - timedelta(hours=1)
        self.told_since: datetime | None = None
        self.log: list[str] = []
        self.events: list[Event] = []
        self.used: dict[str, str] = {}
        self.writes = 0
        self.requeue_after: timedelta | None = None
        self.job_is_gone = False
        self.tick = timedelta()
        """How far the clock goes on with each pass of `settle`: nothing may follow it."""
        self.on_write: Callable[[str], None] = lambda _: None
        self._version = 1
        self._at_rest: tuple[Snapshot, datetime] | None = None
        """What the last pass of `settle` was given: by it there was nothing to do."""

    # ------------------------------------------------------------ planning
    @property
    def status(self) -> JobStatus:
        return self.job.status

    @property
    def replicas(self) -> int:
        assert self.job.spec is not None
        return self.job.spec.worker.replicas

    def snapshot(self) -> Snapshot:
        return Snapshot(
            job=self.job,
            shipped=self.shipped,
            pods=tuple(self.pods.values()),
            scalings=tuple(self.scalings.values()),
            config=self.config,
            config_object=self.children.get("job-config"),
            report=self._read_report(),
            report_object=self.children.get("job-report"),
            service_account=self.children.get("ServiceAccount"),
            role=self.children.get("Role"),
            role_names=self.role_names,
            bindings={c: self.bound for c in (self.children.get("RoleBinding"),) if c},
            network_policy=self.children.get("NetworkPolicy"),
            runtimes=self.runtimes,
            nodes=dict(self.nodes),
            firm_nodes=self._select_said(NoticeKind.FIRM),
            soft_nodes=self._select_said(NoticeKind.SOFT),
            said_ends={n.name: n.last_end for n in self.nodes.values() if n.last_end is not None},
            has_quiet_nodes=any(n.notice is None for n in self.nodes.values()) or not self.nodes,
            hostnames={n.name: n.hostname for n in self.nodes.values() if n.hostname is not None},
            are_nodes_known=self.are_nodes_known,
            taken_names=self.taken_names,
            borrowed=self.borrowed,
            keys_secret=self.made_keys,
            refusals=self.refusals | ({PODS: self.refusal} if self.refusal else {}),
            proofs=dict(self.proofs),
            told_since=self.told_since,
            complete_since=self.complete_since,
        )

    def _select_said(self, kind: NoticeKind) -> frozenset[str]:
        found = self.nodes.values()
        return frozenset(n.name for n in found if n.notice is not None and n.notice.kind is kind)

    def step(self) -> Plan:
        """One pass: plan, check, apply. What is wanted at all is wanted again, when asked again."""
        snapshot = self.snapshot()
        has_told = snapshot.report is not None and snapshot.report.ended is not None
        self.told_since = (self.told_since or self.now) if has_told else None
        result = plan(snapshot, self.now)
        if result.status is not None or result.actions:
            assert plan(snapshot, self.now) == result
        self._check(snapshot, result)
        self.apply(result)
        return result

    def settle(self) -> None:
        """Passes until one has nothing to write.

        What a pass was given already would have it do the same: it is not asked again.
        """
        for _ in range(MAX_PASSES):
            given = self.snapshot(), self.now
            if given == self._at_rest:
                return
            result = self.step()
            self.requeue_after = result.requeue_after
            if result.status is None and not result.actions:
                self._at_rest = given if not result.events else None
                return
            if self.job_is_gone:
                return
            self.now += self.tick
        raise AssertionError(f"does not come to rest: {self.log[-8:]}")

    def apply(self, result: Plan) -> None:
        if result.status is not None:
            self._note("status")
            body = {k: v for k, v in encode_status(result.status).items() if v is not None}
            status, problems = decode_status(JobStatus, body)
            assert not problems
            self.job = replace(self.job, status=status, resource_version=self._next())
            self.made_keys = "" if status.keys_secret else self.made_keys
        for action in result.actions:
            self._note(describe(action))
            self._apply(action)
        self.events += result.events

    # ------------------------------------------------------------ what happens in the cluster
    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def set_back(self, span: timedelta) -> None:
        """Our clock was ahead by this; the server's, which says when pods were made, was not."""
        self.now -= span
        for name, pod in list(self.pods.items()):
            self.put(name, created=min(pod.created, self.now.replace(microsecond=0)))

    def edit(self, **changes: Any) -> None:
        """Change the job's spec as its author would."""
        spec = self.job.spec
        assert spec is not None
        if "replicas" in changes:
            spec = replace(spec, worker=replace(spec.worker, replicas=changes.pop("replicas")))
        self.job = replace(
            self.job,
            spec=replace(spec, **changes),
            generation=self.job.generation + 1,
            resource_version=self._next(),
        )

    def put(self, name: str, **changes: Any) -> None:
        """Change a pod."""
        pod = replace(self.pods[name], resource_version=self._next())
        self.pods[name] = replace(pod, **changes)

    def run(self, *names: str, node: str = "n1") -> None:
        """These pods, or all that can, run now."""
        for name, pod in list(self.pods.items()):
            if (names and name not in names) or pod.phase != "Pending" or pod.is_deleting:
                continue
            self.put(
                name,
                phase="Running",
                node=node,
                is_container_running=True,
                has_container_started=True,
                ips=(str(ip_address("10.0.0.0") + (read_worker_index(name) or 0)),),
                started=self.now.replace(microsecond=0),
            )

    def end(self, name: str, code: int = 0, **changes: Any) -> None:
        """A pod's main container ends."""
        self.put(
            name,
            phase="Succeeded" if code == 0 else "Failed",
            is_container_running=False,
            termination=Termination(code, "Completed" if code == 0 else "Error", "the tail"),
            **changes,
        )

    def delete(self, name: str, grace: int = 30) -> None:
        """Somebody deletes the pod; it dies when `reap` says so."""
        self.put(name, deletion_requested=self.now, deletion_grace_seconds=grace)

    def reap(self, *names: str) -> None:
        """Pods that are being deleted vanish."""
        for name, pod in list(self.pods.items()):
            if pod.is_deleting and (not names or name in names):
                del self.pods[name]

    def serve(self, *, close: bool = True, list_new: bool = True) -> None:
        """The broker reads the config: lists, serves, and reports idle workers as closed."""
        pod = self.launcher
        if pod is None or self.config is None or not pod.is_container_running:
            return
        if self.config.epoch != pod.epoch:
            return
        old = self.report
        if old is None or old.launcher_uid != pod.uid:
            old = BrokerReport(epoch=pod.epoch or 0, launcher_uid=pod.uid, broker_start=1)
        running = {p.uid for p in self.pods.values() if p.is_container_running}
        members = [m for m in self.config.members if m.uid in running]
        active = {m.uid for m in members if m.state is MemberState.ACTIVE} if list_new else set()
        draining = {m.uid for m in members if m.state is MemberState.DRAINING} if close else set()
        held = {m.uid for m in members if m.state is MemberState.HELD} if list_new else set()
        self.report = replace(
            old,
            observed_generation=self.config.generation,
            served_generation=self.config.generation,
            listed=old.listed | active,
            closed=old.closed | draining,
            ready=frozenset(held),
        )

    def finish(self, code: int = 0, *, is_told_to_end: bool | None = False) -> None:
        """The user's command ends, by itself or on SIGTERM, and the launcher with it."""
        pod = self.launcher
        assert pod is not None
        if self.report is not None:
            self.report = replace(self.report, ended=code, is_told_to_end=is_told_to_end)
        self.end(pod.name, code)

    def add(self, scaling: Scaling) -> Scaling:
        self.scalings[scaling.uid] = scaling
        return scaling

    def start(self) -> None:
        """From nothing to a job that runs, with its hosts listed."""
        self.settle()
        self.wait(1)
        self.run()
        self.settle()
        self.serve()
        self.settle()

    def go_on(self, rounds: int = 6) -> None:
        """Let everything that can happen happen."""
        for _ in range(rounds):
            self.settle()
            self.wait(2)
            self.run()
            self.settle()
            self.serve()
            self.settle()
            self.reap()
            self.settle()

    # ------------------------------------------------------------ looking
    @property
    def launcher(self) -> Pod | None:
        found = [p for p in self.pods.values() if p.role is Role.LAUNCHER]
        return max(found, key=lambda p: p.epoch or 0, default=None)

    @property
    def workers(self) -> list[str]:
        return [n for n, p in self.pods.items() if p.role is Role.WORKER and not p.is_terminal]

    def condition(self, kind: str) -> str | None:
        return next((c.status for c in self.status.conditions if c.type == kind), None)

    def reason(self, kind: str) -> str | None:
        return next((c.reason for c in self.status.conditions if c.type == kind), None)

    def message(self, kind: str) -> str:
        return next((c.message for c in self.status.conditions if c.type == kind), "")

    def phase(self) -> str:
        return self.status.phase.value if self.status.phase else ""

    def scaling_phase(self, name: str) -> str:
        phase = self.scalings[f"{name}-uid"].status.phase
        return phase.value if phase else ""

    def scaling_reason(self, name: str) -> str:
        return self.scalings[f"{name}-uid"].status.conditions[-1].reason

    def states(self) -> dict[str, str]:
        assert self.config is not None
        return {m.name: m.state.value for m in self.config.members}

    # ------------------------------------------------------------ applying
    def _apply(self, action: Action) -> None:
        match action:
            case Create():
                self._create(action)
            case DryRun():
                self._try(action)
            case CreateKeys(manifest=manifest):
                assert not self.keys, "made twice"
                self.keys, self.made_keys = manifest, KEYS_SECRET
            case Delete():
                self._delete(action)
            case _:
                self._change(action)

    def _try(self, action: DryRun) -> None:
        if self.objection:
            name = action.manifest["metadata"]["generateName"]
            refusal = Refusal(self.objection, 1, self.now, self.job.generation, name)
            self.refusals[action.subject] = refusal
            return
        spec = {**action.manifest["spec"], "priority": 7, "priorityClassName": "seven"}
        shape = describe_admitted({"spec": spec})
        self.proofs[action.role] = Proof(self.job.generation, self.now, shape)

    def _create(self, action: Create) -> None:
        metadata = action.manifest["metadata"]
        name = metadata.get("name") or metadata["generateName"] + "x7k2p"
        if action.resource == PODS:
            self._create_pod(action.manifest)
            return
        if action.resource == CONFIG_MAPS and name.startswith("edl-runtime-"):
            self.runtimes |= {name}
            return
        key = name if action.resource == CONFIG_MAPS else action.resource.kind
        assert key not in self.children, f"{key} is there already"
        self.children[key] = Child(name, f"{key}-uid", self._next(), self.job.owner)
        if action.resource == ROLES:
            self._grant(decode_role_names(action.manifest, self.job.uid))
        if action.resource == ROLE_BINDINGS:
            self.bound = decode_accounts(action.manifest)
        if name == "job-config":
            self._list(decode_config(action.manifest["data"][CONFIG_KEY]))

    def _grant(self, names: frozenset[str]) -> None:
        objects = {name for name in names if not name.startswith("-")}
        assert objects <= set(self.pods) | set(self.children), "rights on what is not there"
        self.role_names = names

    def _list(self, config: HostConfig) -> None:
        active = {m.name for m in config.members if m.state is MemberState.ACTIVE}
        listed = {m.name for m in self.config.members} if self.config else set()
        fresh = {name for name in active - listed if name.startswith("job-worker-")}
        assert self.keys or fresh & set(self.pods) <= self.role_names, "listed before its rights"
        self.config = config

    def _create_pod(self, manifest: Json) -> None:
        metadata = manifest["metadata"]
        labels, name = metadata["labels"], metadata["name"]
        assert name not in self.pods, f"{name} is there already"
        if labels[LABEL_ROLE] == "worker":
            assert {"job-config", "job-report"} <= set(self.children)
        version = self._next()
        index = labels.get(LABEL_INDEX)
        self.pods[name] = Pod(
            namespace="ns",
            name=name,
            uid=f"{name}-{version}",
            resource_version=version,
            role=Role(labels[LABEL_ROLE]),
            index=None if index is None else int(index),
            epoch=int(labels[LABEL_EPOCH]),
            created=self.now.replace(microsecond=0),
            phase="Pending",
            owner=self.job.owner,
            container="main",
            account=manifest["spec"].get("serviceAccountName", ""),
            has_pre_stop=has_pre_stop(manifest["spec"]["containers"][0]),
            keys_secret=next(
                (v["secret"]["secretName"] for v in manifest["spec"]["volumes"] if "secret" in v),
                "",
            ),
            retries=int(metadata["annotations"].get(ANNOTATION_RETRIES, 0)),
            avoids=metadata["annotations"].get(ANNOTATION_AVOIDS, ""),
            is_elastic={"true": True, "false": False}.get(
                metadata["annotations"].get(ANNOTATION_ELASTIC)
            ),
            template=metadata["annotations"].get(ANNOTATION_TEMPLATE, ""),
            image=manifest["spec"]["containers"][0].get("image", ""),
            command_least=int(metadata["annotations"].get(ANNOTATION_LEAST, 0)),
        )

    def _change(self, action: Change) -> None:
        """As the server does it, which knows nothing but what is written."""
        body = encode_change(action)
        match action:
            case SetReplicas(number=number):
                assert action.resource_version == self.job.resource_version
                self.edit(replicas=number)
                extra = body["metadata"].get("annotations", {})
                self.job = replace(self.job, annotations={**self.job.annotations, **extra})
            case AcceptScaling() | AnswerScaling():
                self._change_scaling(action, body)
            case SetRights():
                self._grant(decode_role_names(body, self.job.uid))
            case SetAccounts():
                self.bound = decode_accounts(body)
            case WriteConfig(ref=ref):
                self._write_config(ref.name, action.resource_version, body)
            case WriteStatus():
                raise TypeError("a plan's status is no action of it")

    def _write_config(self, name: str, resource_version: str, body: Json) -> None:
        child = self.children[name]
        assert resource_version == child.resource_version
        new = decode_config(body["data"][CONFIG_KEY])
        assert self.config is None or new.generation > self.config.generation
        assert self.config is None or new.epoch >= self.config.epoch
        self._list(new)
        self.children[name] = replace(child, resource_version=self._next())

    def _change_scaling(self, action: AcceptScaling | AnswerScaling, body: Json) -> None:
        scaling = self.scalings[action.uid]
        assert action.resource_version == scaling.resource_version
        if isinstance(action, AnswerScaling):
            stored = {k: v for k, v in body["status"].items() if v is not None}
            status, problems = decode_status(ScalingStatus, stored)
            assert not problems
            scaling = replace(scaling, status=status)
        else:
            scaling = replace(scaling, is_owned=find_controller(body["metadata"]) is not None)
        self.scalings[action.uid] = replace(scaling, resource_version=self._next())

    def _delete(self, action: Delete) -> None:
        if action.ref.resource == TRAINING_JOBS:
            self.job_is_gone = True
        elif action.ref.resource == PODS:
            pod = self.pods[action.ref.name]
            assert (pod.uid, pod.resource_version) == (action.uid, action.resource_version)
            if pod.phase == "Running":
                self.delete(pod.name)
            else:
                del self.pods[pod.name]
        else:
            del self.scalings[action.uid]

    def _read_report(self) -> BrokerReport | None:
        report = self.report
        epoch = self.status.epoch or (report.epoch if report else 0)  # as decode_job_report
        return report if report is not None and report.epoch == epoch else None

    def _next(self) -> str:
        self._version += 1
        return str(self._version)

    def _note(self, what: str) -> None:
        self.writes += 1
        self.log.append(what)
        self.on_write(what)

    # ------------------------------------------------------------ what must always hold
    def _check(self, snapshot: Snapshot, result: Plan) -> None:
        for action in result.actions:
            if isinstance(action, Create) and action.resource == PODS:
                self._check_creation(snapshot, action)
            if isinstance(action, Delete) and action.ref.resource == PODS:
                self._check_deletion(snapshot, action)
        if result.status is not None:
            old, new = snapshot.job.status, result.status
            assert new.generation >= old.generation
            assert new.epoch >= old.epoch
            is_at_the_end = old.last_worker_index > MAX_INDEX - MAX_WORKERS
            assert new.last_worker_index >= old.last_worker_index or is_at_the_end

    def _check_creation(self, snapshot: Snapshot, action: Create) -> None:
        name = action.manifest["metadata"]["name"]
        assert not snapshot.job.deletion_requested
        assert name not in {m.name for m in (self.config.members if self.config else ())}
        if re.search(r"worker-\d+$", name):
            assert any(r.name == name and not r.uid for r in snapshot.job.status.workers)

    def _check_deletion(self, snapshot: Snapshot, action: Delete) -> None:
        pod = self.pods[action.ref.name]
        status, spec = snapshot.job.status, snapshot.job.spec
        is_over = any(
            c.status == "True" and c.type in {"Succeeded", "Failed", "Suspended"}
            for c in status.conditions
        )
        if pod.role is not Role.WORKER or pod.is_terminal or is_over or spec is None:
            return
        records = [r for r in status.workers if r.uid == pod.uid]
        states = {WorkerState.LEAVING} | ({WorkerState.GONE} if pod.has_ended else set())
        assert [r for r in records if r.state in states], f"{pod.name} is not leaving"


def describe(action: Action) -> str:
    """`create Pod job-worker-0`."""
    match action:
        case Create(resource=resource, manifest=manifest):
            metadata = manifest["metadata"]
            return f"create {resource.kind} {metadata.get('name') or metadata['generateName']}"
        case DryRun(role=role):
            return f"try {role.value}"
        case CreateKeys(manifest=manifest):
            return f"create Secret {manifest['metadata']['generateName']}"
        case Delete(ref=ref):
            return f"delete {ref.resource.kind} {ref.name}"
        case _:
            place = f"{action.ref.resource.kind} {action.ref.name}"
            return f"patch {place} {find_subresource(action)}".strip()
