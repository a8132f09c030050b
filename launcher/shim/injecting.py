"""horovodrun with our transport inside: no process per slot, none per look at the list of hosts.

    python injecting.py /path/of/the/image's/horovodrun [argument...]

Run by the Python of the image's horovodrun. Two names of Horovod are given another meaning, and two
a limit (notifying.py, registering.py), then its own program runs as it is:
`gloo_run._exec_command_fn`, which starts a process in a worker and waits for it, and
`HostDiscoveryScript.find_available_hosts_and_slots`, which reads the list. Both are the same in
0.20.0 to 0.28.1. Where they are missing or look different, horovodrun is run without us inside, and
starts rsh.py for each slot.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from types import SimpleNamespace

sys.path.insert(0, __file__.rpartition("/launcher/")[0])

from et_contract import frames, hosts, names, paths
from hostdiscovery import discover
from launcher.protocol.claims import Purpose
from launcher.shim import notifying, programs
from launcher.shim.fitting import Misfit, check
from launcher.shim.sharing import Switchboard
from launcher.shim.sinks import Sink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO, Dict, List, Sequence, Tuple

_NAMES = {frames.STDOUT: "stdout", frames.STDERR: "stderr"}
_FAILED = 1


def install(broker: str, nonce: str, *, script: str = paths.DISCOVER_SCRIPT) -> None:
    """Replace the two functions; raises ImportError, AttributeError or Misfit, then nothing is.

    `script` is the discovery script that is ours: any other one is run as it always is.
    """
    from horovod.runner import gloo_run
    from horovod.runner.elastic.discovery import HostDiscoveryScript

    execute, find = gloo_run._exec_command_fn, HostDiscoveryScript.find_available_hosts_and_slots  # noqa: SLF001 (the name that Horovod's own Spark runner replaces)
    check("_exec_command_fn", execute, ["settings"])
    check("its result", execute(SimpleNamespace(elastic=True)), ["command", "slot_info", "events"])
    check("find_available_hosts_and_slots", find, ["self"])
    check("HostDiscoveryScript", HostDiscoveryScript, ["discovery_script", "slots"])
    check("launch_gloo_elastic", gloo_run.launch_gloo_elastic)
    board = Switchboard(broker)

    def choose(settings: Any) -> Any:
        return Executor(board, settings).run if settings.elastic else execute(settings)

    def look(discovery: Any) -> Dict[str, int]:
        if getattr(discovery, "_discovery_script", None) != script:
            found: Dict[str, int] = find(discovery)
            return found
        return read_hosts(broker, nonce)

    gloo_run._exec_command_fn = choose  # noqa: SLF001 (the same)
    HostDiscoveryScript.find_available_hosts_and_slots = look


def read_hosts(broker: str, nonce: str) -> Dict[str, int]:
    """Name -> slots, as discover_hosts.sh would print them; raises RuntimeError without a list."""
    text = discover.discover(broker, paths.HOSTS_FILE, nonce)
    if text is None:
        raise RuntimeError("no list of hosts from the broker yet")
    return {host.name: host.slots for host in hosts.parse_hosts(text)}


class Executor:
    """Starts processes in workers as `safe_shell_exec.execute` does by a shell.

    Args:
        board: the connection to the broker.
        settings: horovodrun's.
    """

    def __init__(self, board: Switchboard, settings: Any) -> None:
        self._board = board
        self._settings = settings

    def run(self, command: str, slot_info: Any, events: Any) -> Tuple[int, float]:
        """(exit code, time of the end). Never raises: horovodrun would wait for ever."""
        index = slot_info.rank
        if self._settings.verbose:
            _print(command)
        code = _FAILED
        try:
            line = f"cd {shlex.quote(os.getcwd())} > /dev/null 2>&1 ; {command}"
            sinks = self._open_sinks(index)
            host, purpose = slot_info.hostname, Purpose(ranks=1, blacklists=True)
            call = self._board.start(host, line, sinks, events or (), purpose=purpose)
            call.ended.wait()
            code = call.code
            if code:
                _print(f"Process {index} exit with status code {code}.")
        except Exception as error:  # noqa: BLE001 (whatever it is, the driver must hear of the end)
            _print(f"edl: process {index} could not be run: {error}")
        return code, time.time()  # noqa: TID251 (Horovod orders ends by it)

    def _open_sinks(self, index: int) -> Dict[int, Sink]:
        files = self._open_files(index)
        outputs = {frames.STDOUT: sys.stdout.buffer, frames.STDERR: sys.stderr.buffer}
        has_time = bool(getattr(self._settings, "prefix_output_with_timestamp", False))
        return {
            channel: Sink(
                [outputs[channel]],
                f"[{index}]<{name}>:".encode(),
                has_time=has_time,
                owned=files.get(channel, []),
            )
            for channel, name in _NAMES.items()
        }

    def _open_files(self, index: int) -> Dict[int, List[BinaryIO]]:
        """--output-filename: rank.<number>/stdout and stderr below that folder."""
        folder = self._settings.output_filename
        if not folder:
            return {}
        width = len(str(max(self._settings.num_proc - 1, 1)))
        place = os.path.join(folder, f"rank.{str(index).zfill(width)}")
        os.makedirs(place, exist_ok=True)
        return {channel: [open(os.path.join(place, n), "wb")] for channel, n in _NAMES.items()}


def main(argv: Sequence[str], broker: str = paths.BROKER_SOCKET) -> int:
    """Becomes horovodrun, with our transport inside or without it."""
    real = argv[0]
    programs.take_output()
    programs.take_place(real)
    try:
        install(broker, os.environ.get(names.ENV_NONCE, ""))
    except (ImportError, AttributeError, Misfit) as error:
        programs.say(f"horovodrun starts a process per slot: {type(error).__name__}: {error}")
        os.execv(real, list(argv))
    notifying.prepare()
    programs.say("horovodrun starts processes in workers by itself")
    return notifying.run(argv)


def _print(text: str) -> None:
    """As Horovod does it, but for a log without room, which ends nothing."""
    try:
        print(text)
    except (OSError, ValueError):  # ValueError: it is closed, or has no such character
        return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
