"""Scheduler, kubelets and the controllers that follow nodes: what happens to pods, step by step.

Only by what a cluster stores: no process runs, and nothing happens between two calls of a test. Who
is stuck, lost or clinging is said by the test beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from et_kube.resources import CONFIG_MAPS, NODES, PODS, Json, Ref
from fakes.cluster import FakeCluster
from fakes.documents import copy_json

Document = dict[str, Any]
KILLED = 137
TERMINATED = 143


class FakeKubelet:
    """Every node of a cluster. Nothing happens between steps.

    Args:
        cluster: whose pods it runs.
        nodes: names of the nodes to begin with.

    `waiting` are names of pods that stay unscheduled, with the scheduler's message; `stuck` those
    whose containers do not start, with the reason; `clinging` those that do not end when deleted;
    `outliving` names of containers that do not end with the first one of their pod.
    """

    def __init__(self, cluster: FakeCluster, nodes: Iterable[str] = ("node-1", "node-2")) -> None:
        self._cluster = cluster
        self.waiting: dict[str, str] = {}
        self.stuck: dict[str, str] = {}
        self.clinging: set[str] = set()
        self.outliving: set[str] = set()
        self.lost: set[str] = set()
        self.is_flushing: Callable[[str], bool] = lambda _: False
        """Whether the sidecar of the pod with this uid needs longer to end than its container."""
        self.terminate_command: Callable[[str], int] = lambda _: TERMINATED
        """How the first container of the pod with this uid ends on SIGTERM."""
        self._placed = 0
        self._repairs: dict[str, Document | None] = {}
        """Statuses by uid of pods that came back from a backup; None: to be started anew."""
        for name in nodes:
            self.add_node(name)

    # ------------------------------------------------------------ nodes
    def add_node(self, name: str) -> None:
        """A ready node."""
        self._cluster.create(NODES, None, {"metadata": {"name": name}, "spec": {}})
        self._edit(Ref(NODES, "", name), lambda d: d.update(status=_node_status("True")))

    def lose_node(self, name: str) -> None:
        """The node's kubelet is heard no more: not ready, tainted, and no deletion is confirmed."""
        self.lost.add(name)
        taint = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}

        def change(node: Document) -> None:
            node["spec"]["taints"] = [taint]
            node["status"] = _node_status("Unknown")

        self._edit(Ref(NODES, "", name), change)

    def evict_from(self, name: str) -> None:
        """The taint has lasted longer than the pods tolerate it: their deletion is asked for."""
        for pod in self._list_on(name):
            self.mark_disrupted(pod["metadata"]["name"], "DeletionByTaintManager")
            self._cluster.delete(_ref(pod))

    def remove_node(self, name: str) -> None:
        """The node object goes, and the pod garbage collector takes its pods."""
        self._cluster.remove(Ref(NODES, "", name))
        for pod in self._list_on(name):
            self._cluster.delete(_ref(pod), grace_seconds=0)

    # ------------------------------------------------------------ a restore of etcd
    def outlive(self, restore: Callable[[], None]) -> set[str]:
        """Let etcd be restored, and compare afterwards what runs with what should.

        Containers of pods that have vanished are killed. A pod that runs is reported as it is, and
        so is one that has ended. One that was deleted, or ran on another node, is started anew with
        its old uid, unless it had ended by then.

        Returns the uids of those whose containers live on.
        """
        before = {pod["metadata"]["uid"]: pod for pod in self._cluster.scan(PODS)}
        untold, self._repairs = self._repairs, {}
        restore()
        after = {pod["metadata"]["uid"]: pod for pod in self._cluster.scan(PODS)}
        for uid, pod in after.items():
            node, was = pod["spec"].get("nodeName"), before.get(uid)
            if node is None:
                continue
            if was is None or was["spec"].get("nodeName") != node:
                if pod["status"]["phase"] not in {"Succeeded", "Failed"}:
                    self._repairs[uid] = None
            else:
                is_told = uid not in untold
                self._repairs[uid] = self._find_true_status(was) if is_told else untold[uid]
        for name in self.lost:
            if self._cluster.find(Ref(NODES, "", name)) is not None:
                self.lose_node(name)
                self.evict_from(name)
        return {uid for uid, status in self._repairs.items() if status is not None}

    def _find_true_status(self, pod: Json) -> Document:
        """One that is told to end has its SIGTERM: it ends though nobody remembers the deletion."""
        document: Document = copy_json(pod)
        is_ending = "deletionTimestamp" in pod["metadata"] and _find_code(pod) is None
        if is_ending and pod["status"].get("containerStatuses"):
            self._end(document, TERMINATED, reason="Error")
        status: Document = document["status"]
        return status

    def _repair_named(self, name: str) -> None:
        """What happens to a container from now on must not be lost with what etcd has forgotten."""
        pod = self._cluster.get(self._find(name))
        if pod["metadata"]["uid"] in self._repairs:
            self._repair(pod)

    def _repair(self, pod: Json) -> None:
        status = self._repairs.pop(pod["metadata"]["uid"])
        anew = {"phase": "Pending", "conditions": pod["status"].get("conditions", [])}
        self._edit(_ref(pod), lambda d: d.update(status=anew if status is None else status))

    # ------------------------------------------------------------ pods
    def step(self) -> bool:
        """One stage for each pod; whether anything happened."""
        revision = self._cluster.history.revision
        for pod in self._cluster.scan(PODS):
            self._advance(pod)
        return self._cluster.history.revision != revision

    def terminate(self, name: str, code: int, *, message: str = "", reason: str = "") -> None:
        """The pod's container ends with this code; its sidecars follow, and then its phase."""
        self._repair_named(name)
        if "containerStatuses" not in self._cluster.get(self._find(name))["status"]:
            return  # it is yet to be started anew

        def change(pod: Document) -> None:
            self._end(pod, code, message=message, reason=reason)
            if pod["spec"].get("initContainers"):
                _keep_sidecars(pod)
            self._keep_others(pod)

        self._edit(self._find(name), change)

    def fail(self, name: str, *, reason: str = "Evicted", disruption: str = "") -> None:
        """The kubelet ends the pod for a reason of the node's."""
        self._repair_named(name)
        if disruption:
            self.mark_disrupted(name, disruption)

        def change(pod: Document) -> None:
            self._end(pod, KILLED, reason="Error")
            pod["status"] |= {"phase": "Failed", "reason": reason}

        self._edit(self._find(name), change)

    def mark_disrupted(self, name: str, reason: str) -> None:
        """Condition DisruptionTarget, as whoever disrupts a pod sets it first."""
        condition = {"type": "DisruptionTarget", "status": "True", "reason": reason}

        def change(pod: Document) -> None:
            pod["status"].setdefault("conditions", []).append(condition)

        self._edit(self._find(name), change)

    def _advance(self, pod: Document) -> None:
        name, status = pod["metadata"]["name"], pod["status"]
        node, code = pod["spec"].get("nodeName"), _find_code(pod)
        if pod["metadata"]["uid"] in self._repairs and node not in self.lost:
            self._repair(pod)
        elif node in self.lost or status["phase"] in {"Succeeded", "Failed"}:
            self._confirm(pod, node)
        elif "deletionTimestamp" in pod["metadata"]:
            if name not in self.clinging:
                self._terminate_deleted(pod)
        elif node is None:
            self._schedule(pod)
        elif status["phase"] == "Pending":
            self._start(pod)
        elif code is not None and not self._is_held(pod):
            self._edit(_ref(pod), lambda d: self._end(d, code))

    def _terminate_deleted(self, pod: Document) -> None:
        """The first container gets SIGTERM; its sidecars follow when they have told all."""
        uid, code = pod["metadata"]["uid"], _find_code(pod)
        is_first = code is None and "containerStatuses" in pod["status"]
        if is_first:
            code = self.terminate_command(uid)
        end = TERMINATED if code is None else code

        def change(document: Document) -> None:
            self._end(document, end)
            if is_first and document["spec"].get("initContainers"):
                _keep_sidecars(document)

        if is_first or not self.is_flushing(uid):
            self._edit(_ref(pod), change)

    def _is_held(self, pod: Json) -> bool:
        """Whether another container runs on though the first one has ended."""
        others = {c["name"] for c in pod["spec"]["containers"][1:]}
        return self.is_flushing(pod["metadata"]["uid"]) or not self.outliving.isdisjoint(others)

    def _keep_others(self, pod: Document) -> None:
        """Containers that outlive the first one keep the pod's phase Running."""
        for status in pod["status"]["containerStatuses"]:
            if status["name"] in self.outliving:
                status["state"] = {"running": {"startedAt": _find_start(pod)}}
                pod["status"]["phase"] = "Running"

    def _confirm(self, pod: Document, node: str | None) -> None:
        """Of a deletion: the containers have ended, so the object may go."""
        if "deletionTimestamp" in pod["metadata"] and node not in self.lost:
            self._cluster.delete(_ref(pod), uid=pod["metadata"]["uid"], grace_seconds=0)

    def _schedule(self, pod: Document) -> None:
        message = self.waiting.get(pod["metadata"]["name"])
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        if message is not None:
            condition["message"] = message
            self._edit(_ref(pod), lambda d: d["status"].update(conditions=[condition]))
            return
        nodes = sorted(n["metadata"]["name"] for n in self._cluster.scan(NODES))
        nodes = [n for n in nodes if n not in self.lost]
        if nodes:
            node = nodes[self._placed % len(nodes)]
            self._placed += 1
            done = {"type": "PodScheduled", "status": "True"}
            self._edit(_ref(pod), lambda d: _bind(d, node, done))

    def _start(self, pod: Document) -> None:
        reason = self.stuck.get(pod["metadata"]["name"])
        missing = self._find_missing_volume(pod)
        if reason or missing:
            state = {"waiting": {"reason": reason or "ContainerCreating", "message": missing}}
            self._edit(_ref(pod), lambda d: _set_states(d, state))
            return
        state = {"running": {"startedAt": self._stamp()}}

        def change(document: Document) -> None:
            document["status"]["phase"] = "Running"
            document["status"]["startTime"] = self._stamp()
            _set_states(document, state)

        self._edit(_ref(pod), change)

    def _find_missing_volume(self, pod: Json) -> str:
        place = pod["metadata"]["namespace"]
        for volume in pod["spec"].get("volumes", ()):
            source = volume.get("configMap")
            if not source or source.get("optional"):
                continue
            if self._cluster.find(Ref(CONFIG_MAPS, place, source["name"])) is None:
                return f'configmap "{source["name"]}" not found'
        return ""

    def _end(self, pod: Document, code: int, *, message: str = "", reason: str = "") -> None:
        """A container that has ended keeps its own end."""
        known = {
            s["name"]: s
            for s in pod["status"].get("containerStatuses", ())
            if "terminated" in s["state"]
        }
        ended = {"exitCode": code, "finishedAt": self._stamp(), "startedAt": _find_start(pod)}
        ended["reason"] = reason or ("Completed" if code == 0 else "Error")
        if message:
            ended["message"] = message
        _set_states(pod, {"terminated": ended})
        states = pod["status"].get("containerStatuses", ())
        pod["status"]["containerStatuses"] = [known.get(s["name"], s) for s in states]
        pod["status"]["phase"] = "Succeeded" if code == 0 else "Failed"

    def _list_on(self, node: str) -> list[Document]:
        return self._cluster.list(PODS, field_selector=f"spec.nodeName={node}")

    def _find(self, name: str) -> Ref:
        found = self._cluster.list(PODS, field_selector=f"metadata.name={name}")
        return _ref(found[0])

    def _edit(self, ref: Ref, change: Callable[[Document], Any]) -> None:
        self._cluster.edit(ref, change)

    def _stamp(self) -> str:
        now: datetime = self._cluster.now()
        return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def _bind(pod: Document, node: str, condition: Document) -> None:
    pod["spec"]["nodeName"] = node
    pod["status"]["conditions"] = [condition]


