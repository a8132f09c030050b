"""Volumes and paths inside a job's pods, and the commands that stand at them.

Standard library only, Python >= 3.7.
"""

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
BEGUN_DIR = RUN_DIR + "/begun"
"""In a launcher: a file for each of our programs that has begun since PID 1 did."""
BIN_DIR = LIB_DIR + "/bin"
"""First in the user command's PATH: wrappers named horovodrun and ssh."""
RANKS_DIR = RUN_DIR + "/ranks"
"""In a worker: what stands first in PYTHONPATH of the ranks of an elastic horovodrun."""
RANK_STATES_DIR = RUN_DIR + "/rank-states"
"""In a worker: a file for each of these, with how far it is."""
GONE_FILE = RUN_DIR + "/gone"
"""In a worker: addresses that only members have which are gone, and of which rings that is said."""

SSH_DIR = RUN_DIR + "/ssh"
"""In a launcher that reaches its workers by ssh: the private key, and of each worker's agent, which
runs in that launcher, the socket and the log."""
KEYS_VOLUME = "edl-keys"
KEYS_DIR = "/opt/edl/keys"
"""What a pod needs of the job's ssh keys, read-only."""

EDL_VOLUME = "edl-etc"
EDL_DIR = "/etc/edl"
HOSTFILE = EDL_DIR + "/hostfile"
DISCOVER_SCRIPT = EDL_DIR + "/discover_hosts.sh"
NOTICE_FILE = EDL_DIR + "/notice"
"""In workers and launchers: what is said for sure of the end of the pod, while it is said."""
MPI_VOLUME = "edl-mpi"
MPI_DIR = "/etc/mpi"
KUBEXEC = MPI_DIR + "/kubexec.sh"
"""Horovod compares OMPI_MCA_plm_rsh_agent with exactly this path (runner/common/util/env.py:26)."""
JOB_VOLUME = "edl-job"
JOB_DIR = "/job"
JOB_HOSTFILE = JOB_DIR + "/hostfile"

TOKEN_VOLUME = "edl-token"  # noqa: S105 (a name, not a secret)
TOKEN_DIR = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 (a path, not a secret)

SLASH = ".."
"""Stands for "/" in a key of the runtime ConfigMap: keys allow it, and no path of ours has it."""
BOOT = RUNTIME_DIR + "/launcher" + SLASH + "boot.py"
"""`python3 -I -S BOOT agent -- [user command]` or `... launch -- command`: PID 1 of both roles."""
BRIDGE = RUNTIME_DIR + SLASH.join(("/launcher", "agent", "bridge.py"))
BRIDGE_COMMAND = ("python3", "-I", "-S", BRIDGE, AGENT_SOCKET)
"""The one command that is ever sent to pods/exec: stdio <-> the agent's socket. It is there before
PID 1 has copied anything, for a pod that has only just begun to run is spoken to at once. The
socket is named, for the bridge of a former runtime looks elsewhere from there."""
SSH_WORKER = RUNTIME_DIR + "/launcher" + SLASH + "ssh" + SLASH + "worker.sh"
"""PID 1 of a worker that is reached by ssh."""
