"""`python3 -m launcher.broker`: the launcher's sidecar. Configured by its environment alone.

Nothing else of the launcher opens a connection to the API server or reads a token. What cannot
start says why in the log and leaves with 1: the kubelet tries again.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

from et_contract import names, paths
from et_contract.documents import InvalidDocument, Member
from et_kube.connecting import connect, raise_file_limit
from et_kube.errors import Unreachable
from et_kube.execing import ExecStream, open_exec
from et_kube.rest import Rest
from launcher.broker.assembly import Assembly, Paths
from launcher.broker.logging import log
from launcher.broker.memories import Identity


def read_identity(environ: Mapping[str, str]) -> Identity:
    """Whose broker this is; raises KeyError or ValueError."""
    return Identity(
        job=environ[names.ENV_JOB_NAME],
        namespace=environ[names.ENV_JOB_NAMESPACE],
        job_uid=environ[names.ENV_JOB_UID],
        epoch=int(environ[names.ENV_EPOCH]),
        launcher_uid=environ[names.ENV_POD_UID],
    )


async def run(identity: Identity, attach_mode: str) -> None:
    """Be the broker of this launcher until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with connect() as connection:

        def open_bridge(member: Member) -> AbstractAsyncContextManager[ExecStream]:
            return open_exec(
                connection,
                identity.namespace,
                member.name,
                container=member.container,
                command=paths.BRIDGE_COMMAND,
            )

        api = Rest(connection)
        opener = None if attach_mode == names.SSH_MODE else open_bridge
        await Assembly(identity, Paths(), api=api, opener=opener).run(stop)


def main() -> int:
    """The exit code: 0 after SIGTERM, 1 when the broker cannot start."""
    raise_file_limit()
    try:
        identity = read_identity(os.environ)
    except (KeyError, ValueError) as error:
        log.critical("environment incomplete", reason=repr(error))
        return 1
    try:
        asyncio.run(run(identity, os.environ.get(names.ENV_ATTACH_MODE, "")))
    except (InvalidDocument, Unreachable, OSError) as error:
        log.critical("broker cannot run", reason=str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
