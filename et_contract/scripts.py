"""The words of one command in a shell's script, as the shell would split them. Pure.

Nothing is expanded: what a shell would put in place of `$(...)`, a variable or backticks may be
anything, and stays in its word as it is written. Brackets are counted, however deep they are.

Standard library only, Python >= 3.7: this file runs in user containers too.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Match, Optional, Tuple

_PIECE = re.compile(
    r"""
      (?P<opening> [$<>]?\( | \$\{ | \$?' | ["`] )
    | (?P<redirection> (?:(?<!\S)\d+)? (?: <<<? -? | <[&>]? | >[>&|]? ) | &>>? )
    | (?P<end> [;&|)\n] | (?<!\S)\# )
    | (?P<joint> \\\n )
    | (?P<blank> [^\S\n]+ )
    | (?P<plain> \\. | [^\s;&|()<>'"`\\$]+ | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_BOUNDS = ("end", "blank", "redirection")
_ESCAPED = re.compile(r"""\\(?:\n|([$`"\\]))""")
_REST = re.compile(r"[^\n;&|]*")

_OPENINGS = r"""\\[\s\S]|\$?'|"|`|\$\{|"""
_ROUND = (")", re.compile(_OPENINGS + r"[()]|(?<=[\s;&|])#.*"))
_INSIDE = {
    "'": ("'", re.compile(r"'")),
    "$'": ("'", re.compile(r"\\[\s\S]|'")),
    '"': ('"', re.compile(r'\\[\s\S]|"|`|\$[({]')),
    "`": ("`", re.compile(r"\\[\s\S]|`")),
    "${": ("}", re.compile(_OPENINGS + r"\$\(|\}")),
    '"${': ("}", re.compile(r'\\[\s\S]|"|`|\$[({]|\}')),
    "(": _ROUND,
    "$(": _ROUND,
    "<(": _ROUND,
    ">(": _ROUND,
}
"""Opening -> what closes it, and what matters until then: more openings, escapes, comments."""


def read_words(script: str, start: int = 0) -> Tuple[List[str], int]:
    """The words from `start` up to what ends the command, and how far the script was looked at.

    Redirections are no words. Where something is opened that nothing closes, the rest of the line
    is split at blanks. The time is linear in what was looked at.
    """
    words, parts = [], []  # type: List[str], List[str]
    is_target, place = False, start
    while True:
        match = _PIECE.match(script, place)
        kind = match.lastgroup if match is not None else "end"
        if parts and kind in _BOUNDS:
            words += [] if is_target else ["".join(parts)]
            is_target, parts = False, []
        if match is None or kind == "end":
            return words, place
        is_target = is_target or kind == "redirection"
        text, end = _read_piece(script, match)
        if text is None:
            rest = _REST.findall(script, place)[0]
            return words + "".join([*parts, rest]).split(), len(script)
        place = end
        if kind in ("opening", "plain"):
            parts.append(text)


def _read_piece(script: str, match: Match[str]) -> Tuple[Optional[str], int]:
    """What a piece is without its quotes, None if it never ends; and where it ends."""
    text, end = match.group(), match.end()
    if match.lastgroup != "opening":
        return text[1:] if text[0] == "\\" else text, end
    end = _find_end(script, text, end)
    if end < 0:
        return None, end
    if text == '"':
        return _ESCAPED.sub(r"\1", script[match.end() : end - 1]), end
    is_quote = text[-1] == "'"
    return script[match.end() : end - 1] if is_quote else script[match.start() : end], end


def _find_end(script: str, opening: str, place: int) -> int:
    """The place behind what closes the opening before `place`; -1 if nothing does."""
    inside = [opening]
    while inside:
        closing, pattern = _INSIDE[inside[-1]]
        match = pattern.search(script, place)
        if match is None:
            return -1
        text, place = match.group(), match.end()
        if text == closing:
            inside.pop()
        elif text in _INSIDE:
            is_quoted = text == "${" and inside[-1][0] == '"'  # an apostrophe is one in there
            inside.append('"${' if is_quoted else text)
    return place
