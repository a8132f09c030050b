"""What jobs, pods and logs say is shown, and never obeyed by the terminal in front of it."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.live import Live
from rich.table import Table
from rich.text import Text

from et.screens import LONGEST_CELL, Screen, TerminalConsole, build_console, escape, read_colors
from tests.counting import count_steps, find_peak
from tests.unit.et.rigs import make_screen, read

ATTACKS = {
    "clipboard": "\x1b]52;c;Y3VybCBldmlsfHNo\x07",
    "title": "\x1b]0;pwned\x07",
    "link": "\x1b]8;;http://evil.example/\x1b\\click\x1b]8;;\x1b\\",
    "cursor": "\x1b[1A\x1b[2K",
    "device control": "\x1bP$q q\x1b\\",
    "answerback": "\x1b[6n\x1b[c\x05",
    "C1 CSI": "\x9b2J",
    "C1 OSC": "\x9d0;x\x9c",
    "direction": "\u202elive",
    "half a character": "\ud800",
}
OURS = re.compile(r"\x1b\[(?:[0-9;]*m|\?25[hl]|2K|1A)|\r")
"""Colours, and how a live part is drawn again."""


def show_row(screen: Screen, text: str) -> None:
    screen.show_rows(("NAME", "WHY"), [("job", text), ("job", Text(text, style="yellow"))])


def show_log(screen: Screen, text: str) -> None:
    screen.say(Text("w | ").append_text(read_colors(text)))


def show_live(screen: Screen, text: str) -> None:
    table = Table(box=None)
    table.add_row(text)
    with Live(table, console=screen.out, auto_refresh=False) as live:
        live.refresh()


WAYS: list[Callable[[Screen, str], None]] = [
    lambda screen, text: screen.say(text),
    lambda screen, text: screen.hint(text),
    lambda screen, text: screen.show_json({"message": text}),
    lambda screen, text: screen.err.print(Text.assemble(("et: ", "bold red"), text)),
    show_row,
    show_log,
    show_live,
]


def read_raw(screen: Screen) -> str:
    text = ""
    for console in (screen.out, screen.err):
        assert isinstance(console.file, io.StringIO)
        text += console.file.getvalue()
    return text


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize("way", range(len(WAYS)))
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=list(ATTACKS))
def test_no_way_to_the_terminal_lets_an_escape_through(attack: str, way: int, is_terminal: bool):
    screen = make_screen(width=120, is_terminal=is_terminal)
    WAYS[way](screen, f"message: {attack}")

    shown = OURS.sub("", read_raw(screen)) if is_terminal else read_raw(screen)
    assert escape(shown) == shown
    if WAYS[way] is not show_log:  # where colours of a log are read, other sequences go
        assert "message: " in shown


@pytest.mark.timeout(20)
def test_titles_that_do_not_end_keep_nobody_waiting():
    """As long as a line of a log may be."""
    assert read_colors("\x1b]" * 2**19).plain == ""


def test_a_colour_of_more_digits_than_python_reads_is_text():
    digits = "9" * 5000
    assert read_colors(f"\x1b[{digits}mx").plain == f"[{digits}mx"


@pytest.mark.long
@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "line",
    [
        "\x1b\x1b][" + "9" * 5000 + "m",
        "\x1b[" + "9" * 99 + "\x1b]" + "9" * 5000 + "m",
        "\x1b\x1b]]" * 2**18,
    ],
    ids=["colour", "digits", "titles"],
)
def test_what_is_too_much_again_once_some_was_taken_out_is_text(line: str):
    screen = make_screen(is_terminal=True)
    show_log(screen, line)
    shown = OURS.sub("", read_raw(screen))
    assert shown.startswith("w | \\x1b")
    assert escape(shown) == shown


def test_colours_of_a_log_are_kept_and_what_a_link_stands_on():
    text = read_colors(f"\x1b[1;31mred\x1b[0m {ATTACKS['link']} \x1b[38;2;1;2;3mown\x1b[0m")
    assert text.plain == "red click own"
    assert [str(span.style) for span in text.spans] == ["bold color(1)", "#010203"]


def test_of_a_line_of_a_log_nothing_is_lost_before_a_carriage_return():
    text = read_colors("10%\r\x1b[1m20%\r30%\x1b[0m")
    assert text.plain == r"10%\r20%\r30%"
    assert [(span.start, str(span.style)) for span in text.spans] == [(5, "bold")]


def test_tabs_of_a_log_are_blanks_and_cost_no_more_than_these():
    assert read_colors("a\t\x1b[1mb\x1b[0m").plain == "a       b"

    def count(line: str) -> int:
        return count_steps(lambda: show_log(make_screen(is_terminal=True), line))

    assert count("\t" * 1000) < 1.1 * count("x" * 1000)


@pytest.mark.long
@given(st.text())
def test_what_is_escaped_is_printable_and_stays_as_it_is(text: str):
    assert all(c.isprintable() or c in "\t\n" or c.isspace() or ord(c) > 0x9F for c in escape(text))
    assert escape(escape(text)) == escape(text)
    escape(text).encode()


def test_json_is_still_the_same_json():
    screen = make_screen()
    body = {"message": "".join(ATTACKS.values())}
    screen.show_json(body)
    assert json.loads(read_raw(screen)) == body


def test_json_is_written_piece_by_piece_and_what_is_deep_in_one_line():
    class Sink(io.StringIO):
        size = 0

        def write(self, text: str) -> int:
            self.size += len(text)
            return len(text)

    sink = Sink()
    deep: list[Any] = [[] for _ in range(500)]
    for _ in range(190):
        deep = [deep]
    screen = Screen(TerminalConsole(file=sink, force_terminal=False, width=80))
    peak = find_peak(lambda: screen.show_json({"items": [deep, ["x" * 2000] * 500]}))
    assert 1_000_000 < sink.size < 1_050_000
    assert peak < 500_000


@pytest.mark.parametrize("form", [str, Text])
def test_a_cell_of_a_table_has_an_end(form: Callable[[str], str | Text]):
    screen = make_screen(width=2 * LONGEST_CELL)
    screen.show_rows(("NAME", "WHY", "AGE"), [("a", form("no"), "1d"), ("b", form("x" * 9000), "")])
    first, second = read(screen.out).splitlines()[1:]
    assert first.split() == ["a", "no", "1d"]
    assert second == f"b     {'x' * LONGEST_CELL} [...]"
    assert len(first) < LONGEST_CELL + 50


def test_both_consoles_of_a_real_screen_are_of_this_kind():
    assert type(build_console()) is type(build_console(stderr=True)) is type(make_screen().out)
