"""The NetworkPolicy of a job: its pods are reached by each other and by nobody else.

Horovod's rendezvous server unpickles whatever is put there and asks nobody who he is
(horovod/runner/elastic/rendezvous.py:44-50 and common/util/codec.py of 0.28.1): who reaches a
launcher's port runs code in it. Ports are chosen at random: the rule is by pod and not by port.
"""

from __future__ import annotations

from et_kube.resources import Json
from et_operator.model.jobs import TrainingJob
from et_operator.model.names import build_job_labels, build_labels, build_network_name
from et_operator.planning.manifests.owning import build_metadata


def build_network_policy(job: TrainingJob) -> Json:
    """Ingress from pods of this job in this namespace alone; egress is left as it is.

    Policies add up: who wants a port of these pods to be reached adds a policy of his own.
    """
    name = job.key.name
    mine = {"matchLabels": build_job_labels(name)}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": build_metadata(job, build_network_name(name), build_labels(name)),
        "spec": {
            "podSelector": mine,
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": mine}]}],
        },
    }
