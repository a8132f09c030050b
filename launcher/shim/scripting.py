"""Scripts in a launcher: each order is carried out at most once, and its result is kept.

PID 1 of the launcher carries them out, with the rights of the user's container. Whether a scaling
may have a script run was decided by the operator; that it is one for a shell is looked at here.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess

from et_contract.frames import ANSWER_SECONDS
from et_contract.texts import parse_json, read_file
from launcher.agent import spawning
from launcher.shim import placing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Mapping, Optional

TAIL_BYTES = 4096
DEFAULT_SECONDS = 60.0
TERM_SECONDS = 5.0
"""From TERM to KILL of a script whose time is over."""
_LARGEST = 64 * 1024
"""Bytes of a result that is kept; the folder is the user's."""
_NO_FILES = ("/proc/", "/dev/", "/sys/")
_FOR_A_SHELL = re.compile(rb"#![^\n]*\b[a-z]*sh\b")
_FIRST_LINE = 256
"""Bytes; the kernel looks at no more of them either."""
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-")


class _Run:
    """The script that runs now."""

    def __init__(self, order: str, pid: int, fd: int, deadline: float) -> None:
        self.order = order
        self.pid = pid
        self.fd = fd
        self.deadline = deadline
        self.timed_out = False
        self.output = b""


class Scripts:
    """One script at a time, in the order of their coming; times are monotonic seconds.

    Args:
        folder: where results are kept; what is started is noted there before it starts.
        env: the environment of every script; an order adds to it.
    """

    def __init__(self, folder: str, env: Mapping[str, str]) -> None:
        self._folder = folder
        self._env = dict(env)
        self._waiting: List[Dict[str, Any]] = []
        self._run: Optional[_Run] = None
        self._results: Dict[str, Dict[str, Any]] = {}

    @property
    def fd(self) -> int:
        """Where the running script's output comes from; -1 without one."""
        return self._run.fd if self._run else -1

    def due_in(self, now: float) -> Optional[float]:
        """Seconds until `act` has something to do."""
        return max(0.0, self._run.deadline - now) if self._run else None

    def order(self, body: Mapping[str, Any], now: float) -> Optional[Dict[str, Any]]:
        """Take an order; the result if there is one already, else `reap` or `start_next` has it.

        An order that another process had begun has failed: it is never begun twice. One that others
        hold up until nobody waits for its result any more is not begun at all.
        """
        identity = str(body.get("id", ""))
        if self._run is not None and self._run.order == identity:
            return None
        if any(waiting["id"] == identity for waiting in self._waiting):
            return None
        known = self._recall(identity)
        if known is not None:
            return known
        until = now + _find_seconds(body) + ANSWER_SECONDS
        self._waiting.append(dict(body, id=identity, until=until))
        return self.start_next(now)

    def start_next(self, now: float) -> Optional[Dict[str, Any]]:
        """Start what waits, if nothing runs; a result only where it was not started."""
        if self._run is not None or not self._waiting:
            return None
        body = self._waiting.pop(0)
        if now >= body["until"]:
            why = "others ran until nobody waited for it any more: it was not run"
            self._results[body["id"]] = _result(body["id"], None, why, timed_out=True)
            return self._results[body["id"]]
        try:
            self._keep(_result(body["id"], 1, "the launcher ended while the script ran"))
            self._run = self._start(body, now)
        except (OSError, ValueError) as error:  # ValueError: what no program can be given
            self._results[body["id"]] = _result(body["id"], 1, f"cannot run the script: {error}")
            return self._results[body["id"]]
        return None

    def read(self) -> None:
        """Take output of the running script; only its end is kept."""
        run = self._run
        if run is None:
            return
        try:
            data = os.read(run.fd, 65536)
        except BlockingIOError:
            return
        run.output = (run.output + data)[-TAIL_BYTES:]
        if not data:
            os.close(run.fd)
            run.fd = -1

    def act(self, now: float) -> None:
        """End a script whose time is over: TERM, then KILL, to its whole group.

        One that has ended by itself ended in time, as far as anybody who was stopped can know.
        """
        run = self._run
        if run is not None and now >= run.deadline and not spawning.has_ended(run.pid):
            spawning.signal_group(run.pid, signal.SIGKILL if run.timed_out else signal.SIGTERM)
            run.timed_out = True
            run.deadline = now + TERM_SECONDS

    def reap(self, pid: int, code: int) -> Optional[Dict[str, Any]]:
        """A child has ended: the result if it was the script."""
        run = self._run
        if run is None or run.pid != pid:
            return None
        if run.fd >= 0:
            self.read()
        if run.fd >= 0:
            os.close(run.fd)  # what the script left behind may hold the other end for long
        self._run = None
        known = None if run.timed_out else code
        result = _result(run.order, known, run.output.decode("utf-8", "replace"), run.timed_out)
        self._results[run.order] = result
        try:
            self._keep(result)
        except OSError as error:
            result["output"] += f"\n(result not kept: {error})"
        return result

    def _start(self, body: Mapping[str, Any], now: float) -> _Run:
        env = dict(self._env, **{str(k): str(v) for k, v in dict(body.get("env") or {}).items()})
        words = _build_command(body)
        reader, writer = os.pipe()
        try:
            pid = spawning.start(
                words, stdin=subprocess.DEVNULL, stdout=writer, stderr=writer, env=env
            )
        except (OSError, ValueError):
            os.close(reader)
            raise
        finally:
            os.close(writer)
        os.set_blocking(reader, False)
        return _Run(body["id"], pid, reader, now + _find_seconds(body))

    def _recall(self, identity: str) -> Optional[Dict[str, Any]]:
        if identity in self._results:
            return self._results[identity]
        try:
            known = parse_json(read_file(self._path(identity), _LARGEST), _LARGEST)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            known = error
        if isinstance(known, dict):
            return known
        return _result(identity, 1, f"the result of the script cannot be read: {known}")

    def _keep(self, result: Mapping[str, Any]) -> None:
        placing.write_whole(self._path(result["id"]), json.dumps(result))

    def _path(self, identity: str) -> str:
        safe = "".join(c if c in _SAFE else f"_{ord(c):x}_" for c in identity)
        return f"{self._folder}/{safe}.json"


