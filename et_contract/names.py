"""Names that operator, launcher and host discovery share: objects, containers, variables, keys.

Standard library only, Python >= 3.7.
"""

import re

# ---- objects


def build_config_name(job: str) -> str:
    """The ConfigMap that the operator writes and the broker reads."""
    return job + "-config"


def build_report_name(job: str) -> str:
    """The ConfigMap that the broker writes and the operator reads."""
    return job + "-report"


# ---- keys of the two ConfigMaps
CONFIG_KEY = "config.json"
HOSTFILE_KEY = "hostfile"
SCRIPT_KEY = "discover_hosts.sh"
_REPORT_KEY = re.compile("report-([1-9][0-9]{0,8})")


def build_report_key(epoch: int) -> str:
    """The key of the report of this epoch, which is not 0."""
    return f"report-{epoch}"


def read_report_epoch(key: str) -> int:
    """The epoch whose report is under this key; 0 under every other key."""
    found = _REPORT_KEY.fullmatch(key)
    return int(found[1]) if found else 0


# ---- containers
BROKER_CONTAINER = "edl-broker"

# ---- signals by which processes may be told of a notice
NOTICE_SIGNALS = ("SIGUSR1", "SIGUSR2")
"""Signals that tell a training nothing else: what has a handler for one has it for this."""

# ---- scripts that are run in the launcher
NOTICE_ORDER = "notice/"
"""How the order of a job's noticeScript begins; that of a scaling begins with its uid."""

# ---- workers that are reached by ssh
SSH_PORT = 2222
"""A port that needs no privilege, and beside which a user's own sshd has room."""
SSH_HOST = "edl-worker"
"""The name under which known_hosts has the host key that all workers of a job share."""
SSH_MODE = "ssh"

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
ENV_NOTICE = "EDL_NOTICE_FILE"
"""In a worker that may know of its end: where its agent writes what is said of that."""
ENV_SLOTS = "EDL_SLOTS_PER_WORKER"
ENV_MIN_SLOTS = "EDL_MIN_SLOTS"
ENV_KEEP = "EDL_KEEP_ENV"
"""In the launcher: comma-separated names that the template's first container sets itself; the
user's command gets them whatever their names look like."""
ENV_LAUNCHER = "EDL_LAUNCHER"
"""In the launcher: which of starters.NAMES its command is; the user's command gets it too."""
ENV_LOSSES = "EDL_LOSS_RECOVERY"
"""In the launcher: FAST where ranks are to end their broken rings; horovodrun of ours gets it."""
FAST = "Fast"
ENV_DEADLINE = "EDL_DEADLINE"
"""Of a job's noticeScript: when the launcher's node ends, in Unix seconds, "" where nobody says."""
ENV_ATTACH_MODE = "EDL_ATTACH_MODE"
"""In the launcher and its broker: how workers are reached; SSH_MODE: by ssh."""

# ---- environment of the user's command in the launcher
ENV_NONCE = "EDL_NONCE"
"""A read of the host list counts as served only with the nonce that PID 1 made."""
ENV_REAL = "EDL_REAL"
"""To a torchrun in a worker: where the launcher found the image's own."""
ENV_SESSION = "EDL_SESSION"
"""Marks every process of a session in a worker, found again through /proc/*/environ."""

# ---- files of paths.KEYS_DIR, and keys of the Secret
KEY_USER = "id"
KEY_KNOWN_HOSTS = "known_hosts"
KEY_HOST = "host_key"
KEY_AUTHORIZED = "authorized_keys"
