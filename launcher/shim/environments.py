"""What the user's command gets to see of the launcher's environment. Pure.

horovodrun repeats its whole environment on the command line of every worker, where it *overrides*
the worker's own values (horovod/runner/gloo_run.py:92-101). What says something about the launcher
must therefore not reach it, and service links of a big namespace exceed the longest argument.
"""

from __future__ import annotations

import re

from launcher import contract, launchers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Mapping

_OF_THIS_CONTAINER = ("EDL_", "KUBERNETES_", "NVIDIA_")
_SERVICE_LINK = re.compile(
    r".+_SERVICE_(HOST|PORT(_.+)?)|.+_PORT_\d+_(TCP|UDP|SCTP)(_(PORT|PROTO|ADDR))?"
)
"""As the kubelet makes them for every Service of the namespace."""
_OF_THIS_POD = ("POD_IP", "POD_IPS", "POD_NAME", "POD_UID", "HOST_IP", "NODE_IP", "NODE_NAME")


def make_command_environment(
    environ: Mapping[str, str], nonce: str, bin_dir: str
) -> Dict[str, str]:
    """The environment of the user's command: scrubbed, with launchers' settings and PATH first.

    Names in `environ[ENV_KEEP]` (what the template itself sets) are never scrubbed and never
    changed, PATH aside.
    """
    env = make_script_environment(environ)
    for name, value in launchers.collect_settings().items():
        env.setdefault(name, value)
    env["PATH"] = bin_dir + ":" + env.get("PATH", "/usr/local/bin:/usr/bin:/bin")
    env[contract.ENV_NONCE] = nonce
    env[contract.ENV_LAUNCHER] = environ.get(contract.ENV_LAUNCHER, "")
    return env


def make_script_environment(environ: Mapping[str, str]) -> Dict[str, str]:
    """The scrubbed environment alone: a script's look at the list of hosts counts for nothing."""
    kept = frozenset(environ.get(contract.ENV_KEEP, "").split(","))
    return {
        name: value
        for name, value in environ.items()
        if name in kept or not _is_of_this_container(name, value)
    }


def drop_pod_facts(environ: Mapping[str, str]) -> Dict[str, str]:
    """For horovodrun alone: what the downward API said about this pod is wrong in every other."""
    drop = frozenset(_OF_THIS_POD + tuple("MY_" + name for name in _OF_THIS_POD))
    return {name: value for name, value in environ.items() if name not in drop}


def _is_of_this_container(name: str, value: str) -> bool:
    return (
        name == "HOSTNAME" or name.startswith(_OF_THIS_CONTAINER) or _is_service_link(name, value)
    )


def _is_service_link(name: str, value: str) -> bool:
    if _SERVICE_LINK.fullmatch(name):
        return True
    # MASTER_PORT=29500 is somebody's setting, WEB_PORT=tcp://10.0.0.1:80 is the kubelet's.
    return name.endswith("_PORT") and value.startswith(("tcp://", "udp://", "sctp://"))
