"""Where answers go: a terminal with colours, or a pipe with none and lines of any length.

Commands print by a Screen alone. What jobs, pods and logs say is shown and never obeyed; what is
only for the person in front goes to stderr, beside the answer.
"""

from __future__ import annotations

import asyncio
import io
import json
import re
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from et.errors import EtError

PIPE_WIDTH = 100_000
"""Columns of a pipe: whoever reads it cuts lines himself."""
PHASES = {
    "Created": "yellow",
    "Waiting": "magenta",
    "Admitted": "green",
    "Running": "green",
    "Scaling": "cyan",
    "Restarting": "yellow",
    "Suspended": "magenta",
    "Succeeded": "bold green",
    "Failed": "bold red",
    "ScaleSucceeded": "green",
    "ScaleFailed": "red",
}
LONGEST_CELL = 4096
"""Characters: each row of a table is filled to the longest of them."""
MINUTE, HOUR, DAY = 60, 3600, 86400
_UNSHOWN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""C0 but for tab and newline, DEL, C1, what turns the direction of text, halves of characters."""

_JSON = json.JSONEncoder(indent=2, ensure_ascii=False)
_DEEP = re.compile(r"\n {64,}")
"""Between two values from level 32 on: the blanks would be many times as much as what is there."""
_TOO_MUCH = re.compile(r"\x1b\](?:[^\x1b]*\x1b\\)?|\x1b(?=\[[0-?]{100})")
"""Links and titles, whether they end or not, and colours of more numbers than any has: rich takes
half an hour for a line of the former, and cannot read the latter."""


def read_colors(text: str) -> Text:
    """A line of a log in the colours that it asks for, and of all else that it asks nothing.

    Tabs become blanks, eight times as many bytes at most.
    """
    # of a line with a carriage return rich would keep what is behind the last one, and a tab would
    # take it as long as hundreds of other characters
    fit = _TOO_MUCH.sub("", text).replace("\r", escape("\r")).expandtabs()
    if _TOO_MUCH.search(fit):  # its halves stood around what was taken out
        return Text(fit, style="default")
    return Text.from_ansi(fit, style="default")


def escape(text: str) -> str:
    """The text with all that a terminal would obey, or cannot show, as escapes: x1b for ESC."""
    return _UNSHOWN.sub(lambda found: repr(found[0])[1:-1], text)


def cut(cell: str | Text) -> str | Text:
    """What fits into a cell of a table."""
    return cell if len(cell) <= LONGEST_CELL else Text.assemble(cell[:LONGEST_CELL], " [...]")


class TerminalConsole(Console):
    """Shows what jobs, pods and logs say, and obeys none of it: escapes as text, no links.

    All that is printed, tables and live parts too, comes through `render`; what rich itself sends
    to the terminal (colours, the cursor's moves) is no text and passes.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """As Console's."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                style = segment.style
                plain = style.update_link(None) if style and style.link else style
                yield Segment(escape(segment.text), plain)

    def on_broken_pipe(self) -> None:
        """Raise that again: rich would end the process, whatever is left to be told."""
        raise  # noqa: PLE0704 (called while it is handled)


class Screen:
    """Two consoles: `out` for answers, `err` for what is only for the person in front of it."""

    def __init__(
        self, out: TerminalConsole | None = None, err: TerminalConsole | None = None
    ) -> None:
        self.out = out or build_console()
        self.err = err or build_console(stderr=True)

    @property
    def is_live(self) -> bool:
        """Whether a part of the screen can be drawn again."""
        return self.out.is_terminal and not self.out.is_dumb_terminal

    def say(self, text: str | Text) -> None:
        """A line, as it is."""
        self.out.print(text, markup=False, highlight=False, soft_wrap=True)

    def hint(self, text: str) -> None:
        """A line for a person; not part of the answer."""
        self.err.print(Text(text, style="dim"), soft_wrap=True)

    def warn(self, text: str) -> None:
        """A line for a person who had better know; not part of the answer."""
        self.err.print(Text(f"warning: {text}", style="yellow"), soft_wrap=True)

    def ask(self, question: str) -> bool:
        """What the person in front says to it; EtError where nobody answers."""
        # asyncio keeps Ctrl-C from whoever reads a terminal
        handler = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return typer.confirm(question, err=True)
        except typer.Abort as error:
            raise EtError("nobody has said yes: --yes does not ask") from error
        finally:
            signal.signal(signal.SIGINT, handler)

    @contextmanager
    def telling(self, sentence: str, *, unless: tuple[type[Exception], ...] = ()) -> Iterator[None]:
        """Say what is left, and what to type, of work that fails or is interrupted in it.

        Nothing is said of the errors `unless`, which are raised as all others.
        """
        try:
            yield
        except unless:
            raise
        except (Exception, asyncio.CancelledError):
            self.hint(sentence)
            raise

    def show_json(self, body: Any) -> None:
        """JSON as kubectl would print it, but for what a terminal would obey.

        What is nested deeper than any object that is meant stands in one line.
        """
        for piece in _JSON.iterencode(body):
            flat = _DEEP.sub("", piece)
            self.out.file.write(_UNSHOWN.sub(lambda found: f"\\u{ord(found[0]):04x}", flat))
        self.out.file.write("\n")
        self.out.file.flush()

    def show_rows(self, header: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> None:
        """A table without lines, in as many columns as the terminal has."""
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        for title in header:
            table.add_column(title, overflow="fold")
        for row in rows:
            table.add_row(*map(cut, row))
        self.show(table)

    def show(self, table: Table) -> None:
        """A table; in a pipe without the blanks that fill its last column."""
        if self.out.is_terminal:
            self.out.print(table)
            return
        with self.out.capture() as captured:
            self.out.print(table)
        for line in captured.get().splitlines():
            self.say(line.rstrip())


def build_console(*, stderr: bool = False) -> TerminalConsole:
    """A console that leaves text alone: no emoji, no markup, no guesses at numbers."""
    stream = sys.stderr if stderr else sys.stdout
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")  # not every locale has all characters
    width = None if stream.isatty() else PIPE_WIDTH
    return TerminalConsole(
        stderr=stderr, width=width, markup=False, highlight=False, emoji=False, soft_wrap=False
    )


def style_phase(phase: str) -> Text:
    """The phase in its colour."""
    return Text(phase or "-", style=PHASES.get(phase, ""))


def format_duration(duration: timedelta) -> str:
    """`45s`, `3m20s`, `5h2m`, `12d`: two units at most."""
    seconds = max(int(duration.total_seconds()), 0)
    if seconds < 2 * MINUTE:
        return f"{seconds}s"
    if seconds < 2 * HOUR:
        return f"{seconds // MINUTE}m{seconds % MINUTE}s"
    if seconds < 2 * DAY:
        return f"{seconds // HOUR}h{seconds % HOUR // MINUTE}m"
    return f"{seconds // DAY}d"


def format_clock(moment: datetime, now: datetime) -> str:
    """The time of day where the user is, with the date if it was on another day."""
    local, today = moment.astimezone(), now.astimezone()
    form = "%H:%M:%S" if local.date() == today.date() else "%m-%d %H:%M:%S"
    return local.strftime(form)
