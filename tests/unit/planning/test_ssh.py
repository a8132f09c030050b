"""Jobs whose launcher reaches its workers by ssh."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from et_contract import names, paths
from et_kube.resources import SECRETS
from et_operator.model.actions import Create, CreateKeys
from et_operator.model.names import build_seal
from et_operator.model.snapshots import Refusal
from et_operator.model.specs import AttachMode
from et_operator.model.statuses import JobStatus
from tests.planning_makers import KEYS_SECRET, ModelWorld, make_job, make_shipped


def make_world() -> ModelWorld:
    return ModelWorld(make_job(attach_mode=AttachMode.SSH))


def find_created(world: ModelWorld) -> dict[str, Any]:
    """By kind and name, what the first passes create, in that order."""
    created: dict[str, Any] = {}
    for _ in range(5):
        for action in world.step().actions:
            if isinstance(action, Create | CreateKeys):
                metadata = action.manifest["metadata"]
                name = metadata.get("name") or metadata["generateName"]
                created[f"{action.manifest['kind']} {name}"] = action.manifest
    return created


def find_mounts(container: dict[str, Any]) -> set[str]:
    return {mount["name"] for mount in container["volumeMounts"]}


def test_the_keys_are_there_before_the_pods_that_mount_them() -> None:
    created = find_created(make_world())
    names = list(created)
    assert names.index("Secret job-ssh-") < names.index("Pod job-worker-0")
    secret = created["Secret job-ssh-"]
    assert secret["immutable"] is True
    assert secret["metadata"]["ownerReferences"][0]["uid"] == "job-uid"
    assert "data" not in secret
    assert "stringData" not in secret


def test_each_role_sees_its_own_keys_and_its_other_containers_none() -> None:
    created = find_created(make_world())
    seen = {}
    for name in ("job-worker-0", "job-launcher"):
        spec = created[f"Pod {name}"]["spec"]
        [volume] = [v["secret"] for v in spec["volumes"] if v["name"] == paths.KEYS_VOLUME]
        assert volume["secretName"] == KEYS_SECRET
        seen[name] = {item["key"] for item in volume["items"]}
        assert paths.KEYS_VOLUME in find_mounts(spec["containers"][0])
        for other in spec.get("initContainers", ()):
            assert paths.KEYS_VOLUME not in find_mounts(other)
    assert seen == {
        "job-worker-0": {names.KEY_HOST, names.KEY_AUTHORIZED},
        "job-launcher": {names.KEY_USER, names.KEY_KNOWN_HOSTS},
    }


def test_workers_have_no_place_for_a_notice_of_which_the_launcher_alone_is_told() -> None:
    created = find_created(make_world())
    container = created["Pod job-worker-0"]["spec"]["containers"][0]
    assert paths.EDL_VOLUME not in find_mounts(container)
    assert names.ENV_NOTICE not in str(container)
    assert paths.EDL_VOLUME in find_mounts(created["Pod job-launcher"]["spec"]["containers"][0])


def test_a_worker_runs_sshd_and_needs_no_python() -> None:
    world = make_world()
    template = world.job.spec.worker.template if world.job.spec else {}
    template["spec"]["containers"][0] |= {"command": ["mine"], "args": ["1"]}
    [container] = find_created(world)["Pod job-worker-0"]["spec"]["containers"]
    assert container["command"] == [
        *("sh", paths.SSH_WORKER, "2222", "1", "60", paths.KUBEXEC, "--", "mine", "1")
    ]
    assert "args" not in container
    assert "env" not in container
    assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_launcher_and_broker_know_how_workers_are_reached() -> None:
    spec = find_created(make_world())["Pod job-launcher"]["spec"]
    for container in (spec["containers"][0], spec["initContainers"][0]):
        env = {item["name"]: item.get("value") for item in container["env"]}
        assert env[names.ENV_ATTACH_MODE] == names.SSH_MODE
    assert spec["containers"][0]["command"][0] == "python3"


def test_the_broker_may_execute_nothing_anywhere() -> None:
    role = find_created(make_world())["Role job-launcher-"]
    execs = [rule for rule in role["rules"] if rule["resources"] != ["configmaps"]]
    assert [rule["resourceNames"] for rule in execs] == [[build_seal("job-uid")]]


def test_members_have_the_addresses_of_their_pods() -> None:
    world = make_world()
    world.start()
    assert world.config
    assert {m.name: m.address for m in world.config.members} == {
        "job-worker-0": "10.0.0.0",
        "job-worker-1": "10.0.0.1",
    }
    assert {m.ips for m in world.config.members} == {()}, "agents there see no ranks"
    world = ModelWorld()
    world.start()
    assert world.config
    assert {m.address for m in world.config.members} == {""}


def test_pods_mount_the_keys_that_were_made_for_them_and_are_recorded() -> None:
    world = make_world()
    world.start()
    world.edit(replicas=3)
    world.go_on()
    assert len(world.workers) == 3
    assert world.status.keys_secret == KEYS_SECRET
    assert world.log.count("create Secret job-ssh-") == 1


def test_where_the_record_is_lost_new_pods_mount_what_the_others_have() -> None:
    world = make_world()
    world.start()
    world.job = replace(world.job, status=JobStatus())
    world.edit(replicas=3)
    world.go_on()
    assert len(world.workers) == 3
    assert world.status.keys_secret == KEYS_SECRET
    assert world.log.count("create Secret job-ssh-") == 1


def resume(world: ModelWorld) -> None:
    world.edit(suspend=True)
    world.go_on()
    world.edit(suspend=False)
    world.go_on()


@pytest.mark.long
def test_a_job_that_is_suspended_and_resumed_keeps_its_keys() -> None:
    world = make_world()
    world.start()
    for _ in range(3):
        resume(world)
    assert len(world.workers) == 2
    assert world.status.keys_secret == KEYS_SECRET
    assert world.log.count("create Secret job-ssh-") == 1


def test_keys_that_kept_pods_from_starting_are_made_anew() -> None:
    """As where somebody has removed their Secret: no pod that mounts it comes to run."""
    world = make_world()
    world.start()
    world.keys = {}
    for name in world.pods:
        world.put(name, has_container_started=False)
    resume(world)
    assert len(world.workers) == 2
    assert world.log.count("create Secret job-ssh-") == 2


def test_a_runtime_of_another_version_gets_keys_of_its_own() -> None:
    world = make_world()
    world.start()
    world.keys = {}
    world.shipped = make_shipped("d2")
    resume(world)
    assert world.log.count("create Secret job-ssh-") == 2


def test_nor_does_a_pod_that_is_stuck_on_a_lost_node_pass_on_those_of_the_last_one() -> None:
    world = make_world()
    world.start()
    stuck = world.workers[0]
    world.put(stuck, node="n2", keys_secret="job-ssh-old")
    del world.nodes["n2"]
    world.edit(suspend=True)
    world.settle()
    world.reap("job-launcher")
    world.settle()
    world.reap("job-worker-1")
    assert list(world.pods) == [stuck]
    world.keys, world.shipped = {}, make_shipped("d2")
    world.edit(suspend=False)
    world.start()
    assert stuck in world.pods
    assert world.status.keys_secret == KEYS_SECRET
    assert {p.keys_secret for p in world.pods.values() if p.name != stuck} == {KEYS_SECRET}


def test_without_the_right_to_create_them_no_pod_is_created() -> None:
    world = make_world()
    world.step()
    refusal = Refusal("secrets is forbidden", 1, world.now, 1, "job-ssh-")
    world.refusals = {SECRETS: refusal}
    world.settle()
    assert world.pods == {}
    assert world.condition("WritesRefused") == "True"
