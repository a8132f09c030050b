"""The launcher's broker as the operator sees it: it reads `<job>-config`, it writes `<job>-report`.

One fact a step, and each report in a step of its own, so that a simulation can put anything in
between. Horovod is assumed to behave: it reads the list that is served, and processes on hosts that
leave it end.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from et_operator.errors import NotFound
from et_operator.model.names import LABEL_JOB, LABEL_ROLE, build_config_name, build_report_name
from et_operator.model.resources import CONFIG_MAPS, PODS, Json, Ref
from launcher.contract import CONFIG_KEY, ENV_EPOCH, REPORT_KEY_PREFIX
from launcher.documents import (
    HostConfig,
    Member,
    MemberState,
    Report,
    ScriptResult,
    SessionExit,
    decode_config,
    encode_report,
)
from tests.fakes.cluster import FakeCluster

ABORTED = 134
TERMINATED = 143


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

    def step(self) -> bool:
        """One thing in each broker that can; whether anything happened."""
        launchers = [p for p in self._cluster.scan(PODS) if _is_launcher(p) and _is_running(p)]
        done = [self._advance(self._open(pod)) for pod in launchers]
        return any(done)

    def finish(self, job: str, code: int) -> None:
        """The user's command of the running launcher ends; its report says so at the next step."""
        for session in self._sessions.values():
            if session.job == job and not session.was_fenced and session.report.ended is None:
                self._learn(session, ended=code)

    def is_flushing(self, launcher_uid: str) -> bool:
        """Whether this broker has something to report yet: it does so before it ends."""
        session = self._sessions.get(launcher_uid)
        return session is not None and session.is_dirty and not session.was_fenced

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
        session = self._sessions[metadata["uid"]]
        if "deletionTimestamp" in metadata and session.report.ended is None:
            self._learn(session, ended=TERMINATED)
        return session

    def _advance(self, session: _Session) -> bool:
        if session.job in self.paused or session.was_fenced:
            return False
        if session.is_dirty:
            return self._write(session)
        return self._read(session) or (
            session.config is not None
            and session.report.ended is None
            and self._learn_something(session, session.config)
        )

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
        if config.epoch < session.report.epoch or config.generation <= known:
            return False
        session.config = config
        self._learn(session, observed_generation=config.generation)
        return True

    def _learn_something(self, session: _Session, config: HostConfig) -> bool:
        return (
            self._drop_hosts(session, config)
            or self._list_host(session, config)
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
        for uid in leaving:
            del session.hosts[uid]
        return bool(leaving)

    def _list_host(self, session: _Session, config: HostConfig) -> bool:
        for member in config.members:
            is_new = member.state is MemberState.ACTIVE and member.uid not in session.hosts
            is_wanted = is_new and not self._is_leaving(session, member)
            if is_wanted and self._answers(session, member):
                session.hosts[member.uid] = member
                self._learn(session, listed=session.report.listed | {member.uid})
                return True
        return False

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
            if member.state is not MemberState.DRAINING or member.uid in report.closed:
                continue
            was_served = session.has_started and member.uid in report.listed
            if was_served and report.served_generation < config.generation:
                continue
            if member.name not in self.busy:
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
        key = f"{REPORT_KEY_PREFIX}{session.report.epoch}"
        try:
            self._cluster.patch(ref, {"data": {key: encode_report(session.report)}})
        except NotFound:
            return False
        session.is_dirty = False
        return True

    def _answers(self, session: _Session, member: Member) -> bool:
        """Whether there is an agent behind this very uid."""
        pod = self._cluster.find(Ref(PODS, session.namespace, member.name))
        return pod is not None and pod["metadata"]["uid"] == member.uid and _is_running(pod)

    def _is_leaving(self, session: _Session, member: Member) -> bool:
        pod = self._cluster.find(Ref(PODS, session.namespace, member.name))
        return pod is not None and "deletionTimestamp" in pod["metadata"]


def _is_launcher(pod: Json) -> bool:
    return bool((pod["metadata"].get("labels") or {}).get(LABEL_ROLE) == "launcher")


def _is_running(pod: Json) -> bool:
    return bool(pod["status"]["phase"] == "Running")


def _read_environment(pod: Json, name: str) -> str:
    for container in pod["spec"]["containers"]:
        for entry in container.get("env", ()):
            if entry["name"] == name:
                return str(entry["value"])
    raise KeyError(name)
