"""The cluster as the commands see it, and how it is reached.

The client is the operator's own edge (aiohttp; kubernetes-asyncio reads the kubeconfig): one home
for what an answer means, no second client library, and many logs are many tasks, not threads.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from et.errors import EtError
from et_kube.api import Api
from et_kube.clock import Clock
from et_kube.resources import Json, Ref

if TYPE_CHECKING:
    from et_kube.connecting import Connection

LOG_SILENCE = timedelta(minutes=5)
"""A log stream that was silent for so long is opened again: its connection may be dead."""
WRITING: Mapping[str, str] = {"fieldManager": "et", "fieldValidation": "Strict"}
"""A misspelt field is refused instead of dropped."""


class Logs(Protocol):
    """Where containers' logs are read."""

    def read_log(self, ref: Ref, params: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """See kube.rest.Rest.read_log."""
        ...


class Containers(Protocol):
    """Where commands run in pods."""

    async def run(self, ref: Ref, container: str, command: Sequence[str]) -> str:
        """See et_kube.execing.run_command."""
        ...


@dataclass(frozen=True, slots=True)
class Cluster:
    """One cluster, and the namespace that is meant where none is named.

    Its `clock` is the server's once that has answered: what is written by it is read by others.
    """

    api: Api
    logs: Logs
    clock: Clock
    namespace: str
    containers: Containers


@dataclass(frozen=True, slots=True)
class Exec:
    """By the API server's exec."""

    connection: Connection

    async def run(self, ref: Ref, container: str, command: Sequence[str]) -> str:
        """As Containers.run."""
        from et_kube.execing import run_command

        return await run_command(self.connection, ref, container=container, command=command)


@dataclass(frozen=True, slots=True)
class Place:
    """Which cluster and namespace, as far as the user said."""

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None


@asynccontextmanager
async def open_cluster(place: Place) -> AsyncIterator[Cluster]:
    """The cluster that is meant, closed at the end.

    Raises:
        EtError: there is no kubeconfig, or it does not know the context.
        Unreachable: it cannot be used.
    """
    check_kubeconfig(place, os.environ)
    # These load aiohttp and ssl: only commands that ask a cluster wait for them.
    import structlog

    from et_kube.clock import ServerClock
    from et_kube.connecting import connect, raise_file_limit
    from et_kube.rest import Limits, Rest

    # The edge logs its tries for operators; a person hears of what came of them.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    raise_file_limit()  # each of many logs is a connection
    async with connect(
        kubeconfig=place.kubeconfig, context=place.context, program="et"
    ) as connection:
        clock = ServerClock()
        yield Cluster(
            api=Rest(connection, writing=WRITING, hear=clock.hear),
            logs=Rest(connection, limits=Limits(silence=LOG_SILENCE), hear=clock.hear),
            clock=clock,
            namespace=place.namespace or connection.namespace,
            containers=Exec(connection),
        )


def check_kubeconfig(place: Place, environ: Mapping[str, str]) -> None:
    """Say what is missing before anything else fails because of it; EtError."""
    given = place.kubeconfig or environ.get("KUBECONFIG")
    if given is None and place.context is None and "KUBERNETES_SERVICE_HOST" in environ:
        return  # the pod's own account
    paths = [Path(p).expanduser() for p in (given or "~/.kube/config").split(os.pathsep) if p]
    found = [path for path in paths if path.is_file()]
    if not found:
        names = ", ".join(map(str, paths)) or "its name is empty"
        raise EtError(f"there is no kubeconfig ({names}): set KUBECONFIG or give --kubeconfig")
    contexts = {name: None for path in found for name in list_contexts(path)}
    if place.context is not None and place.context not in contexts:
        known = ", ".join(contexts) or "none"
        raise EtError(f"the kubeconfig has no context {place.context!r}; it has: {known}")


def list_contexts(path: Path) -> list[str]:
    """Names of the contexts of one kubeconfig; none of a file that has another form."""
    import yaml

    try:
        body = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise EtError(f"the kubeconfig {path} cannot be read: {_flatten(error)}") from error
    contexts = body.get("contexts") if isinstance(body, dict) else None
    return [str(c["name"]) for c in contexts or () if isinstance(c, dict) and "name" in c]


def _flatten(error: Exception) -> str:
    return " ".join(str(error).split())


def get_meta(obj: Json, key: str) -> str:
    """A text of an object's metadata, "" where there is none."""
    return str((obj.get("metadata") or {}).get(key) or "")
