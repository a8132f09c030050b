"""What the user's command gets to see of the launcher's environment. Pure.

horovodrun repeats its whole environment on the command line of every worker, where it *overrides*
the worker's own values (horovod/runner/gloo_run.py:92-101). What says something about the launcher
must therefore not reach it, and service links of a big namespace exceed the longest argument.
"""

from __future__ import annotations

import re

from et_contract import names, starters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Mapping, Set

_OF_THIS_CONTAINER = re.compile(
    r"HOSTNAME|EDL_.*|KUBERNETES_(SERVICE_(HOST|PORT)|PORT).*"
    r"|NVIDIA_(VISIBLE_DEVICES|DRIVER_CAPABILITIES|(DISABLE_)?REQUIRE.*|MIG_.*|IMEX_CHANNELS)"
)
"""What is ours, the kubelet's, and what the container runtime reads; no other name with NVIDIA_."""
_SERVICE_LINK = re.compile(r"(.+?)_PORT(?:_(\d+)_(?:TCP|UDP|SCTP)(?:_(?:PORT|PROTO|ADDR))?)?")
_SERVICE = re.compile(r"(.+)_SERVICE_(?:HOST|PORT(?:_.+)?)")
_ADDRESS = re.compile(r"(tcp|udp|sctp)://\[?(.+?)\]?:(\d+)")
_OF_THIS_POD = ("POD_IP", "POD_IPS", "POD_NAME", "POD_UID", "HOST_IP", "NODE_IP", "NODE_NAME")


def make_command_environment(
    environ: Mapping[str, str], nonce: str, bin_dir: str
) -> Dict[str, str]:
    """The environment of the user's command: scrubbed, with starters' settings and PATH first.

    Names in `environ[ENV_KEEP]` (what the template itself sets) are never scrubbed and never
    changed, PATH aside.
    """
    env = make_script_environment(environ)
    for name, value in starters.collect_settings().items():
        env.setdefault(name, value)
    env["PATH"] = bin_dir + ":" + env.get("PATH", "/usr/local/bin:/usr/bin:/bin")
    env[names.ENV_NONCE] = nonce
    env[names.ENV_LAUNCHER] = environ.get(names.ENV_LAUNCHER, "")
    if names.ENV_LOSSES in environ:
        env[names.ENV_LOSSES] = environ[names.ENV_LOSSES]
    return env


def make_script_environment(environ: Mapping[str, str]) -> Dict[str, str]:
    """The scrubbed environment alone: a script's look at the list of hosts counts for nothing."""
    kept = frozenset(environ.get(names.ENV_KEEP, "").split(","))
    links = find_service_links(environ)
    return {
        name: value
        for name, value in environ.items()
        if name in kept or not (name in links or _OF_THIS_CONTAINER.fullmatch(name))
    }


def find_service_links(environ: Mapping[str, str]) -> Set[str]:
    """The names that the kubelet has added for Services of the namespace.

    For each it adds a set of variables that agree about one address. What somebody else sets under
    such a name (by `envFrom`, which cannot be seen here) agrees with nothing, and is theirs.
    """
    hosts: Dict[str, str] = {}
    for name, value in environ.items():
        address = _ADDRESS.fullmatch(value) if name.endswith("_PORT") else None
        if address is not None:
            protocol, host, port = address.groups()
            if environ.get(f"{name}_{port}_{protocol.upper()}") == value:
                hosts[name[: -len("_PORT")]] = host
    return {name for name, value in environ.items() if _is_service_link(name, value, hosts)}


def drop_pod_facts(environ: Mapping[str, str]) -> Dict[str, str]:
    """For horovodrun alone: what the downward API said about this pod is wrong in every other."""
    drop = frozenset(_OF_THIS_POD + tuple("MY_" + name for name in _OF_THIS_POD))
    return {name: value for name, value in environ.items() if name not in drop}


def _is_service_link(name: str, value: str, hosts: Mapping[str, str]) -> bool:
    """Whether this variable says what the kubelet would say of a Service with this address."""
    for pattern in (_SERVICE_LINK, _SERVICE):
        match = pattern.fullmatch(name)
        host = hosts.get(match.group(1)) if match else None
        if host is None:
            continue
        address = _ADDRESS.fullmatch(value)
        if address is not None:
            return address.group(2) == host
        is_about_host = name.endswith(("_HOST", "_ADDR"))
        return value == host if is_about_host else value.isdigit() or name.endswith("_PROTO")
    return False