def _set_states(pod: Document, state: Json) -> None:
    """Put every container into one state; native sidecars are among the init containers."""
    for field, key in (
        ("containers", "containerStatuses"),
        ("initContainers", "initContainerStatuses"),
    ):
        containers = pod["spec"].get(field, ())
        if containers:
            pod["status"][key] = [
                {
                    "name": c["name"],
                    "image": c["image"],
                    "state": copy_json(state),
                    "started": "running" in state,
                    "ready": "running" in state,
                    "restartCount": 0,
                }
                for c in containers
            ]


def _keep_sidecars(pod: Document) -> None:
    pod["status"]["phase"] = "Running"
    for status in pod["status"]["initContainerStatuses"]:
        status["state"] = {"running": {"startedAt": _find_start(pod)}}


def _find_code(pod: Json) -> int | None:
    """How the first container ended; None while it has not."""
    for container in pod["status"].get("containerStatuses", ()):
        code = container["state"].get("terminated", {}).get("exitCode")
        return None if code is None else int(code)
    return None


def _find_start(pod: Json) -> str | None:
    for container in pod["status"].get("containerStatuses", ()):
        for state in ("running", "terminated"):
            if state in container["state"]:
                return str(container["state"][state].get("startedAt"))
    return None


def _node_status(ready: str) -> Document:
    return {"conditions": [{"type": "Ready", "status": ready}]}


def _ref(pod: Json) -> Ref:
    return Ref(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"])
