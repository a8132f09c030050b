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

from et_contract import paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Optional, Sequence

BY_LIST = "list"
"""It reads the list of hosts again and again, and lets go of a host that is no longer on it."""
NEVER = "never"
"""It starts its processes once: no host joins, and none leaves before the end."""

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
        "elastic",  # what its options must look like to be elastic, as a pattern; "" for any
    ],
)

_HOROVODRUN = Launcher(
    name="horovodrun",
    commands=("horovodrun",),
    programs={"horovodrun": "launcher/shim/horovodrun.py"},
    settings={},
    leaving=BY_LIST,
    # --host-discovery-script, --min-np and --min-num-proc in the shortest form that it takes
    elastic=r"(?<!\S)--(?:host-|min-n)",
)
_TORCHRUN = Launcher(
    name="torchrun",
    commands=("torchrun",),
    programs={"torchrun": "launcher/shim/torchrun.py"},
    settings={},
    leaving=BY_LIST,
    # --nnodes=MIN:MAX, where they are not the same
    elastic=r"(?<!\S)--nn\w*[=\s]\s*['\"]?(\d+):(?!\1\b)\d",
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
    elastic="",
)
_DEEPSPEED = Launcher(
    name="deepspeed",
    commands=("deepspeed", "ds", "pdsh"),
    programs={"pdsh": "launcher/shim/pdsh.py"},
    settings={},
    leaving=NEVER,
    elastic="",
)
_WORD = re.compile(r"\S+")
_PART = re.compile(r"[^;&|(){}]+")
_ASSIGNMENT = re.compile(r"\w+=")
_KEYWORD = re.compile(r"\b(?:do|else|env|exec|nohup|then|time|if)$|^!$")
_BEGINNINGS = frozenset(";&|({")
_ENDINGS = frozenset((*";&|)", ""))
MAX_SCRIPT = 2**16
"""So many characters of a command line are looked at, many times more than any has."""

_ANY = Launcher(
    name="other",
    commands=(),
    programs={"ssh": "launcher/shim/rsh.py"},
    settings={},
    leaving=BY_LIST,
    elastic="",
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

Choice = namedtuple("Choice", ["name", "is_elastic"])
"""The launcher of a job, and whether workers may join and leave while it runs."""


def collect_programs() -> Dict[str, str]:
    """Name -> path in the runtime, of all launchers."""
    return {name: path for row in LAUNCHERS for name, path in row.programs.items()}


def collect_commands() -> List[str]:
    """What the programs of all launchers are called."""
    return sorted(command for row in LAUNCHERS for command in row.commands)


def collect_settings() -> Dict[str, str]:
    """The settings of all launchers; no two rows have the same name."""
    return {name: value for row in LAUNCHERS for name, value in row.settings.items()}


def choose(command: Sequence[str], wish: Optional[str] = None) -> Choice:
    """The launcher that a container's command line starts, or the one that is wished for by name.

    Raises KeyError for a wish that is not in NAMES. Looks at the command itself and, where that is
    a shell with `-c`, at the commands of its script; not into files.
    """
    if wish is not None:
        row = {row.name: row for row in LAUNCHERS}[wish]
        return Choice(row.name, row.leaving != NEVER)
    script = _find_script(command)[:MAX_SCRIPT]
    ends = _find_programs(script)
    for row in LAUNCHERS:
        found = min((ends[name] for name in row.commands if name in ends), default=None)
        if found is not None:
            is_told = re.search(row.elastic, script[found:]) is not None
            return Choice(row.name, row.leaving != NEVER and is_told)
    return Choice(_ANY.name, is_elastic=True)


def _find_script(command: Sequence[str]) -> str:
    """The text in which a program's name may begin a command."""
    words = list(command)
    if words and words[0].rpartition("/")[2] in ("sh", "bash", "dash", "ash", "zsh", "ksh"):
        for place, word in enumerate(words[1:-1], start=1):
            if word.startswith("-") and not word.startswith("--") and "c" in word:
                return words[place + 1]
    return " ".join(words)


def _find_programs(script: str) -> Dict[str, int]:
    """Name of each program that the script calls, without its directory -> where its name ends.

    A program is the first word of a command: of a line, after a bracket or separator, after
    keywords and assignments. Each word is looked at once, however the script is written.
    """
    ends = {}  # type: Dict[str, int]
    is_first, before = True, 0
    for match in _WORD.finditer(script):
        word, start = match.group(), match.start()
        is_first = is_first or "\n" in script[before:start]
        before = match.end()
        is_assignment = is_first and _ASSIGNMENT.match(word) is not None
        for part in _PART.finditer(word):
            if not (word[part.start() - 1] in _BEGINNINGS if part.start() else is_first):
                continue
            if word[part.end() : part.end() + 1] in _ENDINGS:
                ends.setdefault(part.group().rpartition("/")[2], start + part.end())
            is_assignment = is_assignment or _ASSIGNMENT.match(part.group()) is not None
        is_last_open = word[-1] in _BEGINNINGS or _KEYWORD.search(word) is not None
        is_first = is_assignment or is_last_open
    return ends
