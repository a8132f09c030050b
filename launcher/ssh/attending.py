"""The agents of workers that are reached by ssh, as children of PID 1 of the launcher.

It starts, ends and reaps them when the broker asks; it speaks to no worker itself.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from et_contract import names
from launcher.agent import spawning

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Mapping


class Agents:
    """One process for each worker that the broker asks for.

    Args:
        folder: for the private key, and for their sockets and logs.
        keys: folder of what the Secret gives to a launcher.
        lib: the runtime, compiled.
        environ: of PID 1.
    """

    def __init__(self, folder: str, *, keys: str, lib: str, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._keys = keys
        self._program = lib + "/launcher/ssh/reaching.py"
        self._environ = environ
        self._pids: Dict[str, int] = {}
        """By the uid of the worker's pod."""

    def prepare(self) -> None:
        """Copy the private key to where it is the user's own, as ssh wants it; raises OSError.

        The files of a Secret are root's, and anybody's to read who can see them.
        """
        os.makedirs(self._folder, exist_ok=True)
        os.chmod(self._folder, 0o755)  # noqa: S103 (the broker runs as another user)
        with open("%s/%s" % (self._keys, names.KEY_USER), "rb") as reader:
            key = reader.read()
        path = "%s/%s" % (self._folder, names.KEY_USER)
        fd = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "wb") as writer:
            writer.write(key)
        os.replace(path + ".new", path)

    def attach(self, body: Dict[str, Any]) -> None:
        """Start the agent of a worker, unless it runs; raises OSError."""
        pod, name, address = (str(body.get(key)) for key in ("pod", "name", "address"))
        if pod in self._pids:
            return
        known_hosts = "%s/%s" % (self._keys, names.KEY_KNOWN_HOSTS)
        words = [sys.executable, "-I", "-S", self._program]
        words += [pod, name, address, self._folder, known_hosts]
        with open("%s/%s.log" % (self._folder, name), "wb") as log:
            self._pids[pod] = spawning.start(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=dict(self._environ),
            )

    def detach(self, body: Dict[str, Any]) -> None:
        """End the agents of all workers but those that are wanted; none where that is not said."""
        wanted = body.get("wanted")
        if isinstance(wanted, list):
            for pod in self._pids.keys() - set(map(str, wanted)):
                spawning.signal_group(self._pids[pod], signal.SIGKILL)

    def reap(self, pid: int) -> bool:
        """A child of PID 1 has ended; whether it was one of these."""
        found = [pod for pod, running in self._pids.items() if running == pid]
        for pod in found:
            del self._pids[pod]
        return bool(found)
