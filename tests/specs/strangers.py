"""Objects that are none of ours and look as if they were: pods, ConfigMaps, reports, nodes.

They are such as an API server stores: it checks the types of its own kinds, so what is odd about
them is in texts, numbers and names.
"""

from __future__ import annotations

import random
from typing import Any

from et_contract.documents import encode_config, encode_report
from et_contract.names import CONFIG_KEY, build_report_key
from et_contract.pods import LABEL_ROLE, Role
from et_kube.notices import LEAVING_AT, LEAVING_REASON
from et_operator.model.names import (
    ANNOTATION_RETRIES,
    LABEL_EPOCH,
    LABEL_INDEX,
    LABEL_RUNTIME,
    build_job_labels,
)
from tests import fuzzing
from tests.makers import Document, make_config_map, make_pod
from tests.specs.odds import draw

_NUMBERS = ("-1", "0", "1", "7", "3000000", "2147483647", "9" * 20, "a", "")
_GRACES = (0, 1, 30, 10**9, 2**31 - 1, 10**11, 2**63 - 1)
_ENDS = ("1734-03-01T00:00:00Z", "1969-12-31T23:59:59Z", "2318-01-01T00:00:00Z")
"""Of a grace that is as long as the server can count."""
_TAINTS = ("node.kubernetes.io/unreachable", "karpenter.sh/disrupted", "a")
_STATES = ("True", "False", "Unknown")
_FOUR = (
    *("4", "+4", "4.", "4000m", f"{0:080}4", f"{0:050}4000m", "4e0", f"4e{0:080}", "4e4294967296"),
    f"{0:090}4e-4294967296",
)
"""Four CPUs: what the server does not have to write anew it keeps as its author wrote it."""
_MANY = 3000
"""Labels that a node must have, and terms beside them: a pod of a few hundred kilobytes."""


