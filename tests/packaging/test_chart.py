"""The Helm chart says what kustomize says, object by object.

Both are rendered by the real programs, without a cluster. STATED is all in which they may differ.
"""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
import yaml

import et_kube
from devcluster import building, settings
from et_process.noticing import read_rows

pytestmark = pytest.mark.timeout(120)

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm" / "et-operator"
OLDEST = "1.30.0"

STATED = {
    "labels": {
        "app.kubernetes.io/instance": "et-operator",
        "app.kubernetes.io/managed-by": "Helm",
        "app.kubernetes.io/version": et_kube.__version__,
        "helm.sh/chart": f"et-operator-{et_kube.__version__}",
    },
    "annotations": {"helm.sh/resource-policy": "keep"},
}
"""What Helm adds: labels to every object, an annotation to the definitions that it is to keep."""

Object = dict[str, Any]
Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class Variant:
    """One installation in both forms.

    Args:
        values: what Helm is given.
        overlay: what a kustomization beside deploy/ has, its resources excepted.
        base: the folder of deploy/ that it builds on.
        namespace: where the operator runs.
    """

    values: Object
    overlay: Object
    base: str = ""
    namespace: str = "et-operator"


def patch(deployment: str = "et-operator", **spec: Any) -> Object:
    """A patch of its pods."""
    return {
        "patch": json.dumps(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": deployment, "namespace": "et-operator"},
                "spec": {"template": {"spec": spec}},
            }
        )
    }


def notices_patch(**spec: Any) -> Object:
    """A patch of the pods of et-notices."""
    metadata = {"name": "et-notices", "namespace": "et-notices"}
    body = json.loads(patch(**spec)["patch"]) | {"kind": "DaemonSet", "metadata": metadata}
    return {"patch": json.dumps(body)}


def mark(deployment: str, team: str) -> Object:
    """A patch of the labels and annotations of its pods."""
    annotations = {"prometheus.io/scrape": "false"}
    template = {"metadata": {"labels": {"team": team}, "annotations": annotations}}
    body = json.loads(patch(deployment)["patch"]) | {"spec": {"template": template}}
    return {"patch": json.dumps(body)}


def set_variables(**values: str) -> Object:
    env = [{"name": name, "value": value} for name, value in values.items()]
    return patch(containers=[{"name": "operator", "env": env}])


def component(*names: str) -> list[str]:
    return [f"deploy/components/{name}" for name in names]


