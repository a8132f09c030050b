"""The launchers: what each needs around it, and whether it grows and shrinks. One table, pure.

Both sides read it. PID 1 of the launcher pod puts the programs and settings of all rows in place,
for a command may be a script that starts any of them. The operator asks which one the command of
the template is: a job whose launcher starts its processes once and for all is not scaled while it
runs. What is not here is shared: transport, agents, host files (shim/placing.py), the list
and the drain (broker), the status. docs/launchers.md says what each launcher can do.

Standard library only, Python >= 3.7: this file runs in user containers too.
"""

from __future__ import annotations

import re
from collections import namedtuple
from itertools import accumulate

from et_contract import options, paths, scripts, wrappers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Iterable, List, Optional, Sequence, Set, Tuple

BY_LIST = "list"
"""Reads the list of hosts again and again, and lets go of a host that is no longer on it."""
NEVER = "never"
"""Starts its processes once: no host joins, and none leaves before the end."""

HOSTS = "hosts"
SLOTS = "slots"
"""What a launcher counts: where it runs, or its processes there."""

IN_PROCESS = "horovodrun-in-process"
PER_SLOT = "horovodrun-per-slot"
"""Two ways of horovodrun, as a job may name them."""

Launcher = namedtuple(
    "Launcher",
    [
        "name",  # what the annotation of a job calls it
        "commands",  # programs of the image that are this launcher
        "programs",  # name -> our program of that name, first in the launcher's PATH
        "settings",  # environment variables that it gets where the user has set none
        "leaving",  # how a worker leaves while it runs: BY_LIST or NEVER
        "options",  # its options, where some of them make it elastic
        "elastic",  # those that do -> how their values begin then, as a pattern
        "least",  # those that say with how few an elastic run goes on -> of what; the first counts
        "most",  # those that say how many take part at most -> of what
        "hosts",  # those that say where its hosts are, and their slots -> the value that is ours
        "outward",  # those without which it stays in its own pod -> how their values begin
        "inward",  # those with which it stays there -> how their values begin
    ],
)

_HOROVODRUN = Launcher(
    name="horovodrun",
    commands=("horovodrun",),
    programs={"horovodrun": "launcher/shim/horovodrun.py"},
    settings={},
    leaving=BY_LIST,
    options=options.HOROVODRUN,
    elastic={"--host-discovery-script": "", "--min-np": ""},
    least={"--min-np": SLOTS, "--num-proc": SLOTS},
    most={"--max-np": SLOTS},
    hosts={
        "--host-discovery-script": paths.DISCOVER_SCRIPT,
        **dict.fromkeys(("-H", "--hosts", "-hostfile", "--hostfile")),
    },
    outward=dict.fromkeys(
        ("--host-discovery-script", "-H", "--hosts", "-hostfile", "--hostfile", "--config-file"), ""
    ),
    inward={},
)
_TORCHRUN = Launcher(
    name="torchrun",
    commands=("torchrun",),
    programs={"torchrun": "launcher/shim/torchrun.py"},
    settings={},
    leaving=BY_LIST,
    options=options.TORCHRUN,
    elastic={"--nnodes": r"(\d+):(?!\1\b)\d"},
    least={"--nnodes": HOSTS},
    most={"--nnodes": HOSTS},
    hosts={},
    outward={"--nnodes": "(?!1(:1)?$)"},
    inward={
        **dict.fromkeys(("--standalone", "--rdzv-endpoint", "--master-addr"), ""),
        "--rdzv-backend": "(?!c10d$)",
    },  # as launcher/shim/torch_options.py finds out where it runs
)
_MPIRUN = Launcher(
    name="mpirun",
    commands=("mpirun", "mpiexec", "orterun", "prterun"),
    programs={},
    settings={
        "OMPI_MCA_plm_rsh_agent": paths.KUBEXEC,
        # A tree would start daemons from workers, which cannot start anything; without the tree the
        # daemons must stay attached, and attached they must all be started at once.
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        "OMPI_MCA_orte_leave_session_attached": "1",
        "OMPI_MCA_plm_rsh_num_concurrent": "4096",
        "OMPI_MCA_orte_default_hostfile": paths.JOB_HOSTFILE,
        # It would ask DNS whether a host is itself, for seconds each where nobody answers.
        "OMPI_MCA_if_base_do_not_resolve": "1",
        # The same for Open MPI 5, whose daemons are PRRTE's.
        "PRTE_MCA_plm_ssh_agent": paths.KUBEXEC,
        "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
        "PRTE_MCA_plm_ssh_num_concurrent": "4096",
        "PRTE_MCA_prte_default_hostfile": paths.JOB_HOSTFILE,
    },
    leaving=NEVER,
    options=None,
    elastic={},
    least={},
    most={},
    hosts={},
    outward={},
    inward={},
)
_DEEPSPEED = Launcher(
    name="deepspeed",
    commands=("deepspeed", "ds", "pdsh"),
    programs={"pdsh": "launcher/shim/pdsh.py"},
    settings={},
    leaving=NEVER,
    options=None,
    elastic={},
    least={},
    most={},
    hosts={},
    outward={},
    inward={},
)
_EXPANDED = ("$", "`")
MAX_SCRIPT = 2**16
"""So many characters of a command line are looked at, many times more than any has."""
_MAX_READ = 2 * MAX_SCRIPT
"""So many of all its scripts: a script may have a shell run another one."""
_MAX_PIECES = 2**13
_MAX_COMMANDS = 2**10
"""So many parts of words, with what is between them, and so many commands, of all its scripts: any
character may be one, and costs what a whole word does."""
_OF_A_WORD = 16
"""So many characters a word of the command line counts for beside its own, and one that a script
has put in."""

