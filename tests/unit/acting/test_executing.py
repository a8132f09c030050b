from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from et_kube.errors import (
    AlreadyExists,
    Conflict,
    KubeError,
    NotFound,
    NotLeader,
    OutcomeUnknown,
    Refused,
    ServerFailed,
    Throttled,
    Unreachable,
)
from et_kube.events import Event
from et_kube.resources import (
    CONFIG_MAPS,
    NETWORK_POLICIES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SCALE_INS,
    SERVICE_ACCOUNTS,
    TRAINING_JOBS,
    Json,
    Ref,
    Resource,
)
from et_kube.tables import Entry, identify
from et_operator.acting.executing import Executor
from et_operator.acting.outcomes import Execution, KeysMade, Written
from et_operator.codec.encoding import encode_status_patch
from et_operator.model.actions import (
    AcceptScaling,
    Action,
    AnswerScaling,
    Create,
    CreateKeys,
    Delete,
    SetAccounts,
    WriteStatus,
)
from et_operator.model.jobs import TrainingJob
from et_operator.model.keys import JobKey, Owner
from et_operator.model.plans import Plan
from et_operator.model.scalings import ScalingStatus
from et_operator.model.statuses import JobStatus
from et_operator.state.ingesting import Ingest
from et_operator.state.store import Store
from tests.counting import find_peak
from tests.makers import make_scale_in

JOB = TrainingJob(
    key=JobKey("team", "job"),
    uid="job-uid",
    resource_version="7",
    generation=1,
    created=datetime(2026, 1, 1, tzinfo=UTC),
    spec=None,
)
BINDING = Ref(ROLE_BINDINGS, "team", "job-launcher-x")
EVENT = Event(Ref(TRAINING_JOBS, "team", "job"), "job-uid", "Created", "words")


def make_creation(name: str, resource: Resource = PODS) -> Create:
    return Create(resource, {"metadata": {"name": name, "namespace": "team"}})


class Server:
    """Remembers requests; answers with what was sent, or with the error that a test planted."""

    def __init__(self) -> None:
        self.requests: list[tuple[Any, ...]] = []
        self.bodies: list[Json] = []
        """Of creations."""
        self.errors: dict[str, KubeError] = {}
        self.in_flight = self.most_in_flight = 0
        self.seconds = self.seconds_each = 0.0
        """How long the requests of this server have taken, one after the other."""

    async def create(self, resource: Resource, namespace: str | None, manifest: Json) -> Json:
        name = manifest["metadata"]["name"]
        self.bodies.append(manifest)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        await asyncio.sleep(0)
        self.in_flight -= 1
        return self._answer(name, ("create", name, namespace), manifest)

    async def patch(self, ref: Ref, body: Json, *, subresource: str = "") -> Json:
        return self._answer(ref.name, ("patch", ref.name, subresource, body), body)

    async def delete(
        self, ref: Ref, *, uid: str, resource_version: str | None, grace_seconds: int | None
    ) -> None:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        await asyncio.sleep(0)
        self.in_flight -= 1
        self._answer(ref.name, ("delete", ref.name, uid, resource_version, grace_seconds), {})

    def _answer(self, name: str, request: tuple[Any, ...], content: Json) -> Json:
        self.requests.append(request)
        self.seconds += self.seconds_each
        if name in self.errors:
            raise self.errors[name]
        return content

    @property
    def names(self) -> list[str]:
        return [request[1] for request in self.requests]


def keep_whole(_: Resource, obj: Json) -> Entry[Any]:
    return Entry(*identify(obj), 0, obj)


class Events(list[Event]):
    def record(self, event: Event) -> None:
        self.append(event)


async def execute(
    server: Server,
    *actions: Action,
    status: JobStatus | None = None,
    events: Events | None = None,
    told: tuple[Event, ...] = (EVENT,),
    requests_at_once: int = 4,
    keep: Callable[[Resource, Json], Entry[Any]] = keep_whole,
) -> Execution:
    sink = Events() if events is None else events
    executor = Executor(
        server,  # type: ignore[arg-type]
        sink,
        keep=keep,
        make_keys=lambda: {"id": "a new key"},
        requests_at_once=requests_at_once,
        now=lambda: server.seconds,
    )
    return await executor.execute(Plan(status, actions, told), JOB)


async def test_the_status_is_written_first_and_only_to_what_was_planned_from():
    server = Server()
    result = await execute(server, make_creation("p"), status=JobStatus(epoch=2))
    pin = {"uid": "job-uid", "resourceVersion": "7"}
    body = {**encode_status_patch(JobStatus(epoch=2)), "metadata": pin}
    assert server.requests[0] == ("patch", "job", "status", body)
    assert server.names == ["job", "p"]
    assert result.written[0] == Written(TRAINING_JOBS, keep_whole(TRAINING_JOBS, body))