DEFAULT = "localhost/et-operator"
OURS = "registry.example/et-operator"
DIGEST = "sha256:" + 64 * "0"
SCHEDULERS = {"enabled": True, "replicas": 2}
HIGHLY_AVAILABLE = Variant({"replicas": 2}, {"components": component("high-availability")})
PULL_SECRETS = Variant(
    {"imagePullSecrets": [{"name": "ours"}], "broker": {"pullSecrets": ["one", "two"]}},
    {
        "patches": [
            patch(imagePullSecrets=[{"name": "ours"}]),
            set_variables(BROKER_PULL_SECRETS="one,two"),
        ]
    },
)
VARIANTS = {
    "default": Variant({}, {}),
    "tag": Variant(
        {"image": {"repository": OURS, "tag": "1.2"}},
        {
            "images": [{"name": DEFAULT, "newName": OURS, "newTag": "1.2"}],
            "patches": [set_variables(BROKER_IMAGE=f"{OURS}:1.2")],
        },
    ),
    "digest": Variant(
        {"image": {"repository": OURS, "digest": DIGEST}},
        {
            "images": [{"name": DEFAULT, "newName": OURS, "digest": DIGEST}],
            "patches": [set_variables(BROKER_IMAGE=f"{OURS}@{DIGEST}")],
        },
    ),
    "pull-secrets": PULL_SECRETS,
    "high-availability": HIGHLY_AVAILABLE,
    "exec-policy": Variant(
        {"execPolicy": {"enabled": True}}, {"components": component("exec-policy")}
    ),
    "operator-policy": Variant(
        {"operatorPolicy": {"enabled": True}}, {"components": component("operator-policy")}
    ),
    "scheduler": Variant(
        {"scheduler": {"enabled": True, "settings": {"LOG_LEVEL": "debug"}}},
        {
            "components": component("scheduler"),
            "patches": [
                patch(
                    "et-scheduler",
                    containers=[
                        {"name": "scheduler", "env": [{"name": "LOG_LEVEL", "value": "debug"}]}
                    ],
                )
            ],
        },
    ),
    "scheduler-high-availability": Variant(
        {"scheduler": SCHEDULERS, "priorityClassName": "system-cluster-critical"},
        {
            "components": component("scheduler", "scheduler-high-availability"),
            "patches": [
                patch(name, priorityClassName="system-cluster-critical")
                for name in ("et-operator", "et-scheduler")
            ],
        },
    ),
    "scheduler-placement": Variant(
        {
            "scheduler": {
                **SCHEDULERS,
                "topologySpreadConstraints": [],
                "affinity": {"podAntiAffinity": {}},
            },
            "podAnnotations": {"prometheus.io/scrape": "false"},
            "podLabels": {"team": "ours"},
        },
        {
            "components": component("scheduler", "scheduler-high-availability"),
            "patches": [
                *(mark(name, "ours") for name in ("et-operator", "et-scheduler")),
                patch(
                    "et-scheduler",
                    affinity={"podAntiAffinity": {}},
                    topologySpreadConstraints=None,
                ),
            ],
        },
    ),
    "cloud-notices": Variant(
        {"cloudNotices": {"enabled": True}}, {"components": component("notices")}
    ),
    "cloud-notices-settings": Variant(
        {
            "cloudNotices": {
                "enabled": True,
                "settings": {"CLOUD": "aws"},
                "nodeSelector": {"pool": "spot"},
                "priorityClassName": "system-node-critical",
                "imagePullSecrets": [{"name": "ours"}],
            },
            "nodeSelector": {"pool": "system"},
        },
        {
            "components": component("notices"),
            "patches": [
                patch(nodeSelector={"pool": "system"}),
                notices_patch(
                    nodeSelector={"pool": "spot"},
                    priorityClassName="system-node-critical",
                    imagePullSecrets=[{"name": "ours"}],
                    containers=[{"name": "notices", "env": [{"name": "CLOUD", "value": "aws"}]}],
                ),
            ],
        },
    ),
    "queueing": Variant(
        {"settings": {"QUEUEING": "Required"}},
        {"patches": [set_variables(QUEUEING="Required")]},
    ),
    "monitoring": Variant(
        {"monitoring": {"serviceMonitor": {"enabled": True}}},
        {"components": component("monitoring")},
    ),
    "namespaced": Variant({"namespaces": ["default"]}, {}, base="namespaced"),
    "other-namespace": Variant({}, {"namespace": "training-system"}, namespace="training-system"),
    "scheduling": Variant(
        {
            "priorityClassName": "system-cluster-critical",
            "nodeSelector": {"pool": "system"},
            "affinity": {"podAntiAffinity": {}},
            "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
        },
        {
            "patches": [
                patch(
                    priorityClassName="system-cluster-critical",
                    nodeSelector={"pool": "system"},
                    affinity={"podAntiAffinity": {}},
                    containers=[
                        {
                            "name": "operator",
                            "resources": {
                                "requests": {"cpu": "1", "memory": "1Gi"},
                                "limits": {"memory": "1Gi"},
                            },
                        }
                    ],
                )
            ]
        },
    ),
    "everything": Variant(
        {
            **HIGHLY_AVAILABLE.values,
            **PULL_SECRETS.values,
            "execPolicy": {"enabled": True},
            "operatorPolicy": {"enabled": True},
            "scheduler": SCHEDULERS,
            "cloudNotices": {"enabled": True},
            "monitoring": {"serviceMonitor": {"enabled": True}},
        },
        {
            "components": component(
                *("high-availability", "exec-policy", "operator-policy", "monitoring"),
                *("scheduler", "scheduler-high-availability", "scheduler-monitoring", "notices"),
            ),
            "patches": [
                *PULL_SECRETS.overlay["patches"],
                patch("et-scheduler", imagePullSecrets=[{"name": "ours"}]),
            ],
        },
    ),
}


