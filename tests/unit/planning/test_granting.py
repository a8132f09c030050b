"""Rights are by name: on what is there and the job's own, and no longer than that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from et_contract.pods import Role
from et_kube.resources import CONFIG_MAPS, PODS, ROLES, Resource
from et_operator.model.actions import Create
from et_operator.model.pods import Termination
from et_operator.model.snapshots import Refusal
from et_operator.model.specs import AttachMode
from et_operator.model.statuses import ScalingKind
from tests.planning_makers import ModelWorld, make_job, make_scaling

OWN = frozenset({"job-config", "job-report"})


def name_workers(*indices: int) -> frozenset[str]:
    return OWN | {"-job-worker", *(f"job-worker-{index}" for index in indices)}


def count_role_writes(world: ModelWorld) -> int:
    return sum(" Role " in line for line in world.log)


def test_rights_follow_what_they_are_on_and_cost_a_start_one_write() -> None:
    world = ModelWorld(make_job(3))
    world.step()
    created = [a for a in world.step().actions if isinstance(a, Create)]

    kinds: list[Resource] = [a.resource for a in created]
    assert kinds.index(ROLES) > max(i for i, k in enumerate(kinds) if k in {PODS, CONFIG_MAPS})

    world.start()
    assert world.role_names == name_workers(0, 1, 2)
    assert count_role_writes(world) == 1


@pytest.mark.long
def test_workers_that_come_are_named_in_one_write_before_they_are_listed() -> None:
    world = ModelWorld()
    world.start()
    world.edit(replicas=40)
    world.settle()

    assert world.role_names == name_workers(*range(40))
    assert count_role_writes(world) == 2
    role = max(i for i, line in enumerate(world.log) if " Role " in line)
    assert role < len(world.log)
    world.go_on()  # the world refuses a config that lists a worker without its rights


def test_a_role_of_a_former_version_gets_the_name_by_which_brokers_are_known() -> None:
    world = ModelWorld()
    world.start()
    world.role_names -= {"-job-worker"}
    world.go_on()
    assert world.role_names == name_workers(0, 1)


@pytest.mark.parametrize(("workers", "gone"), [(6, 3), (3, 1)])
def test_names_of_workers_that_have_gone_leave_together(workers: int, gone: int) -> None:
    world = ModelWorld(make_job(workers))
    world.start()
    world.wait(20)
    world.add(make_scaling(ScalingKind.IN, "less", count=gone))
    world.go_on()

    assert world.role_names == name_workers(*range(workers - gone))
    assert count_role_writes(world) == 2


def test_names_of_the_gone_do_not_pile_up_where_somebody_is_always_leaving() -> None:
    world = ModelWorld(make_job(40))
    world.start()
    world.delete("job-worker-39")  # a finalizer keeps it
    for index in range(33):
        del world.pods[f"job-worker-{index}"]
    world.edit(replicas=1)
    world.settle()

    assert world.role_names <= name_workers(*range(33, 80))


def test_a_name_that_somebody_else_holds_gets_no_rights() -> None:
    world = ModelWorld()
    world.step()
    world.taken_names = frozenset({"job-worker-1"})
    world.settle()

    assert world.role_names == name_workers(0, 2)


@pytest.mark.parametrize("name", ["job-config", "job-report"])
def test_rights_go_while_a_document_of_the_job_is_somebody_elses(name: str) -> None:
    world = ModelWorld()
    world.start()
    child = world.children.pop(name)
    config, report, world.taken_names = world.config, world.report, frozenset({name})
    world.config = None if name == "job-config" else config
    world.settle()
    assert world.role_names == frozenset()

    world.children[name], world.config, world.report = child, config, report
    world.taken_names = frozenset()
    world.settle()
    assert world.role_names == name_workers(0, 1)


def test_a_pod_that_somebody_gave_to_the_job_is_not_opened_to_it() -> None:
    world = ModelWorld()
    world.start()
    strange = replace(world.pods["job-worker-0"], name="db-0", uid="strange")
    world.pods["db-0"] = strange
    world.go_on()

    assert "db-0" not in world.role_names


def test_nobody_keeps_rights_of_a_job_that_has_ended() -> None:
    world = ModelWorld()
    world.start()
    world.finish(0)
    world.settle()
    assert world.role_names == frozenset()


def test_a_broker_that_has_yet_to_tell_keeps_its_rights() -> None:
    world = ModelWorld()
    world.start()
    pod = world.launcher
    assert pod is not None
    world.finish(0)
    ended = Termination(0, "Completed", finished=world.now)
    world.put(pod.name, phase="Running", termination=ended)  # the sidecar
    world.settle()
    assert world.phase() == "Succeeded"
    assert world.role_names >= OWN

    world.put(pod.name, phase="Succeeded")
    world.settle()
    assert world.role_names == frozenset()


@pytest.mark.long
def test_a_suspended_job_has_none_until_it_is_resumed() -> None:
    world = ModelWorld()
    world.start()
    world.edit(suspend=True)
    world.go_on()
    assert world.role_names == frozenset()

    world.edit(suspend=False)
    world.go_on()
    assert {p.name for p in world.pods.values() if p.role is Role.WORKER} <= world.role_names


def test_where_ssh_reaches_workers_the_broker_may_execute_nothing() -> None:
    world = ModelWorld(make_job(attach_mode=AttachMode.SSH))
    world.start()
    assert world.role_names == OWN


def test_no_pod_is_created_with_the_account_of_another_jobs_broker() -> None:
    world = ModelWorld()
    world.borrowed = frozenset({"victim-launcher"})
    world.settle()

    assert world.pods == {}
    assert world.role_names == frozenset()
    assert world.condition("AccountRefused") == "True"

    world.borrowed = frozenset()
    world.settle()
    assert len(world.pods) == 3
    assert world.condition("AccountRefused") == "False"


def give_account(world: ModelWorld, name: str) -> None:
    spec = world.job.spec
    assert spec is not None
    template = spec.launcher_template
    world.edit(launcher_template={"spec": {**template["spec"], "serviceAccountName": name}})


@pytest.mark.long
def test_rights_follow_the_account_that_the_launcher_has() -> None:
    world = ModelWorld()
    world.start()
    assert world.bound == {"job-launcher"}
    give_account(world, "cloud")
    world.settle()
    assert world.bound == {"job-launcher", "cloud"}  # this launcher's, and the next one's
    world.edit(suspend=True)
    world.go_on()
    world.edit(suspend=False)
    world.go_on()
    assert world.launcher is not None
    assert world.launcher.account == "cloud"
    assert world.bound == {"cloud"}
    assert sum(" RoleBinding " in line for line in world.log) == 3


def test_an_account_is_given_no_rights_because_of_a_pod_that_is_not_the_launcher() -> None:
    world = ModelWorld()
    world.start()
    assert world.launcher is not None
    forged = replace(world.launcher, name="job-launcher-r7", uid="forged", account="mallory")
    world.pods["job-launcher-r7"] = forged
    world.settle()
    assert world.bound == {"job-launcher"}


def test_a_worker_is_listed_once_its_right_is_there_and_keeps_nobody_waiting() -> None:
    world = ModelWorld(make_job(4))
    world.start()
    world.edit(replicas=5)
    world.settle()
    new = world.workers[-1]
    world.role_names -= {new}
    world.run(new)
    world.refusals = {ROLES: Refusal("policy", 1, world.now, world.job.generation)}
    world.settle()
    assert new not in world.states()
    world.delete("job-worker-0")
    world.settle()
    assert world.states()["job-worker-0"] == "draining"
    world.refusals = {}
    world.wait(2)
    world.settle()
    assert new in world.role_names
    assert world.states()[new] == "active"