async def test_a_decision_that_the_server_does_not_keep_is_a_refusal_and_nothing_follows_from_it():
    class Older(Server):
        """Its CRD knows nothing of epochs."""

        async def patch(self, ref: Ref, body: Json, *, subresource: str = "") -> Json:
            await super().patch(ref, body, subresource=subresource)
            kept = {key: value for key, value in body["status"].items() if key != "epoch"}
            return {"metadata": {"name": "job"}, "status": kept}

    server, events = Older(), Events()
    result = await execute(server, make_creation("p"), status=JobStatus(epoch=2), events=events)
    assert server.names == ["job"]
    assert [type(failure.action) for failure in result.refusals] == [WriteStatus]
    assert [written.resource for written in result.written] == [TRAINING_JOBS]
    [event] = events
    assert event.reason == "WritesRefused"
    assert "it does not keep status.epoch: the CRDs in this cluster" in event.message


async def test_a_status_that_is_the_same_is_not_written():
    server = Server()
    await execute(server, status=JOB.status)
    assert server.requests == []


async def test_nothing_is_done_when_the_decision_could_not_be_recorded():
    server = Server()
    server.errors["job"] = Conflict(409, "Conflict", "modified")
    result = await execute(server, make_creation("p"), status=JobStatus(epoch=2))
    assert server.names == ["job"]
    assert [type(failure.action) for failure in result.conflicts] == [WriteStatus]


async def test_actions_run_in_their_order_and_pods_side_by_side():
    server = Server()
    actions = [
        make_creation("config", CONFIG_MAPS),
        *(make_creation(f"p{n}") for n in range(9)),
        SetAccounts(BINDING, "u", "3", frozenset({"me"})),
        Delete(Ref(PODS, "team", "old"), "u", "5", 0),
    ]
    result = await execute(server, *actions)
    assert server.names[0] == "config"
    assert set(server.names[1:10]) == {f"p{n}" for n in range(9)}
    assert server.requests[10:] == [
        (
            "patch",
            "job-launcher-x",
            "",
            {
                "subjects": [{"kind": "ServiceAccount", "namespace": "team", "name": "me"}],
                "metadata": {"uid": "u", "resourceVersion": "3"},
            },
        ),
        ("delete", "old", "u", "5", 0),
    ]
    assert server.most_in_flight == 4
    assert result.is_complete
    names = [written.ref.name for written in result.written[:-1]]
    assert names == ["config", *(f"p{n}" for n in range(9))]
    assert result.written[-1].resource == ROLE_BINDINGS
    assert result.deleted == (actions[-1],)


async def test_what_pods_need_is_created_side_by_side_and_before_them():
    server = Server()
    kinds = [SERVICE_ACCOUNTS, NETWORK_POLICIES, CONFIG_MAPS, CONFIG_MAPS]
    needed = [make_creation(f"needed-{n}", kind) for n, kind in enumerate(kinds)]
    result = await execute(server, *needed, make_creation("p"), make_creation("role", ROLES))
    assert server.most_in_flight == 4
    assert server.names[-2:] == ["p", "role"]
    assert result.is_complete


async def test_no_pod_is_created_before_all_that_it_needs():
    server = Server()
    server.errors["needed-0"] = Refused(403, "Forbidden", "exceeded quota")
    needed = [make_creation(f"needed-{n}", CONFIG_MAPS) for n in range(2)]
    result = await execute(server, *needed, make_creation("p"))
    assert "p" not in server.names
    assert [failure.action for failure in result.refusals] == needed[:1]


@pytest.mark.long
def test_what_was_stored_is_not_held_whole_until_all_is_done():
    """Anybody may have written a megabyte into each of the scalings that name a job."""

    class Full(Server):
        async def patch(self, ref: Ref, body: Json, *, subresource: str = "") -> Json:
            await super().patch(ref, body, subresource=subresource)
            notes = {f"{number}": "" for number in range(1_000)}
            told = {"uid": f"{ref.name}-uid", "resourceVersion": "4", "namespace": "team"}
            scaling = make_scale_in(ref.name)
            metadata = {**scaling["metadata"], **told, "annotations": notes}
            return {**scaling, "metadata": metadata}

    def find_peak_of(count: int) -> int:
        refs = [Ref(SCALE_INS, "team", f"in-{number}") for number in range(count)]
        actions = [AcceptScaling(r, f"{r.name}-uid", "3", (), Owner("job", "u")) for r in refs]
        keep = Ingest(Store()).read
        return find_peak(lambda: asyncio.run(execute(Full(), *actions, keep=keep)))

    assert find_peak_of(64) < 2 * find_peak_of(8)


async def test_that_an_object_is_gone_already_is_no_failure():
    server = Server()
    server.errors["old"] = NotFound(404, "NotFound", "gone")
    delete = Delete(Ref(PODS, "team", "old"), "u")
    result = await execute(server, delete)
    assert (result.missing, result.deleted, result.is_complete) == ((delete,), (), True)


