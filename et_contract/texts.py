"""Text that others wrote, at the edge: JSON bounded before it is parsed, words fit to be shown.

The only place that decides what is valid. Whoever reads from a connection, a document or a process
calls it; behind that nobody asks again.

Standard library only, Python >= 3.7.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from re import Match
    from typing import Any

_MAX_DIGITS = 20
_CUT = " [...]"
_SEQUENCE = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, the cursor
    "|(?:\x1b[\\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x9c|\x1b\\\\)?"  # OSC, DCS
    "|\x1b[ -/]*[0-~]"
)
_UNFIT = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls other than tab and newline
    "\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"  # what ends lines, or turns text around
    "\ud800-\udfff\ufffe\uffff]"  # no characters at all
)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
# Runs of backslashes whole: a match for each two of them would take 36 times their size.
_ESCAPED = re.compile(
    r"(?<!\\)(\\+)u([dD][89a-fA-F][0-9a-fA-F]{2})(\\u[dD][c-fC-F][0-9a-fA-F]{2})?"
)
_BYTE = re.compile(r"[dD][cC][89a-fA-F]")
_HIGH = "89abAB"
_UNKNOWN = "\\ufffd"
_DEEPEST = 400
_STRING_OR_BRACKET = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[][{}]', re.DOTALL)


def clean(text: object, limit: int) -> str:
    r"""Words for people: at most `limit` characters, no control but tab and newline, valid Unicode.

    Terminal sequences (colours) go, each state of a progress bar (\r) becomes a line, and what is
    neither text nor a number is no words at all.
    """
    words = str(text) if isinstance(text, (str, int, float)) else ""
    if len(words) > 4 * limit:
        words = words[: 4 * limit] + _CUT
    words = words.replace("\r\n", "\n").replace("\r", "\n")
    words = _UNFIT.sub("\ufffd", _SEQUENCE.sub("", words))
    return words if len(words) <= limit else words[: limit - len(_CUT)] + _CUT


def parse_json(content: bytes | str, limit: int, depth: int = 0, *, has_bytes: bool = False) -> Any:
    """The value of a JSON text of at most `limit` bytes (or characters).

    Its strings are valid Unicode: halves of a surrogate pair and bytes that are no UTF-8 become
    U+FFFD; with `has_bytes` halves that stand for a byte stay ("surrogateescape"), for a command
    line may have any bytes, and is shown to nobody. Its numbers fit a 64-bit reader. A text of more
    than some hundreds of levels is refused; with `depth` one of more levels than that is read with
    null in place of what is below.

    Raises ValueError, with words for people, for a text that is too large, too deep, or no JSON.
    """
    if len(content) > limit:
        raise ValueError("larger than %d bytes" % limit)
    text = content if isinstance(content, str) else content.decode("utf-8", "replace")
    if _SURROGATE.search(text):
        text = _ESCAPED.sub(lambda match: _keep_known(match, has_bytes=has_bytes), text)
    most = depth or _DEEPEST
    try:
        value = _load(text)
        if text.count("[") + text.count("{") <= most or not _is_deeper(value, most):
            return value
        del value
    except RecursionError:
        pass  # how much it takes to come to that is not the same in all versions
    if depth:
        return _load(_cut_depth(text, depth))
    raise ValueError("nested too deeply")


def read_file(path: str, limit: int, flags: int = 0) -> bytes:
    """What a file has that others can have put there; `flags` are for os.open, besides ours.

    A pipe would make us wait for ever, and a hole of terabytes take the node's memory: what is no
    regular file of at most `limit` bytes is not read. Raises ValueError for it, and OSError.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
            raise ValueError("no file of at most %d bytes" % limit)
        return os.read(fd, status.st_size)
    finally:
        os.close(fd)


def _load(text: str) -> Any:
    return json.loads(
        text, parse_int=_parse_integer, parse_float=_parse_float, parse_constant=_refuse
    )


def _keep_known(match: Match[str], *, has_bytes: bool) -> str:
    """The match without halves of a pair; after an even number of backslashes `u` is a letter."""
    run, first, second = match.groups()
    is_escape = len(run) % 2 == 1
    if is_escape and second and first[1] in _HIGH:
        return match.group(0)
    if is_escape and not (has_bytes and _BYTE.match(first)):
        kept = run[1:] + _UNKNOWN
    else:
        kept = run + "u" + first
    if second and not (has_bytes and _BYTE.match(second, 2)):
        second = _UNKNOWN
    return kept + (second or "")


def _refuse(name: str) -> float:
    raise ValueError(name + " is no JSON")


def _parse_integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MAX_DIGITS else _parse_float(digits)


def _parse_float(digits: str) -> float:
    return min(max(float(digits), -sys.float_info.max), sys.float_info.max)


def _is_deeper(value: Any, depth: int) -> bool:
    """Whether the value has more levels than that; level by level, no recursion."""
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(depth):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
    return bool(level)


def _cut_depth(text: str, depth: int) -> str:
    """The text with null in place of what is nested deeper; one pass, no recursion."""
    kept = []
    level, start = 0, 0
    for match in _STRING_OR_BRACKET.finditer(text):
        token = match.group()
        if token in ("[", "{"):
            level += 1
            if level == depth + 1:
                kept.append(text[start : match.start()])
        elif token in ("]", "}"):
            if level == depth + 1:
                kept.append("null")
                start = match.end()
            level -= 1
    if level <= depth:
        kept.append(text[start:])
    return "".join(kept)
