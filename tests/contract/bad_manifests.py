"""Manifests that cannot work, each with the words that its author must be told.

`refusal` is what the API server says by our schema and rules; None where only the operator can see
it. `complaint` is what the operator says when the object is stored all the same: before the rules
existed, or by a server that does not check them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.makers import Document, make_job, make_scale_in, make_scale_out


@dataclass(frozen=True, slots=True)
class Bad:
    """One manifest and the words about it."""

    title: str
    manifest: Document
    refusal: str | None
    complaint: str


def job(change: Callable[[Document], Any], **fields: Any) -> Document:
    """A good job, changed. `change` gets its spec."""
    manifest = make_job(**fields)
    change(manifest["spec"])
    return manifest


def role(spec: Document, name: str) -> Document:
    """What is said about the launcher or the worker."""
    found: Document = spec["etReplicaSpecs"][name]
    return found


def pod(spec: Document, name: str) -> Document:
    """The pod's spec in a role's template."""
    found: Document = role(spec, name)["template"]["spec"]
    return found


def first(spec: Document, name: str) -> Document:
    """The first container of a role."""
    found: Document = pod(spec, name)["containers"][0]
    return found


def scale_in(**spec: Any) -> Document:
    """A good ScaleIn with some fields replaced."""
    manifest = make_scale_in("in", count=1)
    manifest["spec"].update(spec)
    return manifest


def scale_out(**spec: Any) -> Document:
    """A good ScaleOut with some fields replaced."""
    manifest = make_scale_out("out")
    manifest["spec"].update(spec)
    return manifest


OTHER = {"name": "other", "image": "localhost/other:dev"}
SECRET = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}

BAD_NAMES = [
    Bad("a name with a dot", make_job("a.b"), "without dots", "metadata.name: must be a DNS label"),
    Bad("a name too long", make_job("a" * 50), "at most 49", "metadata.name: must be a DNS label"),
]

BAD_ROLES = [
    Bad(
        "no roles",
        job(lambda spec: spec.pop("etReplicaSpecs")),
        "spec.etReplicaSpecs: Required value",
        "spec.etReplicaSpecs: is required",
    ),
    Bad(
        "no launcher",
        job(lambda spec: spec["etReplicaSpecs"].pop("launcher")),
        "spec.etReplicaSpecs.launcher: Required value",
        "spec.etReplicaSpecs.launcher: is required",
    ),
    Bad(
        "no worker",
        job(lambda spec: spec["etReplicaSpecs"].pop("worker")),
        "spec.etReplicaSpecs.worker: Required value",
        "spec.etReplicaSpecs.worker: is required",
    ),
    Bad(
        "no template",
        job(lambda spec: role(spec, "worker").pop("template")),
        "spec.etReplicaSpecs.worker.template: Required value",
        "spec.etReplicaSpecs.worker.template: is required",
    ),
    Bad(
        "two launchers",
        job(lambda spec: role(spec, "launcher").update(replicas=2)),
        "a job has one launcher",
        "launcher.replicas: a job has one launcher",
    ),
    Bad(
        "no worker wanted",
        make_job(workers=0),
        "worker.replicas in body should be greater than or equal to 1",
        "worker.replicas: must be 1 or more",
    ),
    Bad(
        "a number in quotes",
        job(lambda spec: role(spec, "worker").update(replicas="2")),
        'worker.replicas in body must be of type integer: "string"',
        "worker.replicas: must be a whole number",
    ),
    Bad(
        "min above replicas",
        make_job(workers=2, minReplicas=3),
        "minReplicas must not be larger than replicas",
        "worker.minReplicas: 3 is larger than replicas",
    ),
    Bad(
        "max below replicas",
        make_job(workers=4, maxReplicas=3),
        "maxReplicas must not be smaller than replicas",
        "worker.maxReplicas: 3 is smaller than replicas",
    ),
    Bad(
        "more workers than fit into a status",
        make_job(workers=1025),
        "a job has 1024 workers at most",
        "worker.replicas: 1025 is too many: a job has 1024 workers at most",
    ),
    Bad(
        "a template that leaves no room for a status",
        job(lambda spec: first(spec, "worker").update(args=["x" * 131_072])),
        None,
        "worker.template: is 131",
    ),
    Bad(
        "no minimum at all",
        make_job(minReplicas=0),
        "worker.minReplicas in body should be greater than or equal to 1",
        "worker.minReplicas: must be 1 or more",
    ),
]

BAD_PODS = [
    Bad(
        "no command",
        job(lambda spec: first(spec, "launcher").pop("command")),
        "the launcher's first container must give a command",
        "command: the launcher's first container must give a command",
    ),
    Bad(
        "an empty command",
        job(lambda spec: first(spec, "launcher").update(command=[])),
        "the launcher's first container must give a command",
        "command: the launcher's first container must give a command",
    ),
    Bad(
        "a command that is no list",
        job(lambda spec: first(spec, "launcher").update(command="horovodrun")),
        'command in body must be of type array: "string"',
        "command: must be a list",
    ),
    Bad(
        "no container in the launcher",
        job(lambda spec: pod(spec, "launcher").update(containers=[])),
        "launcher.template.spec.containers in body should have at least 1 items",
        "launcher.template.spec.containers: at least one container is required",
    ),
    Bad(
        "no container in the worker",
        job(lambda spec: pod(spec, "worker").pop("containers")),
        "worker.template.spec.containers: Required value",
        "worker.template.spec.containers: at least one container is required",
    ),
    Bad(
        "two containers of one name",
        job(lambda spec: pod(spec, "worker")["containers"].extend([OTHER, OTHER])),
        "worker.template.spec.containers[2]: Duplicate value",
        "worker.template.spec.containers[2].name: there are two containers named other",
    ),
    Bad(
        "an init container of a container's name",
        job(lambda spec: pod(spec, "worker").update(initContainers=[first(spec, "worker")])),
        None,
        "worker.template.spec.initContainers[0].name: there are two containers named trainer",
    ),
    Bad(
        "a container without a name",
        job(lambda spec: first(spec, "worker").pop("name")),
        "worker.template.spec.containers[0].name: Required value",
        "worker.template.spec.containers[0].name: is required",
    ),
    Bad(
        "the broker's name",
        job(
            lambda spec: pod(spec, "launcher")["containers"].append(OTHER | {"name": "edl-broker"})
        ),
        "the container name edl-broker is the operator's own",
        "containers[1].name: edl-broker is the operator's own",
    ),
    Bad(
        "the name of a volume of ours",
        job(lambda spec: pod(spec, "worker").update(volumes=[{"name": "edl-run"}])),
        "volume names that begin with edl- are the operator's own",
        "volumes[0].name: names that begin with edl- are the operator's own",
    ),
    *(
        Bad(
            f"a volume of ours in the {role}'s {kind}",
            job(
                lambda spec, role=role, kind=kind: (
                    pod(spec, role)
                    .setdefault(kind, [])
                    .append(OTHER | {"volumeMounts": [{"name": "edl-token", "mountPath": "/t"}]})
                )
            ),
            "volumes that begin with edl- are the operator's own, mount yours",
            "volumeMounts[0].name: volumes that begin with edl- are the operator's own",
        )
        for role in ("launcher", "worker")
        for kind in ("containers", "initContainers")
    ),
    Bad(
        "a volume of ours in the first container",
        job(
            lambda spec: first(spec, "launcher").update(
                volumeMounts=[{"name": "edl-run", "mountPath": "/t"}]
            )
        ),
        "volumes that begin with edl- are the operator's own, mount yours",
        "containers[0].volumeMounts[0].name: volumes that begin with edl- are the operator's own",
    ),
    Bad(
        "a volume of ours as a device",
        job(
            lambda spec: first(spec, "worker").update(
                volumeDevices=[{"name": "edl-keys", "devicePath": "/dev/x"}]
            )
        ),
        None,
        "volumeDevices[0].name: volumes that begin with edl- are the operator's own",
    ),
    Bad(
        "containers that no pod can be created with",
        job(lambda spec: pod(spec, "worker").update(ephemeralContainers=[OTHER])),
        None,
        "worker.template.spec.ephemeralContainers: no pod can be created with these",
    ),
    *(
        Bad(
            f"a {source} of the broker's account{', which is named' if account else ''}",
            job(
                lambda spec, source=source, account=account: pod(spec, "launcher").update(
                    {
                        **account,
                        "volumes": [
                            {"name": "mine", "projected": {"sources": [{source: {"path": "t"}}]}}
                        ],
                    }
                )
            ),
            None,
            f"sources[0].{source}: would be a token of the broker's account",
        )
        for source in ("serviceAccountToken", "podCertificate")
        for account in ({}, {"serviceAccountName": "train-launcher"})
    ),
    Bad(
        "a mount over our files",
        job(
            lambda spec: first(spec, "launcher").update(
                volumeMounts=[{"name": "data", "mountPath": "/etc/edl/"}]
            )
        ),
        None,
        "volumeMounts[0].mountPath: the operator puts its own files in /etc/edl/",
    ),
    Bad(
        "a mount over our files, written otherwise",
        job(
            lambda spec: first(spec, "launcher").update(
                volumeMounts=[{"name": "data", "mountPath": "etc//edl"}]
            )
        ),
        None,
        "volumeMounts[0].mountPath: the operator puts its own files in etc//edl",
    ),
    Bad(
        "a launcher that shares its processes",
        job(lambda spec: pod(spec, "launcher").update(shareProcessNamespace=True)),
        "shareProcessNamespace would open the operator's token",
        "launcher.template.spec.shareProcessNamespace: would open the operator's token",
    ),
    Bad(
        "a launcher among the node's processes",
        job(lambda spec: pod(spec, "launcher").update(hostPID=True)),
        "hostPID would open the operator's token",
        "launcher.template.spec.hostPID: would open the operator's token",
    ),
]

BAD_CHOICES = [
    Bad(
        f"{field}: {value}",
        make_job(**{field: value}),
        refusal,
        f"spec.{field}: {complaint}",
    )
    for field, value, refusal, complaint in [
        ("cleanPodPolicy", "Sometimes", "Unsupported value", "must be one of None, Running, All"),
        ("launcherAttachMode", "telnet", "Unsupported value", "must be one of kubexec, ssh"),
        ("launcherCreationPolicy", "Never", "Unsupported value", "must be one of AtStartup"),
        ("restartPolicy", "Maybe", "Unsupported value", "must be one of Never, OnFailure"),
        ("slotsPerWorker", 0, "greater than or equal to 1", "must be 1 or more"),
        ("slotsPerWorker", 1025, "less than or equal to 1024", "must be 1024 or less"),
        ("backoffLimit", -1, "greater than or equal to 0", "must be 0 or more"),
        ("backoffLimit", 1.5, "must be of type integer", "must be a whole number"),
        ("activeDeadlineSeconds", 0, "greater than or equal to 1", "must be 1 or more"),
        ("ttlSecondsAfterFinished", -1, "greater than or equal to 0", "must be 0 or more"),
        ("drainTimeoutSeconds", 0, "greater than or equal to 1", "must be 1 or more"),
        ("driverStalledPolicy", "Wait", "Unsupported value", "must be one of Ignore, Restart"),
        ("lossRecovery", "Slow", "Unsupported value", "must be one of Fast, Wait"),
        ("noticePolicy", "Soft", "Unsupported value", "must be one of Firm, Eager"),
        ("noticeSignal", "SIGTERM", "Unsupported value", "must be one of None, SIGUSR1, SIGUSR2"),
        ("noticeScript", "/save.sh", "must be of type object", "must be an object"),
        ("suspend", "yes", "must be of type boolean", "must be true or false"),
    ]
]

BAD_SCALINGS = [
    Bad(
        "nothing to delete",
        scale_in(toDelete={}),
        "give toDelete.count (1 or more) or toDelete.podNames",
        "spec.toDelete: give count (1 or more) or podNames",
    ),
    Bad(
        "a count of none",
        scale_in(toDelete={"count": 0}),
        "give toDelete.count (1 or more) or toDelete.podNames",
        "spec.toDelete: give count (1 or more) or podNames",
    ),
    Bad(
        "a count below none",
        scale_in(toDelete={"count": -1}),
        "toDelete.count in body should be greater than or equal to 0",
        "spec.toDelete.count: must be 0 or more",
    ),
    Bad(
        "nothing said to delete",
        {**scale_in(), "spec": {"selector": {"name": "train"}}},
        "spec.toDelete: Required value",
        "spec.toDelete: is required",
    ),
    Bad(
        "no job to shrink",
        scale_in(selector={}),
        "spec.selector.name: Required value",
        "spec.selector.name: is required",
    ),
    Bad(
        "a secret for the script",
        scale_in(env=[SECRET]),
        "valueFrom cannot be resolved inside the launcher",
        "spec.env[0].valueFrom: cannot be resolved inside the launcher",
    ),
    Bad(
        "a time-out below none",
        scale_in(timeout=-1),
        "spec.timeout in body should be greater than or equal to 0",
        "spec.timeout: must be 0 or more",
    ),
    Bad(
        "pod names that are numbers",
        scale_in(toDelete={"podNames": [1]}),
        "must be of type string",
        "spec.toDelete.podNames[0]: must be a string: put 1 in quotes",
    ),
    Bad(
        "nothing to add",
        scale_out(toAdd={}),
        "spec.toAdd.count: Required value",
        "spec.toAdd.count: is required",
    ),
    Bad(
        "no worker to add",
        scale_out(toAdd={"count": 0}),
        "toAdd.count in body should be greater than or equal to 1",
        "spec.toAdd.count: must be 1 or more",
    ),
    Bad(
        "more than a job can have",
        scale_out(toAdd={"count": 1025}),
        "toAdd.count in body should be less than or equal to 1024",
        "spec.toAdd.count: must be 1024 or less",
    ),
    Bad(
        "no job to grow",
        scale_out(selector={"name": ""}),
        "spec.selector.name in body should be at least 1 chars long",
        "spec.selector.name: is required",
    ),
]

ALL = [*BAD_NAMES, *BAD_ROLES, *BAD_PODS, *BAD_CHOICES, *BAD_SCALINGS]
