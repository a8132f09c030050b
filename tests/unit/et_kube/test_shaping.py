"""What a pod asks of a node, against what Kubernetes documents."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from et_kube.resources import TRAINING_JOBS
from et_kube.shaping import MAX_REQUIREMENTS, MAX_TERMS, describe_shape, sum_requests
from fakes.schemas import admit, find_definition
from tests.counting import count_steps, find_peak

Document = dict[str, Any]


def container(cpu: str, **more: Any) -> Document:
    return {"resources": {"requests": {"cpu": cpu}}, **more}


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SIDECAR = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [container("1"), container("2")]}, 3000),
        (
            {"containers": [container("1")], "initContainers": [container("5"), container("4")]},
            5000,
        ),
        ({"containers": [container("3")], "initContainers": [container("1", **SIDECAR)]}, 4000),
        (
            # the second one runs beside the sidecar before it, the first one does not
            {
                "containers": [container("1")],
                "initContainers": [container("4"), container("1", **SIDECAR), container("4")],
            },
            5000,
        ),
        ({"containers": [container("1")], "overhead": {"cpu": "250m"}}, 1250),
        ({"containers": [container("1")], "resources": {"requests": {"cpu": "4"}}}, 4000),
        ({"containers": [{}]}, 0),
    ],
)
def test_effective_requests(spec: Document, cpu: int) -> None:
    assert sum_requests(spec).get("cpu", 0) == cpu


NAMED = st.dictionaries(st.sampled_from("abc"), st.integers(0, 5), max_size=3)


@pytest.mark.long
@given(st.lists(st.tuples(st.booleans(), NAMED), max_size=6), NAMED)
def test_what_starts_before_is_counted_beside_the_sidecars_that_run_by_then(
    before: list[tuple[bool, dict[str, int]]], own: dict[str, int]
) -> None:
    inits = [
        {"resources": {"requests": found}, **(SIDECAR if is_sidecar else {})}
        for is_sidecar, found in before
    ]
    spec = {"containers": [{"resources": {"requests": own}}], "initContainers": inits}
    sidecars, most = Counter[str](), Counter[str]()
    for is_sidecar, found in before:
        most |= sidecars + Counter(found)
        sidecars += Counter(found if is_sidecar else {})
    assert sum_requests(spec) == (Counter(own) + sidecars) | most


def test_whoever_names_much_in_many_containers_costs_no_product_of_both() -> None:
    def read(size: int) -> int:
        wide = {"requests": {f"example.com/{n}": 1 for n in range(size)}}
        inits = [{"resources": wide, **SIDECAR}, *({} for _ in range(size))]
        return count_steps(lambda: sum_requests({"initContainers": inits}))

    assert read(80) < 3 * read(40)


def spread(labels: int, terms: int) -> Document:
    """A pod with a selector of so many labels beside so many terms, one requirement in each."""
    term = {"matchExpressions": [{"key": "pool", "operator": "Exists"}]}
    node = {REQUIRED: {"nodeSelectorTerms": [term] * terms}}
    selector = {f"label-{n}": "" for n in range(labels)}
    return {"spec": {"nodeSelector": selector, "affinity": {"nodeAffinity": node}}}


def test_a_selector_of_many_labels_with_many_terms_is_no_product_of_both() -> None:
    def weigh(size: int) -> int:
        return find_peak(lambda: describe_shape(spread(size, size)))

    found = describe_shape(spread(500, 500))
    assert (found["terms"], found["unproven"] != "") == ([], True)
    assert weigh(1000) < 3 * weigh(500)


def test_nor_is_it_with_as_many_of_each_as_are_looked_at() -> None:
    few, many = (describe_shape(spread(n, MAX_TERMS)) for n in (8, MAX_REQUIREMENTS - 1))
    assert [len(term["requirements"]) for term in few["terms"]] == [9] * MAX_TERMS
    assert (few["unproven"], many["unproven"] != "") == ("", True)
    # What is kept is read from JSON, where nothing is shared.
    assert len(json.dumps(few)) < 50_000
    assert len(json.dumps(many)) < 1000


def test_what_a_pod_requests_as_a_whole_counts_for_what_can_be_requested_so() -> None:
    both = {"cpu": "1", "nvidia.com/gpu": "2", "hugepages-2Mi": "4Mi", "ephemeral-storage": "1Gi"}
    spec = {"containers": [{"resources": {"requests": both}}], "resources": {"requests": both}}
    spec["resources"] = {"requests": {"hugepages-2Mi": "8Mi", "nvidia.com/gpu": "9"}}
    assert sum_requests(spec) == {
        "cpu": 1000,
        "nvidia.com/gpu": 2,
        "hugepages-2Mi": 8 * 2**20,
        "ephemeral-storage": 2**30,
    }


def describe(**spec: Any) -> Document:
    return describe_shape({"spec": {"containers": [container("1")], **spec}})


def require(*terms: Document) -> Document:
    required = {REQUIRED: {"nodeSelectorTerms": [*terms]}}
    return {"affinity": {"nodeAffinity": required}}


def test_a_node_selector_is_part_of_every_term() -> None:
    one = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
    two = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
    terms = describe(nodeSelector={"pool": "x"}, **require(one, two))["terms"]
    pool = {"key": "pool", "operator": "In", "values": ["x"]}
    assert [term["requirements"] for term in terms] == [
        [pool, {"key": "a", "operator": "Exists", "values": []}],
        [pool, {"key": "field:metadata.name", "operator": "In", "values": ["n"]}],
    ]


def test_a_term_without_requirements_matches_nothing_and_no_terms_anything() -> None:
    assert describe()["terms"] == []
    [term] = describe(**require({}))["terms"]
    assert term["requirements"] == [{"key": "", "operator": "In", "values": []}]


def test_tolerations_are_those_that_open_a_node() -> None:
    given = [
        {"operator": "Exists"},
        {"key": "a", "value": "b", "effect": "NoSchedule"},
        {"key": "a", "operator": "Gt", "value": "5"},
        {"key": "a", "operator": "Exists", "effect": "PreferNoSchedule"},
    ]
    assert describe(tolerations=given)["tolerations"] == [
        {"key": "", "value": "", "anyValue": True, "effect": ""},
        {"key": "a", "value": "b", "anyValue": False, "effect": "NoSchedule"},
    ]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"affinity": {"podAntiAffinity": {REQUIRED: [{}]}}}, "pod anti-affinity"),
        (
            {
                "affinity": {
                    "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}
                }
            },
            "",
        ),
        (
            {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]},
            "topology spread",
        ),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]}, ""),
        (
            {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "x"}}]},
            "volume claims",
        ),
        ({"volumes": [{"name": "v", "emptyDir": {}}]}, ""),
        (
            {"resourceClaims": [{"name": "x"}], "schedulerName": "mine"},
            "resource claims, another scheduler",
        ),
        (require(*[{}] * 65), "more terms of node affinity, or resources, than are looked at"),
    ],
)
def test_what_is_not_modelled_is_said(spec: Document, words: str) -> None:
    assert describe(**spec)["unproven"] == words


def test_ports_of_the_node_are_found_wherever_they_are_named() -> None:
    ports = [{"containerPort": 1}, {"containerPort": 2, "hostPort": 2, "protocol": "UDP"}]
    spec = {"containers": [{"ports": ports}], "initContainers": [{"ports": [{"hostPort": 80}]}]}
    assert describe_shape({"spec": spec})["hostPorts"] == ["TCP/80", "UDP/2"]


@pytest.mark.parametrize("port", [1e300, int("9" * 40), -1, 65536, "9" * 5000, "web", [80]])
def test_what_is_no_port_is_not_described(port: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        describe(containers=[{"ports": [{"containerPort": 1, "hostPort": port}]}])


SCHEMA = find_definition(TRAINING_JOBS)
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, -1, 80, 2**31, 2**63, 10**40, 1.5, 1e300, -1e-300]),
    st.sampled_from(["", "1", "80", "-1", "TCP", "In", "Equal", "é\ud800", "x" * 400, "9" * 40]),
    st.just([]),
    st.just({}),
)


def junk(*keys: str, **known: Any) -> st.SearchStrategy[Any]:
    """An object with any of these, each of them anything; or with what is `known` of it."""
    own: Any = dict.fromkeys(keys, JUNK)
    own |= {
        key: st.sampled_from([value] * 9 + [JUNK]).flatmap(_take) for key, value in known.items()
    }
    return st.fixed_dictionaries({}, optional=own)


def _take(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return strategy


def some(item: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(item, max_size=2)


QUANTITY = st.sampled_from(["1", "500m", "8Gi", 2, "1e3", 10**40, "", "-1"])
AMOUNTS = junk(cpu=QUANTITY, memory=QUANTITY)
RESOURCES = junk(limits=AMOUNTS, requests=AMOUNTS)
NUMBER = st.sampled_from([80, 10**40, 1e300, "80", "9" * 40, -1, 0, None])
PORT = st.fixed_dictionaries({"hostPort": NUMBER}, optional={"protocol": JUNK})
CONTAINER = junk("restartPolicy", ports=some(PORT), resources=RESOURCES)
ONE = junk("key", "operator", values=some(JUNK))
REQUIREMENT = ONE | st.fixed_dictionaries({"key": JUNK, "operator": st.just("In")})
TERM = junk(matchExpressions=some(REQUIREMENT), matchFields=some(REQUIREMENT))
NODES = junk(**{REQUIRED: junk(nodeSelectorTerms=some(TERM))})
APART = junk("topologyKey", labelSelector=junk(matchLabels=junk("app")))
AFFINITY = junk(nodeAffinity=NODES, podAntiAffinity=junk(**{REQUIRED: some(APART)}))
SPEC = junk(
    "nodeName",
    "schedulerName",
    "resourceClaims",
    affinity=AFFINITY,
    containers=some(CONTAINER),
    initContainers=some(CONTAINER),
    nodeSelector=junk("zone", "disk"),
    overhead=AMOUNTS,
    resources=RESOURCES,
    tolerations=some(junk("key", "operator", "value", "effect")),
    volumes=some(junk("persistentVolumeClaim", "ephemeral")),
)


@settings(max_examples=300)
@given(st.fixed_dictionaries({"spec": SPEC}, optional={"metadata": junk("labels", "namespace")}))
def test_what_is_described_a_status_has_room_for(pod: Document) -> None:
    """A shape that is refused would keep the whole status of its job from being written."""
    try:
        shape = {"role": "worker", **describe_shape(pod)}
    except (ValueError, TypeError, AttributeError):
        return  # it is told as one that nobody can read
    assert SCHEMA is not None
    status = {"shapes": {"pods": [shape], "isElastic": True}}
    stored, faults = admit({"status": status}, SCHEMA["schema"]["openAPIV3Schema"])
    assert [fault for fault in faults if "shapes" in fault] == []
    assert stored["status"]["shapes"]["pods"] == [shape]


ONE_TO_A_NODE = {"training-job-name": "job", "training-job-role": "worker"}


def keep_apart(labels: Document, *, namespace: str = "team", **term: Any) -> Document:
    """The document of a worker that no pod with these labels may be beside."""
    whole = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": labels},
        **term,
    }
    own = {"namespace": namespace, "labels": {**ONE_TO_A_NODE, "app": "x"}}
    spec = {"affinity": {"podAntiAffinity": {REQUIRED: [whole]}}, "containers": []}
    return describe_shape({"metadata": own, "spec": spec})


def test_workers_that_keep_apart_have_each_a_node_of_their_own() -> None:
    found = keep_apart(ONE_TO_A_NODE)
    [token] = found["hostPorts"]
    assert token.startswith("apart/")
    assert found["unproven"] == ""
    assert keep_apart(ONE_TO_A_NODE)["hostPorts"] == [token]
    assert keep_apart(ONE_TO_A_NODE, namespace="other")["hostPorts"] != [token]


def test_who_others_may_be_in_the_way_of_keeps_apart_and_says_so() -> None:
    found = keep_apart({"app": "x"})
    assert len(found["hostPorts"]) == 1
    assert found["unproven"] == "pod anti-affinity"


@pytest.mark.parametrize(
    ("labels", "term"),
    [
        ({"app": "another"}, {}),
        ({}, {}),
        (ONE_TO_A_NODE, {"topologyKey": "topology.kubernetes.io/zone"}),
        (ONE_TO_A_NODE, {"namespaces": ["other"]}),
        (ONE_TO_A_NODE, {"namespaceSelector": {}}),
        (ONE_TO_A_NODE, {"matchLabelKeys": ["pod-template-hash"]}),
        (ONE_TO_A_NODE, {"labelSelector": {"matchExpressions": []}}),
        (ONE_TO_A_NODE, {"labelSelector": None}),
    ],
)
def test_other_terms_of_pods_are_not_modelled(labels: Document, term: Document) -> None:
    found = keep_apart(labels, **term)
    assert (found["hostPorts"], found["unproven"]) == ([], "pod anti-affinity")


def test_the_definition_of_a_job_takes_every_such_document() -> None:
    definition = find_definition(TRAINING_JOBS)
    assert definition is not None
    status = definition["schema"]["openAPIV3Schema"]["properties"]["status"]
    tolerations = [{"operator": "Exists"}]
    document = describe(nodeSelector={"a": "b"}, tolerations=tolerations, schedulerName="x")
    roles = ("launcher", "worker")
    shapes = {"shapes": {"pods": [{"role": role, **document} for role in roles]}}
    shaped, faults = admit(shapes, status)
    assert (shaped, faults) == (shapes, [])


def compare(**requirement: Any) -> Document:
    return require({"matchExpressions": [{"key": "a", **requirement}]})


@pytest.mark.parametrize(
    "spec",
    [
        compare(operator="Odd"),
        compare(operator="Exists", key="k" * 400),
        {"tolerations": [{"key": "k" * 400}]},
        {"tolerations": [{"key": "a", "value": "v" * 64}]},
        {"tolerations": [{"key": "a", "effect": "e" * 40}]},
    ],
)
def test_what_the_definition_of_a_job_would_not_take_is_no_shape(spec: Document) -> None:
    """The job's status would not be written any more, whatever else is to be said in it."""
    with pytest.raises(ValueError, match=r"compared by|longer than"):
        describe(**spec)


def test_a_value_that_no_label_can_have_is_left_out() -> None:
    [term] = describe(**compare(operator="NotIn", values=["v" * 300, "v"]))["terms"]
    assert term["requirements"] == [{"key": "a", "operator": "NotIn", "values": ["v"]}]


def test_a_limit_without_a_request_is_one():
    resources = {"limits": {"nvidia.com/gpu": "1", "cpu": "2"}, "requests": {"cpu": "1"}}
    requests = sum_requests({"containers": [{"resources": resources}]})
    assert requests == {"cpu": 1000, "nvidia.com/gpu": 1}