def make_deletions(count: int) -> list[Delete]:
    return [Delete(Ref(PODS, "team", f"p{n}"), f"u{n}", "5") for n in range(count)]


async def test_pods_are_deleted_side_by_side_and_no_more_than_allowed_at_once():
    server = Server()
    deletions = make_deletions(1000)
    result = await execute(server, *deletions)
    assert sorted(server.names) == sorted(d.ref.name for d in deletions)
    assert server.most_in_flight == 4
    assert result.is_complete


@pytest.mark.parametrize("error", [None, ServerFailed(500, "", "failed calling webhook")])
async def test_a_slow_server_does_not_keep_a_pass_for_longer_than_its_time(
    error: KubeError | None,
):
    """What is left over is begun by the next pass, which sees what has happened meanwhile."""
    server = Server()
    server.seconds_each = 3.0
    answers = [make_answer(f"in-{n}") for n in range(64)]
    if error is not None:
        server.errors = {f"in-{n}": error for n in range(64)} | {f"p{n}": error for n in range(64)}
    result = await execute(server, *answers)
    assert (len(server.requests), result.is_cut) == (4, True)
    server.seconds = 0.0
    server.requests.clear()
    result = await execute(server, *make_deletions(64), make_creation("new"), *answers)
    assert len(server.requests) <= 4 + 3 + 1  # those under way are waited for
    assert server.names[-1] == "new"  # what does not stand alone is not kept waiting
    assert result.is_cut


async def test_nothing_is_granted_on_pods_that_a_pass_had_no_time_to_create():
    server = Server()
    server.seconds_each = 3.0
    pods = [make_creation(f"new-{n}") for n in range(64)]
    result = await execute(server, *pods, make_creation("role", ROLES))
    assert "role" not in server.names
    assert (len(result.written) < 64, result.is_cut) == (True, True)


async def test_a_pass_that_took_long_and_did_all_is_not_cut_short():
    server = Server()
    server.seconds_each = 6.0
    result = await execute(server, *make_deletions(2))
    assert (len(result.deleted), result.is_cut) == (2, False)


async def test_a_pod_that_has_changed_does_not_hold_up_the_deletion_of_the_others():
    server = Server()
    server.errors["p1"] = Conflict(409, "Conflict", "modified")
    result = await execute(server, *make_deletions(20), make_creation("after"))
    assert len(result.deleted) == 19
    assert [f.action for f in result.conflicts] == make_deletions(2)[1:]
    assert "after" not in server.names


async def test_a_server_that_is_overloaded_is_asked_for_no_further_deletion():
    server = Server()
    server.errors["p1"] = Throttled(429, "", "", timedelta(seconds=1))
    await execute(server, *make_deletions(100))
    assert len(server.requests) <= 2 * 4


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (AlreadyExists(409, "AlreadyExists", ""), "conflicts"),
        (Conflict(409, "Conflict", ""), "conflicts"),
        (NotFound(404, "NotFound", ""), "conflicts"),
        (Refused(403, "Forbidden", "exceeded quota"), "refusals"),
        (OutcomeUnknown("cut"), "unknowns"),
        (ServerFailed(500, "", "etcd"), "unknowns"),
    ],
    ids=str,
)
async def test_a_failure_is_told_as_what_it_means(error: KubeError, kind: str):
    server = Server()
    server.errors["job-launcher-x"] = error
    change = SetAccounts(BINDING, "u", "3", frozenset())
    result = await execute(server, change, make_creation("after"))
    assert [failure.action for failure in getattr(result, kind)] == [change]
    all_kinds = (result.conflicts, result.refusals, result.unknowns)
    assert sum(map(len, all_kinds)) == 1
    assert server.names == ["job-launcher-x"]


async def test_a_quota_that_is_used_up_ends_the_creations():
    server = Server()
    refusal = Refused(403, "Forbidden", "exceeded quota")
    server.errors = {f"p{n}": refusal for n in range(3, 100)}
    result = await execute(server, *(make_creation(f"p{n}") for n in range(100)))
    assert len(result.written) == 3
    assert len(server.requests) <= 3 + 4 + 1
    assert {failure.error for failure in result.refusals} == {refusal}


async def test_the_longest_wait_that_was_asked_for_is_kept():
    server = Server()
    for name, seconds in (("p0", 3), ("p1", 8)):
        server.errors[name] = Throttled(429, "", "", timedelta(seconds=seconds))
    result = await execute(server, make_creation("p0"), make_creation("p1"))
    assert result.retry_after == timedelta(seconds=8)


SCALING = Ref(SCALE_INS, "team", "in")


def make_answer(name: str = "in") -> AnswerScaling:
    return AnswerScaling(Ref(SCALE_INS, "team", name), f"{name}-uid", "3", ScalingStatus())


