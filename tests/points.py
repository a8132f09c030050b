"""What is proven, point by point: the rows of the closing table of `make test`.

A point is proven by the tests that carry `@pytest.mark.point("<its key>")`, or by a step of
tests/run.py of the same key. A point whose tests did not run, or did not pass, fails the run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Point:
    """One row: what is promised, and against what it is tried."""

    key: str
    promise: str
    against: str


PYTHON = "python 3.11"
REAL = "Kubernetes 1.36.3"
OLDEST = "Kubernetes 1.30.14"
JOINED = "real agents, broker and shims; an API server on loopback"
HELM = "Helm 4.2.4, kustomize of Kubernetes 1.36.3"
TRAINING = "Kubernetes 1.36.3, Horovod 0.28.1"
TORCH = "Kubernetes 1.36.3, torch 1.13"
MPI = "Kubernetes 1.36.3, Open MPI 4.1"

POINTS = (
    Point("check", "style, types, layers, unit tests", PYTHON),
    Point("long", "unit tests that take longer, by the real clock", PYTHON),
    Point("rules", "unit tests that take longer, of planning and scheduling", PYTHON),
    # simulation
    Point("simulation", "errors at each write, old caches, two leaders: same end", "fake"),
    Point("old-python", "agent, shim and hostdiscovery on the oldest interpreter", "python 3.7"),
    Point("cluster-up", "the cluster comes up; a second up changes nothing", REAL),
    Point("cluster-traceless", "down leaves nothing behind", REAL),
    Point("cluster-recovers", "up puts an interrupted cluster right", REAL),
    Point("images", "both images build from their Dockerfiles and load", "buildah, containerd"),
    Point("deploy", "kubectl apply -k deploy is the whole installation", REAL),
    Point("contract-fake", "the contract cases hold for the in-memory cluster", "fake"),
    Point("contract-real", "the same cases hold for the API server", REAL),
    Point("refusals", "bad manifests are refused in words that help", REAL),
    Point("accepted", "manifests for et-operator and from arena are accepted", REAL),
    Point("specs", "150 bad manifests: each in words or at work, and a healthy job beside", REAL),
    Point("tutorial", "each command of the tutorial prints what the page shows", TRAINING),
    Point("examples", "the scaling of the front page, typed as it stands", TRAINING),
    Point("no-lost-step", "2 -> 4 -> 3 with no repeated step", TRAINING),
    Point("rank-0", "the worker of rank 0 leaves", TRAINING),
    Point("pending-victim", "a worker that is still pending leaves", TRAINING),
    Point("below-min", "a ScaleIn below min is refused and nothing changes", TRAINING),
    Point("preempted", "a ScaleIn does not wait behind a ScaleOut that waits", TRAINING),
    Point("kubectl-scale", "kubectl scale grows and shrinks", TRAINING),
    Point("unschedulable", "a ScaleOut that cannot be scheduled gives back", TRAINING),
    Point("spare", "a spare above max-np leaves, or takes over from one that leaves", TRAINING),
    Point("slow-commit", "a script that commits every 20 s lets a worker go", TRAINING),
    Point("not-started", "a worker whose script has not started yet leaves", TRAINING),
    Point("script-success", "a scaling's script runs, with its environment", TRAINING),
    Point("script-failure", "a script that fails is tried again, then the scaling fails", TRAINING),
    Point("user-failure", "a failing command: reason and tail of the log in status", TRAINING),
    Point("suspend", "suspend and resume", TRAINING),
    Point("deletion", "deletion of a running job leaves nothing of it", TRAINING),
    Point("replaced", "a killed worker is replaced under a new name", TRAINING),
    Point("api-restart", "the API server restarts: no host delisted, no exit", TRAINING),
    Point("operator-killed", "kill -9 in a scaling: finished with the same victims", TRAINING),
    Point("no-token", "no token in any user container", TRAINING),
    # ssh
    Point("ssh", "launcherAttachMode ssh: horovodrun 2 -> 3 -> 2, no lost step", TRAINING),
    Point("ssh-pinned", "a worker with another host key than the job's is refused", REAL),
    Point("ssh-keys", "the job's keys: made once, read by its pods alone, gone with it", REAL),
    Point("ssh-ends", "a session ends with its connection, and is told when it has", REAL),
    # launchers
    Point(
        "in-process", "horovodrun with our transport inside: 2 -> 4 -> 3, no lost step", TRAINING
    ),
    Point("torchrun", "torchrun: 2 -> 3 -> 2 workers, from checkpoint to checkpoint", TORCH),
    Point("case-36", "torchrun's store is lost with the launcher: a new one goes on", TORCH),
    Point("mpirun", "mpirun with mpi4py: four ranks on two workers", MPI),
    Point("deepspeed", "a stand-in for DeepSpeed's runner, by our pdsh and ssh: four ranks", REAL),
    Point("case-21", "SIGTERM to horovodrun reaches workers, whatever shell it runs in", PYTHON),
    Point("case-31", "200 KB of environment and 5000 service links: it starts", PYTHON),
    Point("case-38", "SIGINT to a stand-in for DeepSpeed's runner: its pkill ends the ranks", REAL),
    Point("mpirun-lost", "a lost worker starts mpirun anew, and nobody is blamed", MPI),
    Point("not-elastic", "a job of mpirun is not scaled while it runs, and told so", MPI),
    Point(
        "case-37", "mpirun of 70 hosts; a rank or a daemon dies: fails once, leaves nothing", MPI
    ),
    # packages: what people install
    Point("helm", "the chart is linted by Helm itself", HELM),
    Point("chart", "the chart says what kustomize says, object by object, in every variant", HELM),
    Point(
        "helm-live", "a second release is installed, upgraded, uninstalled", f"{REAL}, Helm 4.2.4"
    ),
    Point("chart-errors", "wrong values and old clusters are refused by name", HELM),
    Point("distributions", "sdist and wheel build, install alone and run", PYTHON),
    # security: the claims of its page in docs
    Point("stolen-token", "a broker's token reaches its own job and nothing else", REAL),
    Point("no-escalation", "the operator's token grants no more than it holds", REAL),
    Point("exec-policy", "the exec policy pins the brokers' command", REAL),
    Point("operator-policy", "the operator's token does no more than the operator", REAL),
    Point("scheduler-policy", "et-scheduler's token writes no more than admissions", REAL),
    Point("notices-policy", "et-notices' token says when its own node ends, no more", REAL),
    Point("network-policy", "a job's pods are reached by each other alone (shape)", REAL),
    # transport: both ends joined without a cluster; numbers are those of docs/failures.md
    Point("case-10", "a deleted pod is off the list and its process may finish", JOINED),
    Point("case-11", "a killed process is told as killed, the others go on", JOINED),
    Point("case-12", "a gone pod ends its shims though its stream is silent", JOINED),
    Point("case-13", "a node that is heard of again too late brings nothing back", JOINED),
    Point("case-15", "the API server restarts: all sessions go on, no byte is lost", JOINED),
    Point("case-16", "an exit lost in a cut is told again and counts once", JOINED),
    Point("case-17", "an exec call's Success is no success of the command", JOINED),
    Point("case-18", "a burst arrives whole, hashed on both sides, before its code", JOINED),
    Point("case-19", "binary, a line of 1 MB, progress bars: the same bytes", JOINED),
    Point("case-20", "a killed shim ends its process before it is believed dead", JOINED),
    Point("case-22", "a killed broker costs neither a byte nor a host", JOINED),
    Point("case-24", "a new launcher waits until the old one's processes are dead", JOINED),
    Point("case-25", "discovery answers without a broker, and with one that hangs", JOINED),
    Point("case-26", "a horovodrun that hangs is told; restart or failure if wanted", PYTHON),
    Point("case-28", "a process that ends early is told as it ended, ends no other", JOINED),
    Point("case-29", "ends that come together are each told once", JOINED),
    Point("case-33", "a host that left comes back under a new name only", JOINED),
    Point("case-34", "what left its session and ignores TERM ends before its pod", JOINED),
    Point("case-35", "64 workers start together: 32 handshakes at once", JOINED),
    Point("flow-alone", "a stalled reader holds back its own session alone", JOINED),
    Point("flow-bounded", "stopped shims cost the broker no more than their windows", JOINED),
    Point("flow-far", "on a long way the window grows to 2 MiB", JOINED),
    Point("soak", "absent API server, silence, 1,000 streams, random cuts: 40 s of them", JOINED),
    Point("fuzz", "20,000 hostile inputs for every parser: the promised error or a value", PYTHON),
    Point("garbage", "who sends garbage is dropped with a reason", JOINED),
    # the command line
    Point("renewed-workers", "new workers one by one while it trains", TRAINING),
    Point("last-lines", "what a worker printed last is there once it has gone", TRAINING),
    Point("rehearsed", "et rehearse says what a kill and a notice cost a job", TRAINING),
    Point("cli", "et: a job from submit to its end, with the role edit alone", REAL),
    # e2e: how jobs end, limits, troubles, other people's objects
    Point("clean-pod-policy", "each cleanPodPolicy leaves the pods that it names", REAL),
    Point("deadline", "a job that outlives its deadline fails and gives back", REAL),
    Point("ttl", "ended jobs and scalings go when their time is over", REAL),
    Point("long-names", "names at the length limit", REAL),
    Point("many-jobs", "20 small jobs at once", REAL),
    Point("second-namespace", "jobs of one name in two namespaces", REAL),
    Point("names-taken", "names that somebody else holds", REAL),
    Point("image-without-python", "an image without python3: what to do is said", REAL),
    Point("no-such-image", "an image that does not exist: named until corrected", REAL),
    Point("ends-at-once", "a command that ends at once, or is none", REAL),
    Point("quota", "a quota refuses pods: told; raised: the job goes on", REAL),
    Point("pod-security-refuses", "a Pod Security level refuses pods: told, corrected", REAL),
    Point("namespaces", "an operator with rights in one namespace only", REAL),
    Point("cloud-notice", "a cloud's notice on its node: a worker moves, no lost step", TRAINING),
    Point("noticed-worker", "a notice 120 or 30 s ahead: one reset, no lost step", TRAINING),
    Point("noticed-busy", "notices for half of all, at a start, in an outage", TRAINING),
    Point("moved-launcher", "a launcher's node ends: another goes on before that", TRAINING),
    Point("notice-script", "a script runs in the launcher before its node ends", TRAINING),
    Point("told-scripts", "scripts know of a notice by a file and a signal", REAL),
    Point("drained-node", "kubectl drain under a running job", TRAINING),
    Point("foreign", "jobs of et-operator: followed, never changed", REAL),
    Point("contention", "objects that somebody else writes at the same moment", REAL),
    Point("hardened", "non-root, read-only roots, Pod Security restricted", TRAINING),
    Point("rights", "the audit log: no right unused, none missing", REAL),
    Point("planted-secrets", "planted secrets are in no log, Event, URL, command line", REAL),
    # e2e: scalings that meet, operators that die, whoever else sizes a job
    Point("two-scale-ins", "two ScaleIns at once take different workers", REAL),
    Point("opposite-scalings", "a ScaleIn and a ScaleOut at once lose no step", TRAINING),
    Point("scale-in-the-middle", "kubectl scale in the middle of a scaling wins", REAL),
    Point("deleted-scaling", "a scaling deleted before, in the middle, at its end", REAL),
    Point("operator-killed-anywhere", "kill -9 at five writes of scalings, two of starts", REAL),
    Point("stopped-leader", "late writes of a leader that slept beyond its lease fail", REAL),
    Point("two-leaders", "two operators that both lead do what one would", REAL),
    Point("autoscaler", "a HorizontalPodAutoscaler grows and shrinks a job", REAL),
    Point("own-account", "a launcher keeps its author's service account", REAL),
    Point("failure-kinds", "only the user's own failures count against backoffLimit", REAL),
    # e2e: nodes and processes that break, Horovod's own rules
    Point("every-cut", "broker, API server, bridges, kubelet, a node: no line is lost", REAL),
    Point("broken-ring", "a worker killed in the middle of a step costs seconds", TRAINING),
    Point("ring-without-an-end", "a dead containerd-shim costs seconds in a step too", TRAINING),
    Point("cut-ring", "a cut node costs seconds from when its workers are gone", TRAINING),
    Point("given-up", "a rank is killed, its pod lives: the worker is replaced", TRAINING),
    Point("chaos", "fault after fault: no wrong deletion or end, all ranks back", TRAINING),
    Point("dead-containerd-shim", "a worker whose containerd-shim is killed is replaced", REAL),
    Point("lost-node", "a worker's node cut for good: told in 10 s, the rest train on", TRAINING),
    Point("fenced-node", "a launcher alive on a cut node and its successor: never both", REAL),
    Point("driver-stalled", "a horovodrun that is stopped is told until it goes on", TRAINING),
    Point("forced", "a worker that never commits is ended, the others go on", TRAINING),
    Point("counted-once", "ranks without a place in the training hold nobody up", TRAINING),
    Point("slow-import", "a new worker that is late costs nothing within the time-out", TRAINING),
    Point("early-end", "a worker that ends with 0 early ends the others: Horovod's rule", TRAINING),
    Point("shares", "a job grows into an idle queue, gives back, grows again", TRAINING),
    Point("gang", "a gang waits whole, and starts when there is room", TRAINING),
    Point("line", "a suspended job leaves the line, resumed it waits again", TRAINING),
    Point("queue-gone", "a queue deleted under running jobs ends none", TRAINING),
    Point("fixed-in-queue", "kubectl scale in a queue: Fixed follows, Auto does not", TRAINING),
    Point("queueing", "queues required: a job that names none waits in default", REAL),
    Point("ssh-in-queue", "a job over ssh waits in line, proven, and trains", TRAINING),
    Point("reclaim", "a queue takes its share back from who borrows it: no lost step", TRAINING),
    Point("evicted", "evicted for a higher priority: its old place, its checkpoint", TRAINING),
    Point("big-gang", "elastic jobs shrink for a large gang, none below its least", TRAINING),
    Point("services-first", "workers make room for a Deployment, come back after it", TRAINING),
    Point("fallback", "a gang that nobody can place is taken back; others go on", TRAINING),
    Point("quota-in-queue", "a quota refuses a job's pods: told; others in line start", TRAINING),
    Point("priority", "the priority that arena sets decides who is first in line", TRAINING),
    Point("scaling-in-queue", "ScaleIn, ScaleOut: Fixed within its queue, Auto is told", TRAINING),
    Point("demo", "make demo: sizes 2, 4, 3, 2 seen by the training; two in a queue", TRAINING),
)

_ON_OLDEST = {
    *("cluster-up", "images", "deploy", "contract-real", "refusals"),
    *("no-lost-step", "exec-policy", "operator-policy", "scheduler-policy", "notices-policy"),
}
OLDEST_POINTS = tuple(replace(point, against=OLDEST) for point in POINTS if point.key in _ON_OLDEST)
"""What `make test-oldest` tries again on the oldest Kubernetes that is promised."""