OTHER = "other"
_ANY = Launcher(
    name=OTHER,
    commands=(),
    programs={"ssh": "launcher/shim/rsh.py"},
    settings={},
    leaving=BY_LIST,
    options=None,
    elastic={},
    least={},
    most={},
    hosts={},
    outward={},
    inward={},
)
"""A command that is not known: it is taken to read /etc/edl/discover_hosts.sh."""
LAUNCHERS = (
    _HOROVODRUN,
    _HOROVODRUN._replace(name=IN_PROCESS, commands=(), programs={}),
    _HOROVODRUN._replace(name=PER_SLOT, commands=(), programs={}),
    _TORCHRUN,
    _MPIRUN,
    _DEEPSPEED,
    _ANY,
)
NAMES = tuple(launcher.name for launcher in LAUNCHERS)
_BY_COMMAND = {command: launcher for launcher in LAUNCHERS for command in launcher.commands}

_COUNTS = re.compile(r"([0-9]{1,9})(?::([0-9]{1,9}))?(?::.*)?")
"""One number, or the least and the most."""

Choice = namedtuple(
    "Choice",
    [
        "name",
        "is_elastic",  # whether workers may join and leave while it runs
        "least",  # with how few of them it goes on; 0: its command does not say
        "most",  # how many processes may run; 0: its command does not say
        "is_alone",  # whether its command keeps its processes in the launcher's own pod
    ],
)
"""The launcher of a job."""


def collect_programs() -> Dict[str, str]:
    """Name -> path in the runtime, of all launchers."""
    return {name: path for row in LAUNCHERS for name, path in row.programs.items()}


def collect_settings() -> Dict[str, str]:
    """The settings of all launchers; no two rows have the same name."""
    return {name: value for row in LAUNCHERS for name, value in row.settings.items()}


def choose(command: Sequence[str], wish: Optional[str] = None, slots: int = 1) -> Choice:
    """The launcher that a container's command line starts, or the one that is wished for by name.

    Raises KeyError for a wish that is not in NAMES. Looks at the command itself, past programs that
    run another one, and, where that is a shell, at the commands of its script as far as the command
    line has it; not into files of the image. Of several the one counts that can be scaled, for
    others may only ask something or prepare the data. `slots` are those of a worker.
    """
    calls = [(row, _read_options(row, words)) for row, words in _Reading(command).calls]
    elastic = [(row, given) for row, given in calls if _is_elastic(row, given)]
    least = min((_read_least(row, given, slots) for row, given in elastic), default=0)
    runs = elastic or calls
    mosts = [_read_most(row, given, slots) for row, given in runs]
    most = max(mosts, default=0) if all(mosts) else 0
    is_alone = bool(runs) and all(_is_alone(row, given) for row, given in runs)
    if wish is not None:
        row = {row.name: row for row in LAUNCHERS}[wish]
        return Choice(row.name, row.leaving != NEVER, least, most, is_alone)
    if runs:
        row = min((row for row, _ in runs), key=LAUNCHERS.index)
        return Choice(row.name, bool(elastic), least, most, is_alone)
    return Choice(_ANY.name, is_elastic=True, least=0, most=0, is_alone=False)


def find_needed(command: Sequence[str]) -> Optional[str]:
    """The program of ours without which what a container's command line starts is not elastic.

    None for any other launcher.
    """
    choice = choose(command)
    return choice.name if choice.is_elastic and choice.name in collect_programs() else None


def _read_options(row: Launcher, words: Sequence[str]) -> List[options.Option]:
    """The options with which a launcher is called.

    A variable among them, one without a name here, may hold anything, options or nothing: what
    follows it is read too.
    """
    found: List[options.Option] = []
    place = 0
    while row.options is not None and place < len(words):
        given, place = options.read(words, row.options, place)
        found += given
        if place < len(words) and not words[place].startswith(_EXPANDED):
            break
        found += [options.Option("", word, place) for word in words[place : place + 1]]
        place += 1
    return found


def _is_elastic(row: Launcher, given: Sequence[options.Option]) -> bool:
    """Whether a launcher that is called with these options lets workers join and leave."""
    return _has_any(row.elastic, ((option.name, option.value) for option in given))


