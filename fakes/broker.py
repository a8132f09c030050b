"""The launcher's broker as the operator sees it: it reads `<job>-config`, it writes `<job>-report`.

One fact a step, and each report in a step of its own, so that a simulation can put anything in
between. Horovod is assumed to behave: it reads the list that is served, and processes on hosts that
leave it end. Nothing of `launcher` is imported, and the operator is told by documents alone.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from uuid import UUID

from et_contract.documents import (
    AHEAD,
    HostConfig,
    Member,
    MemberState,
    Report,
    ScriptResult,
    SessionExit,
    decode_config,
    encode_report,
)
from et_contract.names import (
    CONFIG_KEY,
    ENV_EPOCH,
    build_config_name,
    build_report_key,
    build_report_name,
)
from et_contract.pods import LABEL_JOB, LABEL_ROLE
from et_kube.errors import NotFound
from et_kube.resources import CONFIG_MAPS, PODS, Json, Ref
from fakes.cluster import FakeCluster

ABORTED = 134
TERMINATED = 143
SAVED = 0
FAILED = 1
ENDS_ON_SIGTERM = (SAVED, TERMINATED, FAILED)
"""A command may save its state, not care, or fail for what is going on around it."""


@dataclass
class _Session:
    """What one broker knows."""

    namespace: str
    job: str
    launcher: str
    report: Report
    config: HostConfig | None = None
    has_started: bool = False
    was_fenced: bool = False
    is_dirty: bool = True
    hosts: dict[str, Member] = field(default_factory=dict)
    left: set[str] = field(default_factory=set)
    """Uids that were taken off the list, or are known to be gone: they never come back."""
    known: set[str] = field(default_factory=set)
    """Uids that a config has named."""
    gone: set[str] = field(default_factory=set)
    """Uids that one config has named, and a later one has not."""
    names: dict[str, str] = field(default_factory=dict)
    """Uids by the names under which the user's command has seen them."""


