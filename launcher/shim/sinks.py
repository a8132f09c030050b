"""Where the output of many sessions goes: into one output, line by line, each with its origin.

For who has many sessions in one process (sharing.py and its callers). A write may wait for its
reader, so it is never made on the thread that speaks to the broker.
"""

from __future__ import annotations

import os
import re
import select
import sys
from time import asctime

from et_contract import frames
from launcher.shim.attaching import FULL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO, Dict, Sequence

LONGEST = 256 * 1024
"""Bytes of a line that are kept until it ends; a longer one is passed on in pieces."""
_AFTER_END = re.compile(rb"(?<=[\r\n])")


class Sink:
    """Bytes in, whole lines out, each with a prefix.

    A carriage return ends a line too, as progress bars have it.

    Args:
        outputs: binary files; each gets all lines, and is flushed after them.
        prefix: put in front of every line.
        has_time: put the time in front of that, as horovodrun does.
        owned: files that are closed with the sink.
    """

    def __init__(
        self,
        outputs: Sequence[BinaryIO],
        prefix: bytes,
        *,
        has_time: bool = False,
        owned: Sequence[BinaryIO] = (),
    ) -> None:
        self._outputs = (*outputs, *owned)
        self._owned = owned
        self._prefix = prefix
        self._has_time = has_time
        self._line = b""
        self._is_continued = False
        self._is_told = False

    def write(self, data: bytes) -> None:
        """Pass on the lines that are complete now; raises OSError when nobody reads them any more.

        A file that cannot be written is told once, and keeps no other from its lines.
        """
        lines = _AFTER_END.split(data)
        lines[0] = self._line + lines[0]  # no end is in what was kept, however long it is
        self._line = lines.pop()
        if len(self._line) > LONGEST:
            lines.append(self._line)
            self._line = b""
        self._pass_on(lines)

    def close(self) -> None:
        """Pass on what is left of an unfinished line, and close the files; raises OSError."""
        try:
            self._pass_on([self._line] if self._line else [])
        finally:
            for file in self._owned:
                try:
                    file.close()
                except OSError as error:
                    self._tell(error)

    def _pass_on(self, lines: Sequence[bytes]) -> None:
        if not lines:
            return
        prefix = (asctime().encode() if self._has_time else b"") + self._prefix
        text = prefix + prefix.join(lines)
        text = text[len(prefix) :] if self._is_continued else text
        self._is_continued = not lines[-1].endswith((b"\n", b"\r"))
        for output in self._outputs:
            try:
                _write(output, text)
            except OSError as error:
                if output not in self._owned and error.errno not in FULL:
                    raise
                self._tell(error)

    def _tell(self, error: OSError) -> None:
        if not self._is_told:
            self._is_told = True
            text = f"edl: output of {self._prefix!r} is lost: {error.strerror}\n"
            try:
                os.write(2, text.encode("utf-8", "backslashreplace"))
            except OSError:
                return  # it is lost with the output


def _write(output: BinaryIO, text: bytes) -> None:
    """All of it, also where somebody who shares the file has made it non-blocking."""
    rest = memoryview(text)
    while rest:
        try:
            taken = output.write(rest) or 0  # without a buffer: a part, or None
        except BlockingIOError as error:
            taken = error.characters_written
        rest = rest[taken:]
        if rest:
            _wait_for_room(output)
    while True:
        try:
            return output.flush()
        except BlockingIOError:
            _wait_for_room(output)


def _wait_for_room(output: BinaryIO) -> None:
    poll = select.poll()
    poll.register(output.fileno(), select.POLLOUT)
    poll.poll()


def open_outputs(prefix: bytes) -> Dict[int, Sink]:
    """By channel: our own stdout and stderr, each line with this prefix."""
    return {
        frames.STDOUT: Sink([sys.stdout.buffer], prefix),
        frames.STDERR: Sink([sys.stderr.buffer], prefix),
    }