def _find_seconds(body: Mapping[str, Any]) -> float:
    """How long an order's script may run."""
    timeout = body.get("timeout")
    return timeout if isinstance(timeout, (int, float)) and timeout > 0 else DEFAULT_SECONDS


def _build_command(body: Mapping[str, Any]) -> List[str]:
    """`sh <script> <hosts>`. Raises OSError for a script that is none.

    Without the right to the shell a script is a file whose first line names a shell, and nothing
    else. One of /proc or /dev could be what an order made of it. Of a file that was never meant to
    be run, a key or what is kept here of other scripts, a shell prints each line that it does not
    understand, and runs the others.
    """
    script, hosts = str(body["script"]), str(body.get("argument", ""))
    if body.get("shell") is True:
        # A piece of a command line, as et-operator takes it. The trap keeps this shell alive on
        # TERM for as long as the script cleans up.
        return ["/bin/sh", "-c", f'trap : TERM; sh {script} "$@"', "sh", hosts]
    path = os.path.realpath(script)
    if not script.startswith("/") or path.startswith(_NO_FILES) or not _is_for_a_shell(path):
        raise OSError(
            f"{script!r} is no shell script in the launcher: a file whose first line is #!/bin/sh"
        )
    return ["/bin/sh", script, hosts]


def _is_for_a_shell(path: str) -> bool:
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return _FOR_A_SHELL.match(file.readline(_FIRST_LINE)) is not None


def _result(
    identity: str,
    code: Optional[int],
    output: str,
    timed_out: bool = False,  # noqa: FBT001, FBT002 (private)
) -> Dict[str, Any]:
    return {"id": identity, "code": code, "output": output, "timedOut": timed_out}
