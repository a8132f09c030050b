from __future__ import annotations

from pathlib import Path

import pytest

from et.clusters import Place, check_kubeconfig
from et.errors import EtError, explain
from et_kube.errors import KubeError, OutcomeUnknown, Unreachable
from et_kube.translating import translate_status

INVALID = (
    'TrainingJob.kai.alibabacloud.com "x" is invalid: '
    '[spec.etReplicaSpecs.worker.minReplicas: Invalid value: "object": '
    "minReplicas must not be larger than replicas, lower it or raise replicas, "
    "spec.backoffLimit: Invalid value: -1: spec.backoffLimit in body should be >= 0]"
)
NAME = (
    'TrainingJob.kai.alibabacloud.com "A_b" is invalid: '
    "[metadata.name: Invalid value: \"A_b\": must be lower case (e.g. 'a', regex '[a-z]*'), "
    "<nil>: Invalid value: metadata.name must be a DNS label: choose a shorter name]"
)
CASES = {
    (422, "Invalid", NAME): (
        "the API server refuses this:\n"
        "  metadata.name: must be lower case (e.g. 'a', regex '[a-z]*')\n"
        "  metadata.name must be a DNS label: choose a shorter name"
    ),
    (422, "Invalid", 'ScaleIn.x "y" is invalid: spec: Invalid value: -1: give one more'): (
        "the API server refuses this:\n  spec: give one more"
    ),
    (422, "Invalid", INVALID): (
        "the API server refuses this:\n"
        "  spec.etReplicaSpecs.worker.minReplicas: "
        "minReplicas must not be larger than replicas, lower it or raise replicas\n"
        "  spec.backoffLimit: spec.backoffLimit in body should be >= 0"
    ),
    (404, "NotFound", "the server could not find the requested resource"): (
        "this cluster does not know kai.alibabacloud.com: the operator is not installed on it "
        "(kubectl apply --server-side -k deploy)"
    ),
    (404, "NotFound", 'namespaces "nowhere" not found'): (
        "there is no namespace 'nowhere': name another with -n, "
        "or create it (kubectl create namespace nowhere)"
    ),
    (
        403,
        "Forbidden",
        (
            'trainingjobs.kai.alibabacloud.com is forbidden: User "eve" cannot list resource '
            '"trainingjobs" in API group "kai.alibabacloud.com" in the namespace "team"'
        ),
    ): (
        'you may not do this: trainingjobs is forbidden: User "eve" cannot list resource '
        '"trainingjobs" in API group "kai.alibabacloud.com" in the namespace "team"'
    ),
    (401, "Unauthorized", "Unauthorized"): (
        "the API server does not know you: log in again, or choose another --context"
    ),
    (409, "AlreadyExists", 'trainingjobs.kai.alibabacloud.com "x" already exists'): (
        'trainingjobs "x" already exists: choose another name, or `et delete x` first'
    ),
    (409, "AlreadyExists", 'scaleins.kai.alibabacloud.com "x" already exists'): (
        'scaleins "x" already exists: choose another name, or delete that one'
    ),
    (503, "", "apiserver is shutting down"): (
        "the API server cannot answer now (503): apiserver is shutting down; try again"
    ),
    (400, "BadRequest", 'strict decoding error: unknown field "spec.maxReplica"'): (
        'the API server refuses this: strict decoding error: unknown field "spec.maxReplica"'
    ),
}


@pytest.mark.parametrize(("answer", "words"), CASES.items(), ids=lambda value: str(value)[:20])
def test_an_answer_of_the_api_server_is_put_into_words(answer: tuple[int, str, str], words: str):
    status, reason, message = answer

    assert explain(translate_status(status, {"reason": reason, "message": message})) == words


@pytest.mark.parametrize(
    ("error", "start"),
    [
        (Unreachable("get /x: refused"), "the cluster cannot be reached: get /x: refused"),
        (OutcomeUnknown("create /x: no answer in time"), "the API server has not answered"),
        (KubeError("whatever else"), "whatever else"),
    ],
)
def test_no_answer_is_put_into_words_too(error: KubeError, start: str):
    assert explain(error).startswith(start)


def test_without_a_kubeconfig_it_says_what_to_set(tmp_path: Path):
    missing = str(tmp_path / "config")

    with pytest.raises(EtError, match=f"there is no kubeconfig .{missing}.: set KUBECONFIG"):
        check_kubeconfig(Place(), {"KUBECONFIG": missing})
    check_kubeconfig(Place(), {"KUBERNETES_SERVICE_HOST": "10.0.0.1"})


def test_an_unknown_context_and_an_unreadable_file_are_named(tmp_path: Path):
    path = tmp_path / "config"
    path.write_text("contexts: [{name: prod}, {name: test}]")

    with pytest.raises(EtError, match="no context 'dev'; it has: prod, test"):
        check_kubeconfig(Place(kubeconfig=str(path), context="dev"), {})
    check_kubeconfig(Place(kubeconfig=str(path), context="prod"), {})
    path.write_text("{")
    with pytest.raises(EtError, match="cannot be read"):
        check_kubeconfig(Place(kubeconfig=str(path)), {})
