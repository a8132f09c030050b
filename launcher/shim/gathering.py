"""torchrun in every listed worker, and the rendezvous of all of them in this process.

    python gathering.py /path/of/the/image's/torchrun [argument...]

Run by the Python of the image's torchrun, whose parser reads the command line. The c10d store is
here and not in a worker, so that any of them can leave. Each second the list of hosts is read: a
new host gets a torchrun, one that is off the list has its own ended by SIGTERM, which keeps the
rendezvous open for the others. A command line with another rendezvous is left to the real torchrun.
"""

from __future__ import annotations

import os
import signal
import sys
from time import monotonic

sys.path.insert(0, __file__.rpartition("/launcher/")[0])

from et_contract import frames, hosts, names, paths
from hostdiscovery import discover
from launcher.protocol.claims import Purpose
from launcher.shim import programs, torch_options
from launcher.shim.sharing import Switchboard
from launcher.shim.sinks import open_outputs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple

    from launcher.shim.sharing import Call

LOOK_SECONDS = 1.0
"""Between two looks at the list and at the ends."""
PATIENCE_SECONDS = 600.0
"""What an elastic run without any worker waits for one, as torchrun itself would."""
AGAIN_SECONDS = {torch_options.CUT_OFF: 600.0, frames.EXIT_REFUSED: 60.0}
"""Codes of ends that say nothing of the training, and for how long since the first of several in a
row the host gets another torchrun."""
LONG_SECONDS = 120.0
"""One that ran so long has done something, and begins a row anew: who never reaches the rendezvous
ends after its start and the 60 s that torch waits for its store."""
AGAIN_AFTER = 5.0
USAGE_ERROR = 2
KILLED = 128
"""From here on a code says that a signal was the end."""
_ALWAYS = (signal.SIGINT, signal.SIGTERM)
"""What torchrun takes even where its shell has it ignored: a script that ends what it has begun."""


class Gathering:
    """Who runs a torchrun, who has to have one, and what the ends of them mean.

    Args:
        start: starts a torchrun in a worker.
        stop: sends it a signal.
        least: with fewer than so many the run cannot be.
        most: so many at once.
        patience: seconds without any worker until that is the end.
    """

    def __init__(
        self,
        start: Callable[[hosts.Host], Call],
        stop: Callable[[Call, int], None],
        *,
        least: int,
        most: int,
        patience: float,
    ) -> None:
        self._start = start
        self._stop = stop
        self._least = max(least, 1)
        self._most = most
        self._patience = patience
        self._running: Dict[str, Call] = {}
        self._asked: Set[str] = set()
        """Hosts whose torchrun was asked to end."""
        self._codes: Dict[str, int] = {}
        """Of every host whose torchrun has ended, the last of them."""
        self._started: Dict[str, float] = {}
        """When a host got its last one."""
        self._rows: Dict[Tuple[str, int], float] = {}
        """Host and code -> when the first of several such ends in a row was that say nothing."""
        self._again: Dict[str, float] = {}
        """Hosts that are to have another one, and when."""
        self._verdicts: List[int] = []
        """The codes of those that ended by themselves, on a host that was listed then."""
        self._signal = 0
        self._empty_since: Optional[float] = None

    def find_ended(self) -> List[str]:
        """The hosts whose torchrun has ended; their ends are to be judged by a later list."""
        return [name for name, call in self._running.items() if call.ended.is_set()]

    def pass_on(self, number: int) -> None:
        """Send a signal to all of them; nothing is started any more."""
        self._signal = self._signal or number
        for name, call in self._running.items():
            self._asked.add(name)
            self._stop(call, number)

    def advance(
        self, listed: Sequence[hosts.Host], ended: Sequence[str], now: float
    ) -> Optional[int]:
        """Note ends, let go and start; the exit code when all is over.

        Args:
            listed: the list of hosts.
            ended: what `find_ended` gave before that list was read.
            now: monotonic seconds.
        """
        names = {host.name for host in listed}
        for name in ended:
            self._note_end(name, now, is_listed=name in names)
        for name in self._running.keys() - names - self._asked:
            programs.say(f"{name} is off the list: its torchrun gets SIGTERM")
            self._asked.add(name)
            self._stop(self._running[name], signal.SIGTERM)
        for host in listed:
            if self._is_wanted(host.name, now):
                programs.say(f"torchrun starts in {host.name}")
                self._again.pop(host.name, None)
                self._asked.discard(host.name)
                self._started[host.name] = now
                self._running[host.name] = self._start(host)
        return self._judge(names, now)

    def _note_end(self, name: str, now: float, *, is_listed: bool) -> None:
        code = self._codes[name] = self._running.pop(name).code
        if code in AGAIN_SECONDS:
            self._note_nothing(name, now, code)
        elif is_listed and code < KILLED and code != torch_options.LATE:
            self._verdicts.append(code)
        if code:
            programs.say(f"{name}: torchrun ended with {code}")

    def _note_nothing(self, name: str, now: float, code: int) -> None:
        if now >= self._started[name] + LONG_SECONDS:
            for row in AGAIN_SECONDS:
                self._rows.pop((name, row), None)
        if now < self._rows.setdefault((name, code), now) + AGAIN_SECONDS[code]:
            self._again[name] = now + AGAIN_AFTER

    def _is_wanted(self, name: str, now: float) -> bool:
        is_over = self._verdicts or self._signal
        is_new = name not in self._running and name not in self._codes
        is_due = name in self._again and now >= self._again[name]
        staying = len(self._running.keys() - self._asked)
        return (is_new or is_due) and not is_over and staying < self._most

    def _judge(self, names: Set[str], now: float) -> Optional[int]:
        """0 if those that count ended with 0; who left, was lost, killed, cut off or late does not.

        That is said of those without whom the run could be: of the least a 0 is needed, each.
        """
        if self._running:
            self._empty_since = None
            return None
        if self._signal:
            return KILLED + self._signal
        failure = next((code for code in self._verdicts if code), 0)
        if failure or self._verdicts.count(0) >= self._least:
            return failure
        worst = max(self._codes.values(), default=frames.EXIT_GONE)
        if self._verdicts:
            return worst
        if names & self._again.keys():
            return None
        if self._empty_since is None:
            self._empty_since = now
        is_waiting = not names & self._codes.keys() and now < self._empty_since + self._patience
        return None if is_waiting else worst