def make_deletion(name: str) -> Delete:
    return Delete(Ref(PODS, "team", name), f"{name}-uid")


async def test_a_report_is_made_when_what_it_is_about_was_written_and_not_before():
    server, told = Server(), Events()
    about_scaling = replace(EVENT, ref=SCALING)
    actions = (make_creation("p"), make_answer())
    events = (EVENT, about_scaling)
    await execute(server, *actions, told=events, events=told)
    assert told == [EVENT, about_scaling]

    told.clear()
    server.errors["p"] = Unreachable("no connection")  # nothing after it is done
    await execute(server, *actions, told=events, events=told)
    assert told == [EVENT]

    told.clear()
    server.errors["p"] = Refused(403, "Forbidden", "exceeded quota")  # but for what stands alone
    await execute(server, *actions, told=events, events=told)
    assert told == [EVENT, about_scaling]

    told.clear()
    server.errors = {"in": Refused(403, "Forbidden", "denied")}
    await execute(server, *actions, told=events, events=told)
    assert told == [EVENT]

    told.clear()
    server.errors = {"job": NotLeader("lost")}
    result = await execute(server, *actions, status=JobStatus(epoch=2), told=events, events=told)
    assert told == []
    assert not result.is_complete


@pytest.mark.parametrize(
    ("error", "goes_on"),
    [
        (Refused(403, "Forbidden", "policy"), True),
        (ServerFailed(500, "InternalError", "failed calling webhook"), True),
        (Throttled(429, "", "later"), False),
        (Conflict(409, "Conflict", "modified"), False),
        (OutcomeUnknown("no answer"), False),
        (NotLeader("lost"), False),
    ],
)
async def test_an_object_that_must_not_be_touched_stops_nothing_but_itself(
    error: KubeError, goes_on: bool
):
    for first in (make_deletion("p0"), make_answer("in")):
        server = Server()
        server.errors[first.ref.name] = error
        result = await execute(server, first, make_creation("p1"), requests_at_once=1)
        assert ("p1" in server.names) is goes_on
        assert len(result.failures) == 1


@pytest.mark.parametrize(
    ("error", "goes_on"),
    [
        (Refused(403, "Forbidden", "policy"), True),
        (ServerFailed(500, "InternalError", "failed calling webhook"), True),
        (Throttled(429, "", "later"), False),
        (Conflict(409, "Conflict", "modified"), False),
        (OutcomeUnknown("no answer"), False),
    ],
)
async def test_what_stands_alone_is_done_though_something_before_it_is_refused(
    error: KubeError, goes_on: bool
):
    server = Server()
    server.errors["p0"] = error
    actions = (make_creation("p0"), make_answer("in"), make_creation("p1"), make_deletion("p2"))
    await execute(server, *actions, requests_at_once=1)
    assert server.names == ["p0", *(("in", "p2") if goes_on else ())]

    server = Server()
    server.errors["job"] = error  # the status, on which all of it rests
    await execute(server, *actions, status=JobStatus(epoch=2))
    assert server.names == ["job"]


async def test_a_pod_that_must_not_be_deleted_does_not_keep_the_others():
    server = Server()
    server.errors["p0"] = Refused(403, "Forbidden", "policy")
    result = await execute(server, *map(make_deletion, ("p0", "p1", "p2")), requests_at_once=1)
    assert server.names == ["p0", "p1", "p2"]
    assert len(result.deleted) == 2


KEYS = CreateKeys({"metadata": {"name": "job-ssh-x7f2q", "namespace": "team"}})


async def test_keys_are_made_up_on_their_way_and_their_name_alone_comes_back():
    server = Server()
    result = await execute(server, KEYS)
    assert server.requests == [("create", "job-ssh-x7f2q", "team")]
    assert server.bodies == [{**KEYS.manifest, "stringData": {"id": "a new key"}}]
    assert result.keys == (KeysMade("job-ssh-x7f2q"),)
    assert (result.written, result.is_complete) == ((), True)


async def test_keys_that_somebody_else_has_put_there_are_no_success():
    server = Server()
    server.errors["job-ssh-x7f2q"] = AlreadyExists(409, "AlreadyExists", "")
    result = await execute(server, KEYS, make_creation("p"))
    assert (result.keys, server.names) == ((), ["job-ssh-x7f2q"])
    assert [failure.action for failure in result.conflicts] == [KEYS]


async def test_no_pod_is_created_without_the_keys_that_it_mounts():
    server = Server()
    server.errors["job-ssh-x7f2q"] = Refused(403, "Forbidden", "cannot create secrets")
    result = await execute(server, KEYS, make_creation("p"))
    assert [failure.action for failure in result.refusals] == [KEYS]
    assert server.names == ["job-ssh-x7f2q"]
