"""The operator's half of a job with a queue, and what binds pods: as little as et-scheduler sees.

It holds a job and says what its pods request, starts what is admitted, takes back what is not, and
lets leave who is named. Each round does what can be done at once.
"""

from __future__ import annotations

from typing import Any

from et_contract.pods import Role
from et_kube.quantities import parse_quantity
from et_kube.resources import GROUP, NODES, PODS, PRIORITY_CLASSES, TRAINING_JOBS, Ref
from et_operator.model.names import build_labels
from fakes.cluster import FakeCluster

Document = dict[str, Any]


class Carrier:
    """Of all jobs of a cluster. `is_slow` keeps pods that were asked to go until `let_go`."""

    def __init__(self, cluster: FakeCluster, *, is_slow: bool = False) -> None:
        self._cluster = cluster
        self._is_slow = is_slow
        self._made = 0
        self.is_binding = True
        self.refused: set[str] = set()
        """Namespaces of which no pod is created, as somebody's quota or policy would have it."""

    def carry(self) -> None:
        """One round over all jobs, then over all pods without a node."""
        for job in self._cluster.scan(TRAINING_JOBS):
            self._carry_job(job)
        if self.is_binding:
            self.bind()

    def let_go(self) -> None:
        """Pods that were asked to go are gone."""
        for pod in self._cluster.scan(PODS):
            if "deletionTimestamp" in pod["metadata"]:
                self._cluster.remove(_ref(PODS, pod))

    def bind(self) -> None:
        """Give pods the first node that has their CPUs and is not ruled out for them."""
        for pod in self._cluster.scan(PODS):
            if pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"]:
                continue
            name = next((n for n in self._list_open(pod) if self._has_room(n, pod)), None)
            if name is not None:
                self._cluster.edit(_ref(PODS, pod), lambda d, n=name: d["spec"].update(nodeName=n))  # type: ignore[misc]

    # ------------------------------------------------------------ jobs
    def _carry_job(self, job: Document) -> None:
        status = job.get("status") or {}
        admission = status.get("admission") or {}
        pods = self._find_pods(job)
        is_held = not self._is_admitted(status)
        if job["spec"].get("suspend") or (not is_held and admission.get("state") == "Waiting"):
            self._hold(job, pods)
        elif "shapes" not in status or _find_reason(status) == "Suspended":
            self._speak(job)
        elif is_held and admission.get("state") == "Admitted":
            if admission["number"] > status.get("admittedNumber", 0):
                number = admission["number"]
                self._write(job, {"admittedNumber": number, "conditions": _condition("True", "")})
        elif not is_held and admission:
            self._size(job, admission, pods)

    def _hold(self, job: Document, pods: list[Document]) -> None:
        for pod in pods:
            self._end(pod)
        is_asking = not job["spec"].get("suspend")
        if not self._find_pods(job):
            status: Document = {
                "conditions": _condition("False", "Waiting" if is_asking else "Suspended")
            }
            number = (job.get("status") or {}).get("admission", {}).get("number")
            if number is not None and not is_asking:
                status["admittedNumber"] = number  # a suspension spends the admission
            self._write(job, status)

    def _speak(self, job: Document) -> None:
        pods: list[Document] = [
            {"role": role, "requests": {"cpu": _get_cpu(job, role)}}
            for role in ("launcher", "worker")
        ]
        if job["metadata"]["namespace"] in self.refused:
            refused = _condition("False", "PodsRefused")
            self._write(job, {"shapes": None, "conditions": refused})
            return
        worker = job["spec"]["etReplicaSpecs"]["worker"]["template"]["spec"]
        name = worker.get("priorityClassName", "")
        pods[1] |= {"priority": self._find_priority(worker), "priorityClassName": name}
        shapes = {"pods": pods, "elastic": True}
        self._write(job, {"shapes": shapes, "conditions": _condition("False", "Waiting")})

    def _size(self, job: Document, admission: Document, pods: list[Document]) -> None:
        leaving = set(admission.get("leaving") or ())
        workers = [pod for pod in pods if "-worker-" in pod["metadata"]["name"]]
        for pod in workers:
            if pod["metadata"]["name"] in leaving:
                self._end(pod)
        stay = [pod for pod in workers if pod["metadata"]["name"] not in leaving]
        name, placement = job["metadata"]["name"], admission.get("placement") or {}
        if len(pods) == len(workers):
            only = [placement["launcher"]] if placement.get("launcher") else []
            self._make(job, f"{name}-launcher", "launcher", only, placement)
        for _ in range(admission["workers"] - len(stay)):
            self._made += 1
            worker = f"{name}-worker-{self._made}"
            self._make(job, worker, "worker", placement.get("only") or [], placement)
        for pod in stay[admission["workers"] :]:
            self._end(pod)

    def _make(
        self, job: Document, name: str, role: str, only: list[str], placement: Document
    ) -> None:
        metadata = job["metadata"]
        owner = {"kind": "TrainingJob", "apiVersion": f"{GROUP}/v1alpha1", "controller": True}
        owner |= {"name": metadata["name"], "uid": metadata["uid"]}
        key = "kubernetes.io/hostname"
        rules = [{"key": key, "operator": "NotIn", "values": placement.get("avoid") or ["-"]}]
        if only:
            rules = [{"key": key, "operator": "In", "values": only}]
        pod = make_service(name, _get_cpu(job, role) / 1000)
        pod["metadata"]["ownerReferences"] = [owner]
        pod["metadata"]["labels"] = build_labels(metadata["name"], Role(role))
        terms = {"nodeSelectorTerms": [{"matchExpressions": rules}]}
        template = job["spec"]["etReplicaSpecs"][role]["template"]["spec"]
        pod["spec"]["priority"] = self._find_priority(template)
        required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        pod["spec"]["affinity"] = {"nodeAffinity": required}
        self._cluster.create(PODS, metadata["namespace"], pod)

    def _find_priority(self, template: Document) -> int:
        name = template.get("priorityClassName", "")
        classes = [c for c in self._cluster.scan(PRIORITY_CLASSES) if c["metadata"]["name"] == name]
        return int(classes[0]["value"]) if classes else 0

    def _end(self, pod: Document) -> None:
        if "deletionTimestamp" not in pod["metadata"]:
            self._cluster.delete(_ref(PODS, pod), grace_seconds=30 if self._is_slow else 0)

    def _find_pods(self, job: Document) -> list[Document]:
        uid = job["metadata"]["uid"]
        return [
            pod
            for pod in self._cluster.scan(PODS)
            if any(o["uid"] == uid for o in pod["metadata"].get("ownerReferences") or ())
        ]

    def _is_admitted(self, status: Document) -> bool:
        return any(
            one["type"] == "Admitted" and one["status"] == "True"
            for one in status.get("conditions") or ()
        )

    def _write(self, job: Document, status: Document) -> None:
        self._cluster.patch(_ref(TRAINING_JOBS, job), {"status": status}, subresource="status")

    # ------------------------------------------------------------ nodes
    def _list_open(self, pod: Document) -> list[str]:
        affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
        nodes = [node["metadata"] for node in self._cluster.scan(NODES)]
        required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
        if not required:  # what a pod prefers is left aside
            return [node["name"] for node in nodes]
        [term] = required["nodeSelectorTerms"]
        [rule] = term["matchExpressions"]
        is_in = rule["operator"] == "In"
        found = [(node["name"], node["labels"].get(rule["key"])) for node in nodes]
        return [name for name, value in found if (value in rule["values"]) == is_in]

    def _has_room(self, name: str, pod: Document) -> bool:
        node = self._cluster.get(Ref(NODES, "", name))
        on_it = [p for p in self._cluster.scan(PODS) if p["spec"].get("nodeName") == name]
        free = _parse(node["status"]["allocatable"]["cpu"]) - sum(map(get_request, on_it))
        return get_request(pod) <= free


def make_node(name: str, cpu: int = 8) -> Document:
    """A node that is ready."""
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {
            "allocatable": {"cpu": str(cpu), "memory": "64Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def make_service(name: str, cpu: float = 1) -> Document:
    """A pod of somebody else's."""
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": str(cpu)}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "priority": 0},
    }


def get_request(pod: Document) -> int:
    """Thousandths of a CPU."""
    requests = pod["spec"]["containers"][0].get("resources", {}).get("requests", {})
    return _parse(requests.get("cpu", "0"))


def _get_cpu(job: Document, role: str) -> int:
    template = job["spec"]["etReplicaSpecs"][role]["template"]
    return get_request(template)


def _parse(quantity: object) -> int:
    return parse_quantity(quantity, 1000)


def _find_reason(status: Document) -> str:
    conditions = status.get("conditions") or ()
    return next((one["reason"] for one in conditions if one["type"] == "Admitted"), "")


def _condition(status: str, reason: str) -> list[Document]:
    return [{"type": "Admitted", "status": status, "reason": reason}]


def _ref(resource: Any, document: Document) -> Ref:
    metadata = document["metadata"]
    return Ref(resource, metadata.get("namespace", ""), metadata["name"])