def run(program: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run it with no cluster and no home of the user's to look at."""
    return subprocess.run(
        [program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"},
    )


@pytest.fixture(scope="module")
def helm() -> Path:
    return building.find_helm(settings.find_cache())


@pytest.fixture(scope="module")
def kube() -> Path:
    return building.find_kube(settings.find_cache())


@pytest.fixture(params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> Variant:
    return VARIANTS[request.param]


def render(
    helm: Path,
    values: Object,
    folder: Path,
    *options: str,
    release: str = "et-operator",
    kubernetes: str = OLDEST,
    chart: Path = CHART,
) -> subprocess.CompletedProcess[str]:
    """Render the chart with these values, for the oldest Kubernetes that it takes."""
    line = ("template", release, chart, "--values", write(folder, values), *options)
    return run(helm, *line, "--kube-version", kubernetes)


def render_chart(
    helm: Path, values: Object, folder: Path, *options: str, release: str = "et-operator"
) -> dict[Key, Object]:
    done = render(helm, values, folder, *options, release=release)
    assert done.returncode == 0, done.stderr
    return index(done.stdout)


def write(folder: Path, values: Object) -> Path:
    path = folder / "values.json"
    path.write_text(json.dumps(values))
    return path


def build_kustomization(kube: Path, variant: Variant, folder: Path) -> dict[Key, Object]:
    """All that the variant's kustomizations say."""
    overlay = folder / "overlay"
    overlay.mkdir()
    relative = os.path.relpath(ROOT, overlay)
    content = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [f"{relative}/deploy/{variant.base}"],
        **variant.overlay,
    }
    content["components"] = [f"{relative}/{name}" for name in variant.overlay.get("components", ())]
    (overlay / "kustomization.yaml").write_text(json.dumps(content))
    found = read_kustomization(kube, overlay)
    for namespace in variant.values.get("namespaces", ()):
        for key, value in read_kustomization(kube, ROOT / "deploy/namespaced/rights").items():
            value["metadata"]["namespace"] = namespace  # kubectl apply -n NAMESPACE
            found[*key[:2], namespace, key[3]] = value
    return found


def read_kustomization(kube: Path, folder: Path) -> dict[Key, Object]:
    done = run(kube, "kubectl", "kustomize", folder)
    assert done.returncode == 0, done.stderr
    return index(done.stdout)


def index(text: str) -> dict[Key, Object]:
    objects = [value for value in yaml.safe_load_all(text) if value]
    found = {identify(value): value for value in objects}
    assert len(found) == len(objects)
    for value in objects:
        if value["kind"] in {
            "Deployment",
            "DaemonSet",
        }:  # a patch of kustomize puts its variables first
            [program] = value["spec"]["template"]["spec"]["containers"]
            program["env"].sort(key=itemgetter("name"))
    return found


def identify(value: Object) -> Key:
    metadata = value["metadata"]
    return value["apiVersion"], value["kind"], metadata.get("namespace", ""), metadata["name"]


def strip(value: Object) -> Object:
    """The object without what is stated, which must be there as stated."""
    metadata = dict(value["metadata"])
    for field, stated in STATED.items():
        if field == "annotations" and value["kind"] != "CustomResourceDefinition":
            continue
        have = dict(metadata.pop(field))
        for name, expected in stated.items():
            assert have.pop(name) == expected, name
        if have:
            metadata[field] = have
    return {**value, "metadata": metadata}


@pytest.mark.point("chart")
def test_the_chart_says_what_kustomize_says(
    helm: Path, kube: Path, variant: Variant, tmp_path: Path
) -> None:
    ours = render_chart(helm, variant.values, tmp_path, f"--namespace={variant.namespace}")
    theirs = build_kustomization(kube, variant, tmp_path)
    # its own namespace a release cannot make: Helm's --create-namespace does, before it
    theirs.pop(("v1", "Namespace", "", variant.namespace))
    assert set(ours) == set(theirs)
    for key, value in ours.items():
        assert strip(value) == theirs[key], key


@pytest.mark.point("chart")
def test_a_second_release_has_nothing_of_the_first(helm: Path, tmp_path: Path) -> None:
    policies = {"execPolicy": {"enabled": True}, "operatorPolicy": {"enabled": True}}
    policies |= {"scheduler": {"enabled": True}, "cloudNotices": {"enabled": True}}
    values: Object = {**policies, "namespaces": ["x", "y"]}
    first = render_chart(helm, values, tmp_path, "--namespace=one")
    values = {
        **policies,
        "namespaces": ["z"],
        "crds": {"install": False},
        "userRoles": {"create": False},
    }
    second = render_chart(helm, values, tmp_path, "--namespace=two", release="second")
    assert ("rbac.authorization.k8s.io/v1", "RoleBinding", "y", "et-operator") in first
    assert ("rbac.authorization.k8s.io/v1", "RoleBinding", "z", "second-et-operator") in second
    assert not set(first) & set(second)
    bindings = [v for key, v in second.items() if key[1] == "ValidatingAdmissionPolicyBinding"]
    bound = {value["metadata"]["name"]: value["spec"]["policyName"] for value in bindings}
    names = [f"second-et-operator-{policy}" for policy in ("self", "exec", "debug")]
    names += ["second-et-scheduler-self", "second-et-notices-self"]
    assert bound == dict(zip(names, names, strict=True))


@pytest.mark.point("chart")
def test_the_chart_is_without_a_complaint(helm: Path, variant: Variant, tmp_path: Path) -> None:
    options = ("--strict", "--kube-version", OLDEST, "--values", write(tmp_path, variant.values))
    done = run(helm, "lint", *options, CHART)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout


@pytest.mark.point("chart")
def test_a_packaged_chart_holds_what_the_links_lead_to(helm: Path, tmp_path: Path) -> None:
    done = run(helm, "package", CHART, "--destination", tmp_path)
    assert done.returncode == 0, done.stderr
    [archive] = tmp_path.glob("*.tgz")
    assert archive.name == f"et-operator-{et_kube.__version__}.tgz"
    with tarfile.open(archive) as packed:
        assert all(member.isfile() for member in packed)
    plain, again = (render(helm, {}, tmp_path, chart=chart) for chart in (CHART, archive))
    assert plain.stdout == again.stdout != ""


@pytest.mark.point("chart")
def test_both_programs_read_the_rows_of_notices(helm: Path, tmp_path: Path) -> None:
    row = {"taint": "example.com/gone", "reason": "the rack", "kind": "Firm", "leadSeconds": 9}
    values: Object = {"notices": [row], "scheduler": {"enabled": True}}
    found = render_chart(helm, values, tmp_path)
    [text] = [v["data"]["notices.yaml"] for key, v in found.items() if "-notices-" in key[3]]
    [name] = [key[3] for key in found if "-notices-" in key[3]]
    path = tmp_path / "notices.yaml"
    path.write_text(text, "utf-8")
    assert read_rows(str(path))[0].key == "example.com/gone"
    for value in (value for key, value in found.items() if key[1] == "Deployment"):
        pod = value["spec"]["template"]["spec"]
        [program] = pod["containers"]
        [mount], [volume] = program["volumeMounts"], pod["volumes"]
        variables = {one["name"]: one.get("value") for one in program["env"]}
        assert variables["NOTICES_FILE"] == f"{mount['mountPath']}/notices.yaml"
        assert volume == {"name": mount["name"], "configMap": {"name": name}}
    again = render_chart(helm, values | {"notices": [row | {"kind": "Soft"}]}, tmp_path)
    assert name not in {key[3] for key in again}, "they read it once: another one starts them anew"


@pytest.mark.point("chart-errors")
@pytest.mark.parametrize(
    ("values", "place", "words"),
    [
        ({"replicas": "two"}, "/replicas", "want integer"),
        ({"replica": 2}, "", "'replica' not allowed"),
        ({"image": {"name": "x"}}, "/image", "'name' not allowed"),
        ({"namespaces": "default"}, "/namespaces", "want array"),
        ({"settings": {"LOG_LEVEL": "loud"}}, "/settings/LOG_LEVEL", "must be one of"),
        ({"notices": [{"taint": "a", "reason": "b"}]}, "/notices/0", "missing property 'kind'"),
        ({"settings": {"QUEUEING": "required"}}, "/settings/QUEUEING", "must be one of"),
        ({"serviceAccount": {"create": False}}, "/serviceAccount/name", "minLength"),
        ({"image": {"digest": "sha256:1"}}, "/image/digest", "does not match pattern"),
    ],
    ids=str,
)
def test_wrong_values_are_refused_by_name(
    helm: Path, tmp_path: Path, values: Object, place: str, words: str
) -> None:
    done = render(helm, values, tmp_path)
    assert done.returncode == 1
    assert f"at '{place}'" in done.stderr
    assert words in done.stderr


@pytest.mark.point("chart-errors")
def test_a_cluster_that_is_too_old_is_refused(helm: Path, tmp_path: Path) -> None:
    done = render(helm, {}, tmp_path, kubernetes="1.29.9")
    assert done.returncode == 1
    assert ">=1.30.0" in done.stderr