def main(argv: Sequence[str], broker: str = paths.BROKER_SOCKET) -> int:
    """Runs the command line in the workers, or becomes the real torchrun; the exit code."""
    real, words = argv[0], list(argv[1:])
    programs.take_output()
    # Before any thread, torch's too: it would be hit by what the loop waits for.
    heard = programs.find_heard(_ALWAYS)
    signal.pthread_sigmask(signal.SIG_BLOCK, heard)
    programs.take_place(real)
    sys.argv[:] = argv  # usage errors name the program
    from torch.distributed import TCPStore, run

    args = run.parse_args([torch_options.BACKEND, *words])
    try:
        misfit = torch_options.find_misfit(args)
    except ValueError:
        programs.say(f"--nnodes={args.nnodes} is neither N nor MIN:MAX")
        return USAGE_ERROR
    if misfit:
        programs.say(f"torchrun runs in the launcher alone, for it has {misfit}")
        signal.pthread_sigmask(signal.SIG_UNBLOCK, heard)
        os.execv(real, list(argv))
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    endpoint = torch_options.build_endpoint(programs.find_address(), store.port)
    programs.say(f"torchrun runs in the workers, with a rendezvous at {endpoint}")
    starter = Starter(Switchboard(broker), args, real=real, words=words, endpoint=endpoint)
    return _run(starter.gathering, broker, heard)


class Starter:
    """Starts torchrun in workers.

    Args:
        board: the connection to the broker.
        args: the user's command line, parsed.
        real: the image's own torchrun.
        words: the command line as it was given.
        endpoint: of the rendezvous.
    """

    def __init__(
        self, board: Switchboard, args: Any, *, real: str, words: Sequence[str], endpoint: str
    ) -> None:
        self._board = board
        self._args = args
        self._real = real
        self._words = torch_options.build_words(words, args, endpoint)
        self._endpoint = endpoint
        least, most = torch_options.find_bounds(args)
        patience = PATIENCE_SECONDS if least < most else 0.0
        self.gathering = Gathering(
            self.start, board.signal, least=least, most=most, patience=patience
        )

    def start(self, host: hosts.Host, environ: Mapping[str, str] = os.environ) -> Call:
        """Start one; its output comes line by line with its host in front."""
        command = torch_options.build_command(
            self._words,
            torch_options.build_settings(environ, self._args, host.slots),
            real=self._real,
            endpoint=self._endpoint,
            folder=os.getcwd(),
        )
        outputs = open_outputs(f"{host.name}: ".encode())
        purpose = Purpose(host.slots, blacklists=False)  # who fails is started again there
        return self._board.start(host.name, command, outputs, purpose=purpose)


def _run(gathering: Gathering, broker: str, heard: Sequence[int]) -> int:
    nonce = os.environ.get(names.ENV_NONCE, "")
    listed: Sequence[hosts.Host] = ()
    while True:
        ended = gathering.find_ended()
        text = discover.discover(broker, paths.HOSTS_FILE, nonce)
        if text is not None:
            listed = hosts.real_hosts(hosts.parse_hosts(text))
        code = gathering.advance(listed, ended, monotonic())
        if code is not None:
            return code
        caught = signal.sigtimedwait(heard, LOOK_SECONDS)
        if caught is not None:
            gathering.pass_on(caught.si_signo)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