def _read_least(row: Launcher, given: Sequence[options.Option], slots: int) -> int:
    """With how few workers of so many slots it goes on; 0 where it does not say.

    What is not given may be among what cannot be read.
    """
    values = {option.name: option.value for option in given}
    for name, unit in row.least.items():
        count = _COUNTS.fullmatch(values.get(name) or "")
        if count is not None:
            return -(-_count_slots(row, values, int(count[1]), unit, slots) // slots)
        if name in values or "" in values:
            break
    return 0


def _read_most(row: Launcher, given: Sequence[options.Option], slots: int) -> int:
    """How many processes it lets run at most; 0 where it does not say."""
    values = {option.name: option.value for option in given}
    for name, unit in row.most.items():
        value = values.get(name) or ""
        count = _COUNTS.fullmatch(value)
        if count is not None:
            most = count[2] or (0 if ":" in value else count[1])
            return _count_slots(row, values, int(most), unit, slots)
    return 0


def _count_slots(
    row: Launcher, values: Dict[str, Optional[str]], count: int, unit: str, slots: int
) -> int:
    """How many slots that are. How many of them a host has in a list not ours nobody knows: 0."""
    if unit == HOSTS:
        return count * slots
    is_ours = all(values.get(name, ours) == ours for name, ours in row.hosts.items())
    return count if is_ours else 0


def _is_alone(row: Launcher, given: Sequence[options.Option]) -> bool:
    """Whether the launcher is to start processes, and does so in its own pod; a file may differ.

    horovodrun does so where it is told of no hosts, torchrun where it is told of one node, or of a
    rendezvous of its own.
    """
    values = {option.name: option.value for option in given}
    if not row.outward or "" in values:
        return False
    if row.hosts and values.keys().isdisjoint(row.least):
        return False  # it asks something, or prints it
    return _has_any(row.inward, values.items()) or not _has_any(row.outward, values.items())


def _has_any(patterns: Dict[str, str], given: Iterable[Tuple[str, Optional[str]]]) -> bool:
    """Whether an option is among them whose value begins as the pattern of its name says."""
    return any(name in patterns and re.match(patterns[name], value or "") for name, value in given)


class _Reading:
    """Finds each launcher that a command line calls, itself or in scripts.

    A here-document is a script where a shell reads it, be it from a file that it was written to.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self.calls: List[Tuple[Launcher, Sequence[str]]] = []
        """The launchers that the command starts, each with the words behind its name."""
        self._rest = _MAX_READ
        self._budget = scripts.Budget(_MAX_PIECES)
        self._commands = scripts.Budget(_MAX_COMMANDS)
        self._waiting = [scripts.Command(_cut(command), [], [])]
        self._written: Dict[str, List[List[str]]] = {}
        """Name of a file -> here-documents that may be in it."""
        self._run: Set[str] = set()
        """Names of files that are run, or read by a shell."""
        while self._waiting:
            self._take(self._waiting.pop())

    def _take(self, command: scripts.Command) -> None:
        words = command.words[wrappers.find_program(command.words) :]
        if command.stdin:
            copies = words[1:] if words and wrappers.name_of(words[0]) == "tee" else []
            self._note_written([*command.targets, *copies], command.stdin)
        if not words:
            return
        row = _BY_COMMAND.get(wrappers.name_of(words[0]))
        if row is not None:
            self.calls.append((row, words[1:]))
        self._read(wrappers.find_script(words) or "", wrappers.find_parameters(words))
        name = wrappers.name_of(wrappers.find_file(words) or "")
        if name == "stdin":
            self._read_documents(command.stdin)
        elif name:
            self._run.add(name)
            for documents in self._written.pop(name, ()):
                self._read_documents(documents)

    def _note_written(self, files: Sequence[str], documents: List[str]) -> None:
        names = {wrappers.name_of(file) for file in files}
        for name in names:
            self._written.setdefault(name, []).append(documents)
        if names & self._run:
            self._read_documents(documents)

    def _read_documents(self, documents: List[str]) -> None:
        while documents:  # each once, whoever reads it too
            script = documents.pop()
            if wrappers.is_for_shell(script):
                self._read(script)

    def _read(self, script: str, parameters: Sequence[str] = ()) -> None:
        script = script[: max(min(MAX_SCRIPT, self._rest), 0)]
        self._rest -= len(script)
        looked_up = ""
        for command in scripts.read_commands(script, self._budget):
            if not self._commands.take():
                return
            words = self._fill_in(command.words, parameters) if parameters else command.words
            words = wrappers.name_program(words, looked_up)
            looked_up = wrappers.find_looked_up(words) or looked_up
            self._waiting.append(command._replace(words=words))

    def _fill_in(self, words: Sequence[str], parameters: Sequence[str]) -> List[str]:
        """The words with a script's parameters in their places, as far as there is room."""
        found: List[str] = []
        for word in words:
            # Where there is none left they are not even counted: a script may name them thousands
            # of times, and they may be thousands.
            meant = wrappers.find_meant(word, parameters) if self._rest >= 0 else None
            self._rest -= sum(len(one) + _OF_A_WORD for one in meant or ())
            found += [word] if meant is None or self._rest < 0 else meant
        return found


def _cut(words: Sequence[str]) -> Sequence[str]:
    """The first words, MAX_SCRIPT characters and a script behind them at most."""
    ends = accumulate(len(word) + _OF_A_WORD for word in words)
    return words[: 1 + sum(end <= MAX_SCRIPT for end in ends)]