class Stranger:
    """Builders that share their dice.

    Args:
        dice: the only source of chance.
        jobs: names of jobs that may be named, with the uid of each.
    """

    def __init__(self, dice: random.Random, jobs: dict[str, str]) -> None:
        self.dice = dice
        self._jobs = jobs

    def build_pod(self, name: str) -> Document:
        """One with our labels, owned by a job, by nobody, or by two who are not there."""
        job = self.dice.choice(tuple(self._jobs))
        labels = build_job_labels(job) | {
            LABEL_ROLE: self.dice.choice((*(role.value for role in Role), "chief")),
            LABEL_INDEX: self.dice.choice(_NUMBERS),
            LABEL_EPOCH: self.dice.choice(_NUMBERS),
        }
        kept = {key: value for key, value in labels.items() if self.dice.random() < 0.9}
        pod = make_pod(name, labels=kept, **self._own(job))
        pod["metadata"]["annotations"] = {
            "kai.alibabacloud.com/container": draw(self.dice, "text"),
            "controller.kubernetes.io/pod-deletion-cost": self.dice.choice(_NUMBERS),
            ANNOTATION_RETRIES: self.dice.choice(_NUMBERS),
            LEAVING_AT: draw(self.dice, self.dice.choice(("text", "time"))),
            LEAVING_REASON: draw(self.dice, "text"),
        }
        pod["spec"]["terminationGracePeriodSeconds"] = self.dice.choice(_GRACES)
        if self.dice.random() < 0.05:
            pod["spec"]["nodeSelector"] = {f"l{number}": "v" for number in range(_MANY)}
            pod["spec"]["affinity"] = _require([{}] * _MANY)
        return pod

    def build_pod_status(self) -> Document:
        """What whoever may write statuses of pods can say of one."""
        state = self.dice.choice(
            (
                {"running": {"startedAt": draw(self.dice, "time")}},
                {"waiting": {"reason": draw(self.dice, "text"), "message": "m" * 5_000}},
                {"terminated": self._end()},
                {},
            )
        )
        container = {"name": "main", "state": state, "lastState": {"terminated": self._end()}}
        return {
            "phase": self.dice.choice(("Pending", "Running", "Succeeded", "Failed", "Unknown")),
            "reason": draw(self.dice, "text"),
            "message": draw(self.dice, "text"),
            "containerStatuses": [container] * self.dice.choice((0, 1, 2)),
            "conditions": [{"type": "DisruptionTarget", "status": self.dice.choice(_STATES)}],
        }

    def build_stored_pod(self, name: str) -> Document:
        """One as it may be read: of four CPUs on `node`, or of none yet, whatever else it says."""
        pod, status = self.build_pod(name), self.build_pod_status()
        pod["metadata"] |= {"namespace": "team", "uid": "u", "resourceVersion": "7"}
        pod["metadata"]["creationTimestamp"] = draw(self.dice, "time")
        if self.dice.random() < 0.7:
            pod["metadata"]["deletionTimestamp"] = self.dice.choice(
                (*_ENDS, draw(self.dice, "time"))
            )
            pod["metadata"]["deletionGracePeriodSeconds"] = self.dice.choice(_GRACES)
        values = [draw(self.dice, "text") for _ in range(2)]
        term = {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": values}]}
        told = {
            "type": "PodScheduled",
            "status": "False",
            "lastTransitionTime": draw(self.dice, "time"),
        }
        pod["spec"] |= {
            "nodeName": self.dice.choice(("", "node", "node", "n" * 300)),
            "priority": draw(self.dice, "integer"),
            "affinity": pod["spec"].get("affinity", _require([term])),
        }
        pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": self.dice.choice(_FOUR)}}
        status["conditions"] += [told] * self.dice.choice((0, 1, 300))
        return pod | {"status": status}

    def build_config_map(self, name: str, job: str) -> Document:
        """A config, a report, a runtime or nothing of these, for a job."""
        epoch = self.dice.choice(("1", "2", "x", "9" * 30))
        data = {
            CONFIG_KEY: self.build_config(),
            build_report_key(epoch): self.build_report(),
            "a": draw(self.dice, "text"),
        }
        labels = build_job_labels(job)
        if self.dice.random() < 0.3:
            labels[LABEL_RUNTIME] = self.dice.choice(("0123456789", "x", ""))
        return make_config_map(name, data, labels=labels, **self._own(job))

    def build_report(self) -> str:
        """The text of a report: a good one with something changed in it."""
        fuzzer = fuzzing.Fuzzer(self.dice)
        return fuzzer.dump(fuzzing.json.loads(encode_report(fuzzing.REPORT)))

    def build_config(self) -> str:
        """The same of a config."""
        fuzzer = fuzzing.Fuzzer(self.dice)
        return fuzzer.dump(fuzzing.json.loads(encode_config(fuzzing.CONFIG)))

    def build_node_change(self) -> Document:
        """What somebody makes of a node: taints, conditions, an annotation or two."""
        conditions = [
            {"type": kind, "status": self.dice.choice(_STATES), "message": draw(self.dice, "text")}
            for kind in ("Ready", "InstanceExpired", "Ready")
            if self.dice.random() < 0.7
        ]
        taints = [
            {"key": key, "effect": "NoExecute"} for key in _TAINTS if self.dice.random() < 0.3
        ]
        return {
            "spec": {"taints": taints, "unschedulable": self.dice.random() < 0.5},
            "status": {"conditions": conditions},
        }

    def _own(self, job: str) -> dict[str, Any]:
        """The owners of an object, in the form of metadata."""
        uid = self.dice.choice((self._jobs[job], "11111111-2222-4333-8444-555555555555"))
        owner = {
            "apiVersion": "kai.alibabacloud.com/v1alpha1",
            "kind": "TrainingJob",
            "name": job,
            "uid": uid,
            "controller": self.dice.random() < 0.8,
        }
        return {"ownerReferences": [owner]} if self.dice.random() < 0.8 else {}

    def _end(self) -> Document:
        return {
            "exitCode": draw(self.dice, "integer"),
            "reason": draw(self.dice, "text"),
            "message": draw(self.dice, "text"),
            "finishedAt": draw(self.dice, "time"),
            "startedAt": draw(self.dice, "time"),
        }


def _require(terms: list[Document]) -> Document:
    """An affinity to nodes that match one of these terms; an empty one matches none."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"nodeAffinity": required}
