"""Paths, names and numbers that operator, broker, agent and shim agree on.

Standard library only, Python >= 3.7: this file runs in user containers too.
"""

PROTOCOL_VERSION = 1

MAX_WORKERS = 1024
"""Of one job. Its status, config and report are one object each, and such an object has room for so
many names: tests/unit/planning/test_sizes.py counts the bytes."""

# ---- volumes and paths inside the pods
RUNTIME_VOLUME = "edl-runtime"
RUNTIME_DIR = "/opt/edl/src"
"""Read-only mount of the runtime ConfigMap, flat: keys are paths in this repository."""
RUN_VOLUME = "edl-run"
RUN_DIR = "/opt/edl/run"
"""emptyDir of the pod: sockets, the compiled copy of the runtime, state."""
LIB_DIR = RUN_DIR + "/lib"
"""Where PID 1 copies and compiles the runtime."""
AGENT_SOCKET = RUN_DIR + "/agent.sock"
BROKER_SOCKET = RUN_DIR + "/broker.sock"
HOSTS_FILE = RUN_DIR + "/hosts"
"""The list served to horovodrun, `name:slots` a line; written by the broker, atomically."""
BROKER_STATE_DIR = RUN_DIR + "/broker"
BIN_DIR = LIB_DIR + "/bin"
"""First in the user command's PATH: wrappers named horovodrun and ssh."""

SSH_DIR = RUN_DIR + "/ssh"
"""In a launcher that reaches its workers by ssh: the private key, and of each worker's agent, which
runs in that launcher, the socket and the log."""
KEYS_VOLUME = "edl-keys"
KEYS_DIR = "/opt/edl/keys"
"""What a pod needs of the job's ssh keys, read-only."""
SSH_PORT = 2222
"""A port that needs no privilege, and beside which a user's own sshd has room."""
SSH_HOST = "edl-worker"
"""The name under which known_hosts has the host key that all workers of a job share."""

EDL_VOLUME = "edl-etc"
EDL_DIR = "/etc/edl"
HOSTFILE = EDL_DIR + "/hostfile"
DISCOVER_SCRIPT = EDL_DIR + "/discover_hosts.sh"
MPI_VOLUME = "edl-mpi"
MPI_DIR = "/etc/mpi"
KUBEXEC = MPI_DIR + "/kubexec.sh"
"""Horovod compares OMPI_MCA_plm_rsh_agent with exactly this path (runner/common/util/env.py:26)."""
JOB_VOLUME = "edl-job"
JOB_DIR = "/job"
JOB_HOSTFILE = JOB_DIR + "/hostfile"

SLASH = ".."
"""Stands for "/" in a key of the runtime ConfigMap: keys allow it, and no path of ours has it."""
BOOT = RUNTIME_DIR + "/launcher" + SLASH + "boot.py"
"""`python3 -I -S BOOT agent -- [user command]` or `... launch -- command`: PID 1 of both roles."""
BRIDGE_COMMAND = ("python3", "-I", "-S", LIB_DIR + "/launcher/agent/bridge.py")
"""The one command that is ever sent to pods/exec: stdio <-> the agent's socket."""

SSH_WORKER = RUNTIME_DIR + "/launcher" + SLASH + "ssh" + SLASH + "worker.sh"
"""PID 1 of a worker that is reached by ssh."""

# ---- containers
BROKER_CONTAINER = "edl-broker"
TOKEN_VOLUME = "edl-token"  # noqa: S105 (a name, not a secret)
TOKEN_DIR = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 (a path, not a secret)

# ---- environment of PID 1 (never passed on to the user's command)
ENV_JOB_NAME = "EDL_JOB_NAME"
ENV_JOB_NAMESPACE = "EDL_JOB_NAMESPACE"
ENV_JOB_UID = "EDL_JOB_UID"
ENV_EPOCH = "EDL_EPOCH"
"""In a worker: the epoch of its creation, a floor for HELLO. In the launcher: its own."""
ENV_POD_NAME = "EDL_POD_NAME"
ENV_POD_UID = "EDL_POD_UID"
ENV_GRACE = "EDL_GRACE_SECONDS"
"""terminationGracePeriodSeconds of the pod."""
ENV_SLOTS = "EDL_SLOTS_PER_WORKER"
ENV_MIN_SLOTS = "EDL_MIN_SLOTS"
ENV_KEEP = "EDL_KEEP_ENV"
"""In the launcher: comma-separated names that the template's first container sets itself; the
user's command gets them whatever their names look like."""
ENV_LAUNCHER = "EDL_LAUNCHER"
"""In the launcher: which of launchers.NAMES its command is; the user's command gets it too."""
ENV_ATTACH_MODE = "EDL_ATTACH_MODE"
"""In the launcher and its broker: how workers are reached, KUBEXEC_MODE or SSH_MODE."""
KUBEXEC_MODE = "kubexec"
SSH_MODE = "ssh"
# ---- environment of the user's command in the launcher
ENV_NONCE = "EDL_NONCE"
"""A read of the host list counts as served only with the nonce that PID 1 made."""
ENV_SESSION = "EDL_SESSION"
"""Marks every process of a session in a worker, found again through /proc/*/environ."""

# ---- ConfigMap keys
CONFIG_KEY = "config.json"
REPORT_KEY_PREFIX = "report-"
"""Followed by the epoch."""

# ---- files of KEYS_DIR, and keys of the Secret
KEY_USER = "id"
KEY_KNOWN_HOSTS = "known_hosts"
KEY_HOST = "host_key"
KEY_AUTHORIZED = "authorized_keys"

# ---- two ways of horovodrun, as launchers are named
IN_PROCESS = "horovodrun-in-process"
PER_SLOT = "horovodrun-per-slot"

# ---- exit codes of the shim
EXIT_REFUSED = 255
EXIT_GONE = 137
