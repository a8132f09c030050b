"""Programs that run another one, which their command line names: what is the command in it. Pure.

Standard library only, Python >= 3.7: this file runs in user containers too.
"""

from __future__ import annotations

import re
from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import FrozenSet, Optional, Sequence, Set, Tuple

_Wrapper = namedtuple(
    "_Wrapper",
    [
        "valued",  # options whose value is the next word
        "operands",  # how many words come before the command
        "way",  # what it does with the command: EXECUTES, READS or GUARDS
    ],
)
EXECUTES = "executes"
"""The wrapper has whatever the word names executed, as a shell would."""
READS = "reads"
"""The wrapper looks at the word, or into the file: another program in its place is another."""
GUARDS = "guards"
"""The wrapper may allow no other program, or has it look for its files elsewhere."""


def _wrap(valued: str = "", operands: int = 0, way: str = EXECUTES) -> _Wrapper:
    return _Wrapper(frozenset(valued.split()), operands, way)


_WRAPPERS = {
    "builtin": _wrap(),
    "busybox": _wrap(),
    "catatonit": _wrap(),
    "chroot": _wrap(operands=1, way=GUARDS),
    "chrt": _wrap("-T -P -D", operands=1),
    "command": _wrap("-v -V -pv -pV"),  # which only say what it would be
    "conda run": _wrap("-n --name -p --prefix --cwd"),
    "dumb-init": _wrap("-r --rewrite"),
    "env": _wrap("-u --unset -C --chdir"),
    "exec": _wrap("-a"),
    "function": _wrap(operands=1),
    "gosu": _wrap(operands=1),
    "ionice": _wrap("-c --class -n --classdata"),
    "mamba run": _wrap("-n --name -p --prefix --cwd"),
    "micromamba run": _wrap("-n --name -p --prefix -r --cwd -e --env"),
    "nice": _wrap("-n --adjustment"),
    "nohup": _wrap(),
    "nsys profile": _wrap("-o --output -t --trace -s --sample -c --capture-range -y -d -e -f"),
    "numactl": _wrap(
        "-i --interleave -p --preferred -m --membind -N --cpunodebind -C --physcpubind"
    ),
    "pdm run": _wrap("-p --project --venv", way=READS),  # a script of the project; a .py by itself
    "pipenv run": _wrap(way=READS),  # a script of the project
    "poetry run": _wrap("-C --directory -P --project", way=READS),  # the same
    "set": _wrap("-o"),  # set -- PROGRAM ...; "$@"
    "setsid": _wrap(),
    "stdbuf": _wrap("-i --input -o --output -e --error"),
    "strace": _wrap("-o -e -s -u -a -b -E -I -O -P -S -U -X"),
    "su-exec": _wrap(operands=1),
    "sudo": _wrap(
        "-u --user -g --group -h --host -p --prompt -C -r --role -t --type -T -D --chdir -R -U "
        "-l --list",  # which only say what may be run
        way=GUARDS,
    ),
    "taskset": _wrap(operands=1),
    "time": _wrap("-f --format -o --output"),
    "timeout": _wrap("-k --kill-after -s --signal", operands=1),
    "tini": _wrap("-p -e"),
    "unbuffer": _wrap(),
    "uv run": _wrap(  # a .py by itself, under its own Python
        "--with --with-editable --with-requirements --python -p --extra --no-extra --group "
        "--no-group --only-group --package --project --directory --env-file --index "
        "--default-index --index-url -i --extra-index-url --find-links -f --cache-dir "
        "--config-file",
        way=READS,
    ),
    "xargs": _wrap("-a -d -E -I -L -n -P -s"),
    "{": _wrap(),
}
_SHELLS = frozenset(("sh", "bash", "dash", "ash", "zsh", "ksh", "rbash"))
_SHELL_VALUED = ("--rcfile", "--init-file")
_PARAMETER = re.compile(r"\$[0-9]")
_ASSIGNMENT = re.compile(r"\w+(?:\[[^\]]*\])?\+?=")


def name_of(word: str) -> str:
    """A program's name without its directory."""
    return word.rpartition("/")[2]


def find_program(words: Sequence[str]) -> int:
    """The index of the program that is run in the end, past assignments and wrappers."""
    return _walk(words)[0]