class FakeBroker:
    """The brokers of every launcher in a cluster.

    Args:
        cluster: where config and report are.

    `paused` are jobs whose broker does nothing; `busy` names of workers whose processes do not end
    while they drain; `impatient` jobs whose command starts with the minimum of hosts;
    `script_codes` the exit codes of scaling scripts by order id, 0 where it says nothing.
    """

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster
        self._sessions: dict[str, _Session] = {}
        self.paused: set[str] = set()
        self.busy: set[str] = set()
        self.impatient: set[str] = set()
        self.script_codes: dict[str, int | None] = {}
        self.scripts_run: list[tuple[str, str]] = []
        self.fences: dict[str, tuple[int, str]] = {}
        """Epoch and uid of the launcher that the agent in the pod with this uid obeys."""
        self.done: set[str] = set()
        """Jobs whose command has ended with 0 of its own accord."""
        self.reused: list[str] = []
        """Names that a user's command has seen mean a second pod."""

    def step(self) -> bool:
        """One thing in each broker that can; whether anything happened."""
        launchers = [p for p in self._cluster.scan(PODS) if _is_launcher(p) and _is_running(p)]
        done = [self._advance(self._open(pod)) for pod in launchers]
        return any(done)

    def finish(self, job: str, code: int) -> None:
        """The user's command of the running launcher ends; its report says so at the next step."""
        if code == 0:
            self.done.add(job)
        for session in self._sessions.values():
            if session.job == job and not session.was_fenced and session.report.ended is None:
                self._learn(session, ended=code, is_told_to_end=False)

    def use_up(self, job: str, name: str) -> None:
        """A process fails on this host, and the command goes on and never uses it again."""
        for session in self._sessions.values():
            is_over = session.was_fenced or session.report.ended is not None
            if session.job != job or is_over or not session.has_started:
                continue
            used_up = {uid: FAILED for uid, m in session.hosts.items() if m.name == name}
            if used_up:
                self._learn(session, used_up={**session.report.used_up, **used_up})

    def terminate(self, launcher_uid: str) -> int:
        """The container of this launcher gets SIGTERM, and ends; returns its exit code."""
        session = self._sessions.get(launcher_uid)
        if session is None or not session.has_started:
            return TERMINATED
        if session.report.ended is None:
            code = ENDS_ON_SIGTERM[UUID(launcher_uid).int % len(ENDS_ON_SIGTERM)]
            self._learn(session, ended=code, is_told_to_end=True)
        return session.report.ended or 0

    def is_flushing(self, launcher_uid: str) -> bool:
        """Whether this broker has something to report yet: it does so before it ends."""
        session = self._sessions.get(launcher_uid)
        if session is None or session.was_fenced or session.job in self.paused:
            return False
        report = Ref(CONFIG_MAPS, session.namespace, build_report_name(session.job))
        return session.is_dirty and self._cluster.find(report) is not None

    def outlive(self, alive: Collection[str]) -> None:
        """Etcd was restored: the brokers and agents in these pods live on, the others are gone."""
        self._sessions = {uid: s for uid, s in self._sessions.items() if uid in alive}
        for session in self._sessions.values():
            session.is_dirty = True  # what it wrote may be gone: it writes again now and then
        self.fences = {uid: fence for uid, fence in self.fences.items() if uid in alive}

    def find_hosts(self, job: str) -> list[str]:
        """The list that the newest broker of this job serves."""
        found = [s for s in self._sessions.values() if s.job == job and not s.was_fenced]
        return sorted(m.name for m in found[-1].hosts.values()) if found else []

    def has_started(self, job: str) -> bool:
        """Whether the user's command runs, or ran."""
        found = [s for s in self._sessions.values() if s.job == job and not s.was_fenced]
        return bool(found) and found[-1].has_started

    def _open(self, pod: Json) -> _Session:
        metadata = pod["metadata"]
        if metadata["uid"] not in self._sessions:
            epoch = int(_read_environment(pod, ENV_EPOCH))
            self._sessions[metadata["uid"]] = _Session(
                namespace=metadata["namespace"],
                job=metadata["labels"][LABEL_JOB],
                launcher=metadata["name"],
                report=Report(epoch=epoch, launcher_uid=metadata["uid"], broker_start=1),
            )
        return self._sessions[metadata["uid"]]

    def _advance(self, session: _Session) -> bool:
        if session.job in self.paused or session.was_fenced:
            return False
        if session.is_dirty:
            return self._write(session)
        if self._read(session):
            return True
        if session.config is None or session.report.ended is not None:
            return False
        return self._learn_something(session, session.config) or session.is_dirty

    def _read(self, session: _Session) -> bool:
        ref = Ref(CONFIG_MAPS, session.namespace, build_config_name(session.job))
        document = self._cluster.find(ref)
        if document is None or CONFIG_KEY not in document.get("data", {}):
            return False
        config = decode_config(document["data"][CONFIG_KEY])
        if config.epoch > session.report.epoch:
            session.was_fenced = True
            return True
        known = session.config.generation if session.config else -1
        is_old = config.epoch < session.report.epoch or config.generation < known
        is_far = known > 0 and config.generation - known > 2 * AHEAD
        if is_old or is_far or config == session.config:
            return False
        session.config = config
        self._refuse_spent(session, config)
        active = {m.uid for m in config.members if m.state is MemberState.ACTIVE}
        unlisted = frozenset(active & session.left)
        self._learn(session, observed_generation=config.generation, unlisted=unlisted)
        return True

    def _refuse_spent(self, session: _Session, config: HostConfig) -> None:
        """Pods that it takes for gone, or whose name has meant another one: see hosts.py."""
        active = [m for m in config.members if m.state is MemberState.ACTIVE]
        spent = {m.uid for m in active if session.names.get(m.name, m.uid) != m.uid}
        session.left.update(spent)
        gone = {m.uid for m in active if m.uid in session.gone}
        if spent | gone:
            self._learn(session, closed=session.report.closed | spent | gone)
        named = {m.uid for m in config.members if m.state is not MemberState.GONE}
        session.gone.update(session.known - named)
        session.known.update(named)

    def _learn_something(self, session: _Session, config: HostConfig) -> bool:
        return (
            self._drop_hosts(session, config)
            or self._list_host(session, config)
            or self._hold_host(session, config)
            or self._start(session, config)
            or self._serve(session, config)
            or self._close_host(session, config)
            or self._run_script(session, config)
        )

    def _drop_hosts(self, session: _Session, config: HostConfig) -> bool:
        active = {
            m.uid
            for m in config.members
            if m.state is MemberState.ACTIVE and not self._is_leaving(session, m)
        }
        leaving = [uid for uid in session.hosts if uid not in active]
        session.left.update(leaving)
        for uid in leaving:
            del session.hosts[uid]
        return bool(leaving)

    def _list_host(self, session: _Session, config: HostConfig) -> bool:
        for member in config.members:
            is_known = member.uid in session.hosts or member.uid in session.left
            is_new = member.state is MemberState.ACTIVE and not is_known
            is_wanted = is_new and not self._is_leaving(session, member)
            if is_wanted and self._answers(session, member):
                self._welcome(session, member)
                return True
        return False

    def _hold_host(self, session: _Session, config: HostConfig) -> bool:
        """Whose agents have answered of those that are held; all of them are told at once."""
        held = (m for m in config.members if m.state is MemberState.HELD)
        here = [m for m in held if m.uid not in session.left and self._answers(session, m)]
        ready = frozenset(m.uid for m in here if self._is_obeyed(session, m))
        if ready == session.report.ready:
            return False
        self._learn(session, ready=ready)
        return True

    def _welcome(self, session: _Session, member: Member) -> None:
        """The member's agent has answered: it is listed, or refuses us for good."""
        report = session.report
        if not self._is_obeyed(session, member):
            session.left.add(member.uid)
            self._learn(session, unlisted=report.unlisted | {member.uid})
            return
        session.hosts[member.uid] = member
        if session.names.setdefault(member.name, member.uid) != member.uid:
            self.reused.append(member.name)
        self._learn(session, listed=report.listed | {member.uid})

    def _start(self, session: _Session, config: HostConfig) -> bool:
        wanted = config.min_replicas if session.job in self.impatient else config.replicas
        if session.has_started or len(session.hosts) < wanted:
            return False
        session.has_started = True
        return True

    def _serve(self, session: _Session, config: HostConfig) -> bool:
        if not session.has_started or session.report.served_generation >= config.generation:
            return False
        self._learn(session, served_generation=config.generation)
        return True

    def _close_host(self, session: _Session, config: HostConfig) -> bool:
        report = session.report
        for member in config.members:
            is_over = member.state is MemberState.DRAINING or member.uid in session.left
            if not is_over or member.state is MemberState.GONE or member.uid in report.closed:
                continue
            was_served = session.has_started and member.uid in report.listed
            if was_served and report.served_generation < config.generation:
                continue
            is_unknown = member.uid not in report.listed  # nobody can have started anything there
            is_obeyed = self._is_obeyed(session, member)
            if is_unknown if not is_obeyed else member.name not in self.busy:
                end = (SessionExit("0" * 32, ABORTED),) if was_served else ()
                exits = dict(report.exits) | ({member.uid: end} if end else {})
                self._learn(session, closed=report.closed | {member.uid}, exits=exits)
                return True
        return False

    def _run_script(self, session: _Session, config: HostConfig) -> bool:
        for order in config.scripts:
            if session.has_started and order.id not in session.report.scripts:
                result = ScriptResult(self.script_codes.get(order.id, 0), "")
                self.scripts_run.append((order.id, order.hosts))
                scripts = {**session.report.scripts, order.id: result}
                self._learn(session, scripts=scripts)
                return True
        return False

    def _learn(self, session: _Session, **facts: object) -> None:
        session.report = replace(session.report, **facts)  # type: ignore[arg-type]
        session.is_dirty = True

    def _write(self, session: _Session) -> bool:
        ref = Ref(CONFIG_MAPS, session.namespace, build_report_name(session.job))
        key = build_report_key(session.report.epoch)
        try:
            self._cluster.patch(ref, {"data": {key: encode_report(session.report)}})
        except NotFound:
            return False
        session.is_dirty = False
        return True

    def _answers(self, session: _Session, member: Member) -> bool:
        """Whether there is an agent behind this very uid."""
        pod = self._cluster.find(Ref(PODS, session.namespace, member.name))
        if pod is None or pod["metadata"]["uid"] != member.uid or not _is_running(pod):
            return False
        return "running" in pod["status"]["containerStatuses"][0]["state"]

    def _is_obeyed(self, session: _Session, member: Member) -> bool:
        """Whether the agent of this pod takes its orders from this launcher, as fences.py says."""
        known = self.fences.get(member.uid, (0, ""))
        own = (session.report.epoch, session.report.launcher_uid)
        if own[0] < known[0] or (own[0] == known[0] and own[1] != known[1]):
            return False
        self.fences[member.uid] = own
        return True

    def _is_leaving(self, session: _Session, member: Member) -> bool:
        pod = self._cluster.find(Ref(PODS, session.namespace, member.name))
        return pod is not None and "deletionTimestamp" in pod["metadata"]


def _is_launcher(pod: Json) -> bool:
    """Whether the pod says that it is one, and a broker of ours could run in it."""
    labels = pod["metadata"].get("labels") or {}
    is_said = labels.get(LABEL_ROLE) == "launcher" and LABEL_JOB in labels
    return is_said and _read_environment(pod, ENV_EPOCH).isdecimal()


def _is_running(pod: Json) -> bool:
    return bool(pod["status"]["phase"] == "Running")


def _read_environment(pod: Json, name: str) -> str:
    for container in pod["spec"]["containers"]:
        for entry in container.get("env", ()):
            if entry["name"] == name:
                return str(entry.get("value") or "")
    return ""
