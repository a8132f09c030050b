"""The commands of a shell's script, and the words of each, as the shell would split them. Pure.

Nothing is expanded: what a shell would put in place of `$(...)`, `${...}`, backticks or `<(...)`
may be anything, and is `$()`, `${}`, "``", `<()` in its word. The commands in them are commands of
the script, as those in brackets are. Comments, here-documents, patterns of `case`, keywords and
redirections are no words. Who is given a here-document may run it: it is told beside the words.

Standard library only, Python >= 3.7: this file runs in user containers too.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import deque, namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Deque, Dict, List, Match, Optional, Tuple

Command = namedtuple(
    "Command",
    [
        "words",
        "targets",  # files that its output is redirected into, as words
        "stdin",  # here-documents that it reads; one list for all commands of a pipeline
    ],
)

_KEYWORDS = frozenset(
    ("if", "then", "elif", "else", "while", "until", "do", "coproc", "!", "{", "}")
)
"""A command follows, or nothing. `case` and `esac` are words: what is between them decides."""

_COMMANDS = re.compile(
    r"""
      (?P<opening> [$<>]?\( | \$\{ | \$?" | ` )
    | (?P<quote> \$?' )
    | (?P<redirection> (?:(?<!\S)\d+)? (?: <<<? -? | <[&>]? | >[>&|]? ) | &>>? )
    | (?P<end> ;;?&? | &&? | \|[|&]? | [)\n] )
    | (?P<joint> \\\n )
    | (?P<blank> [^\S\n]+ )
    | (?P<hash> \# )
    | (?P<plain> \\. | [^\s;&|()<>'"`\\$\#]+ | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_UNQUOTED = re.compile(r"(?P<end>[;&|\n])|(?P<blank>[^\S\n]+)|(?P<plain>[^\s;&|]+)")
"""How a script goes on where something is opened that nothing closes."""
_QUOTED = re.compile(r"""(?P<opening>\$[({]|`)|(?P<closing>")|(?P<plain>\\[\s\S]|[^"`\\$]+|.)""")
_BRACED = re.compile(
    r"""(?P<opening>\$[({]|`|")|(?P<quote>\$?')|(?P<closing>})|(?P<plain>\\[\s\S]|[^"`'}\\$]+|.)"""
)
_QUOTED_BRACED = re.compile(
    r"""(?P<opening>\$[({]|`|")|(?P<closing>})|(?P<plain>\\[\s\S]|[^"`}\\$]+|.)"""
)
_PIPES = ("|", "|&")
_PIECES = {'"': _QUOTED, "${": _BRACED, '"${': _QUOTED_BRACED}
_COMMENT_ENDS = {False: re.compile(r"\n"), True: re.compile(r"[\n`]")}
_ESCAPED = re.compile(r"""\\(?:\n|([$`"\\]))""")
_APOSTROPHES = {"'": re.compile(r"([^']*)'"), "$'": re.compile(r"((?:\\[\s\S]|[^'\\])*)'")}
_STANDS_FOR = {"$(": "$()", "${": "${}", '"${': "${}", "`": "``", "<(": "<()", ">(": ">()"}


class Budget:
    """How much is looked at of all scripts of a command line: others wait for who reads it."""

    def __init__(self, pieces: int) -> None:
        self._left = pieces

    def take(self) -> bool:
        """Whether there was one left; now it is one less."""
        self._left -= 1
        return self._left >= 0


class _Level:
    """Where commands are, or a part of a word is, until it is closed."""

    __slots__ = (
        "cases",
        "is_pattern",
        "opening",
        "parts",
        "place",
        "redirection",
        "stdin",
        "targets",
        "words",
    )

    def __init__(self, opening: str, place: int) -> None:
        self.opening = opening
        self.place = place
        """Behind the opening."""
        self.parts: Optional[List[str]] = None
        """Of the word that is read; None between words."""
        self.words: List[str] = []
        """Of the command that is read."""
        self.targets: List[str] = []
        self.stdin: List[str] = []
        """Of the pipeline that is read."""
        self.redirection = ""
        """What the next word is the target of."""
        self.cases = 0
        """How many `case` are open."""
        self.is_pattern = False

    def add(self, text: str) -> None:
        self.parts = self.parts or []
        self.parts.append(text)

    def is_before_pattern(self) -> bool:
        """Whether a bracket may stand before a pattern here."""
        return self.is_pattern or self.words[:1] == ["case"]


def read_commands(script: str, budget: Optional[Budget] = None) -> List[Command]:
    """Each command; those in another one come before it.

    Where something is opened that nothing closes, what follows is read as if nothing was quoted or
    in brackets. The time is linear. A piece of the budget is a part of a word, or what is between
    two: where none is left, the script ends.
    """
    return _Reading(script).read(budget)


class _Reading:
    def __init__(self, script: str) -> None:
        self._script = script
        self._place = 0
        self._levels = [_Level("", 0)]
        self._commands: List[Command] = []
        self._documents: Deque[Tuple[str, List[str]]] = deque()
        """What ends the here-documents that begin in the next line, and where they go."""
        self._lines: Optional[Dict[str, List[int]]] = None
        self._is_unquoted = False

    def read(self, budget: Optional[Budget]) -> List[Command]:
        while budget is None or budget.take():
            level = self._levels[-1]
            pattern = _UNQUOTED if self._is_unquoted else _PIECES.get(level.opening, _COMMANDS)
            match = pattern.match(self._script, self._place)
            if match is not None:
                self._place = match.end()
                self._take(level, match)
            elif len(self._levels) > 1:
                self._give_up(self._levels[1].place)
            else:
                break
        self._end_command(self._levels[0], "\n")
        return self._commands

    def _take(self, level: _Level, match: Match[str]) -> None:
        kind, text = match.lastgroup, match.group()
        if kind == "opening":
            self._open(level, text[-1] if text == '$"' else text)
        elif kind == "closing":
            self._close(level)
        elif kind == "quote":
            self._quote(level, text)
        elif kind == "plain":
            self._add(level, text)
        elif kind == "hash":
            self._take_hash(level)
        elif kind != "joint":
            self._bound(level, str(kind), text)

    def _add(self, level: _Level, text: str) -> None:
        if level.opening == '"':
            level.add(_ESCAPED.sub(r"\1", text))
        else:
            level.add(text[1:] if text[0] == "\\" and not self._is_unquoted else text)

    def _take_hash(self, level: _Level) -> None:
        if level.parts is not None:
            level.add("#")
            return
        end = _COMMENT_ENDS[level.opening == "`"].search(self._script, self._place)
        self._place = end.start() if end else len(self._script)

    def _bound(self, level: _Level, kind: str, text: str) -> None:
        """What ends a word, and perhaps its command and where that is."""
        self._end_word(level)
        if kind == "redirection":
            level.redirection = text
        elif kind == "end":
            is_pattern = self._end_command(level, text)
            if text == ")" and not is_pattern and level.opening.endswith("("):
                self._close(level)
            if text == "\n":
                self._take_documents()

    # ------------------------------------------------------------ levels

    def _open(self, level: _Level, opening: str) -> None:
        if opening == "`" and level.opening == "`":
            self._close(level)
            return
        if opening == "(":
            if level.is_before_pattern():
                return
            self._end_command(level, opening)
        else:
            level.add("")
        is_quoted = opening == "${" and level.opening[:1] == '"'  # an apostrophe is one in there
        self._levels.append(_Level('"' + opening if is_quoted else opening, self._place))
        if opening == "(":
            self._levels[-1].stdin = level.stdin

    def _close(self, level: _Level) -> None:
        if level.opening == "`":
            self._end_command(level, "\n")
        self._levels.pop()
        if level.opening == '"':
            self._levels[-1].add("".join(level.parts or []))
        elif level.opening != "(":
            self._levels[-1].add(_STANDS_FOR[level.opening])

    def _quote(self, level: _Level, text: str) -> None:
        match = _APOSTROPHES[text].match(self._script, self._place)
        if match is None:
            self._give_up(self._levels[1].place if len(self._levels) > 1 else self._place)
        else:
            level.add(match.group(1))
            self._place = match.end()

    def _give_up(self, place: int) -> None:
        """Nothing is opened any more, from `place` on."""
        self._is_unquoted = True
        self._place = place
        del self._levels[1:]

    # ------------------------------------------------------------ words and commands

    def _end_word(self, level: _Level) -> None:
        if level.parts is None:
            return
        word, level.parts = "".join(level.parts), None
        if level.redirection in ("<<", "<<-"):
            self._documents.append((word, level.stdin))
        elif level.redirection.startswith("<<<"):
            level.stdin.append(word)
        elif ">" in level.redirection:
            level.targets.append(word)
        elif not level.redirection and (level.words or word not in _KEYWORDS):
            level.words.append(word)
        level.redirection = ""

    def _end_command(self, level: _Level, end: str) -> bool:
        """Note what was read; whether the end is that of a pattern."""
        self._end_word(level)
        level.redirection = ""
        words, level.words = level.words, []
        targets, level.targets = level.targets, []
        if level.cases and words[:1] == ["esac"]:
            level.cases -= 1
            level.is_pattern = False
            return False
        is_case = words[:1] == ["case"] and words[2:3] == ["in"]
        level.cases += is_case
        if is_case or level.is_pattern:
            level.is_pattern = end != ")"
            return end == ")"
        is_definition = end == "(" and len(words) == 1  # of a function, or an array
        if words and not is_definition:
            self._commands.append(Command(words, targets, level.stdin))
            level.stdin = level.stdin if end in _PIPES else []
        level.is_pattern = level.cases > 0 and end.startswith(";") and len(end) > 1
        return False

    # ------------------------------------------------------------ here-documents

    def _take_documents(self) -> None:
        while self._documents:
            end, stdin = self._documents.popleft()
            if self._lines is None:
                self._lines = _index_lines(self._script)
            places = self._lines.get(end, [])
            index = bisect_left(places, self._place)
            if index < len(places):  # one that never ends would be the rest, or was none
                stdin.append(self._script[self._place : places[index]])
                self._place = self._script.find("\n", places[index]) + 1 or len(self._script)


def _index_lines(script: str) -> Dict[str, List[int]]:
    """Each line without the tabs before it -> where it begins."""
    lines: Dict[str, List[int]] = {}
    place = 0
    for line in script.split("\n"):
        lines.setdefault(line.lstrip("\t"), []).append(place)
        place += len(line) + 1
    return lines