def find_ways(words: Sequence[str]) -> Set[str]:
    """What the wrappers before that program do with what they run."""
    return _walk(words)[1]


def _walk(words: Sequence[str]) -> Tuple[int, Set[str]]:
    place = 0
    ways: Set[str] = set()
    while place < len(words):
        if _ASSIGNMENT.match(words[place]):
            place += 1
            continue
        name = name_of(words[place])
        both = name + " " + words[place + 1] if place + 1 < len(words) else name
        wrapper = _WRAPPERS.get(both) or _WRAPPERS.get(name)
        if wrapper is None:
            break
        ways.add(wrapper.way)
        place = _skip(words, place + (2 if both in _WRAPPERS else 1), wrapper.valued)
        place += wrapper.operands
    return place, ways


def _skip(words: Sequence[str], place: int, valued: FrozenSet[str]) -> int:
    """The index of the first word that is neither an option nor the value of one."""
    while place < len(words) and words[place][:1] == "-" and words[place] != "-":
        if words[place] == "--":
            return place + 1
        place += 2 if words[place] in valued else 1
    return place


def find_script(words: Sequence[str]) -> Optional[str]:
    """The script that a program is given as a word: a shell, or `su`, with `-c`, or `eval`."""
    name = name_of(words[0])
    if name == "eval":
        return " ".join(words[1:])
    if name == "su":
        place = words.index("-c") + 1 if "-c" in words else len(words)
    elif name in _SHELLS:
        place, letters = _read_options(words)
        place = place if "c" in letters else len(words)
    else:
        return None
    return words[place] if place < len(words) else None


def find_parameters(words: Sequence[str]) -> Sequence[str]:
    """What a shell gives the script that it is given as a word: $0, $1 ..."""
    if name_of(words[0]) not in _SHELLS:
        return ()
    place, letters = _read_options(words)
    return words[place + 1 :] if "c" in letters else ()


def find_meant(word: str, parameters: Sequence[str]) -> Optional[Sequence[str]]:
    """What a word of that script means that is parameters and nothing else; None for others."""
    if word in ("$@", "$*"):
        return parameters[1:]
    place = int(word[1]) if _PARAMETER.fullmatch(word) else len(parameters)
    return parameters[place : place + 1] or None


def find_looked_up(words: Sequence[str]) -> str:
    """The program that a command only looks for; "" for any other command."""
    is_looking = words[:1] == ["which"] or words[:2] in (["command", "-v"], ["type", "-p"])
    return words[-1] if is_looking else ""


def name_program(words: Sequence[str], looked_up: str) -> Sequence[str]:
    """The words, with the program that was looked for where another command prints its name."""
    place = find_program(words)
    if not looked_up or words[place : place + 1] not in (["$()"], ["``"]):
        return words
    return [*words[:place], looked_up, *words[place + 1 :]]


def find_file(words: Sequence[str]) -> Optional[str]:
    """The file whose script a program is, or reads; /dev/stdin where a shell is told none."""
    name = name_of(words[0])
    if name == "su":
        return None if "-c" in words else "/dev/stdin"
    if name in (".", "source"):
        return words[1] if len(words) > 1 else None
    if name not in _SHELLS:
        return words[0]
    place, letters = _read_options(words)
    if "c" in letters:
        return None
    return words[place] if place < len(words) and "s" not in letters else "/dev/stdin"


def is_for_shell(script: str) -> bool:
    """Whether a shell reads it, by its first line: one that names nobody leaves it to the shell."""
    if script[:2] != "#!":
        return True
    words = script[2:].partition("\n")[0].split()
    program = words[find_program(words) :]
    return bool(program) and name_of(program[0]) in _SHELLS


def _read_options(words: Sequence[str]) -> Tuple[int, Set[str]]:
    """The index of a shell's first operand, and the letters of the options before it."""
    place = 1
    letters: Set[str] = set()
    while place < len(words) and words[place][:1] in ("-", "+"):
        word = words[place]
        place += 1
        if word in ("-", "--"):
            break
        if word[:2] == "--":
            place += word in _SHELL_VALUED
        else:
            place += word.count("o") + word.count("O")  # -eo pipefail
            letters.update(word if word[0] == "-" else "")
    return place, letters
