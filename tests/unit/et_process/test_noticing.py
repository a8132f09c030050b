"""The file with which an installation adds to the table of notices."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from et_kube.notices import ROWS, NoticeKind, Row, Sign
from et_operator.cli import read_settings
from et_process.noticing import MAX_BYTES, read_rows
from et_scheduler.cli import read_settings as read_schedulers

GOOD = """
- taint: example.com/reclaimed
  reason: the owner of the rack takes it back
  kind: Firm
  leadSeconds: 300
- condition: InstanceExpired
  reason: not here
  kind: Firm
"""


def write(folder: Path, text: str) -> str:
    path = folder / "notices.yaml"
    path.write_text(text, "utf-8")
    return str(path)


def test_both_programs_read_it_at_their_start(tmp_path: Path):
    path = write(tmp_path, GOOD)
    rows = read_settings(["--broker-image", "i"], {"NOTICES_FILE": path}).notices
    assert rows == read_schedulers(["--notices-file", path], {}).notices
    own = Row(
        Sign.TAINT,
        "example.com/reclaimed",
        "the owner of the rack takes it back",
        NoticeKind.FIRM,
        timedelta(seconds=300),
    )
    assert rows[0] == own
    [expired] = [row for row in rows if row.key == "InstanceExpired"]
    assert expired.kind is NoticeKind.FIRM  # one's own word counts
    assert len(rows) == len(ROWS) + 1
    assert read_settings(["--broker-image", "i"], {}).notices == ROWS


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: b", "is no list of notices"),
        ("- a", "notice 1: is no object"),
        ("- {reason: a, kind: Firm}", "give one of taint, condition, annotation"),
        ("- {taint: a, condition: b}", "give one of taint, condition, annotation"),
        ("- {taint: a, kind: Firm}", "reason: is missing"),
        ("- {taint: '', reason: a, kind: Firm}", "taint: must be a key of 1 to 316"),
        ("- {taint: a, reason: b, kind: firm}", "kind: must be Firm or Soft, not 'firm'"),
        ("- {taint: a, reason: b}", "kind: must be Firm or Soft, not None"),
        ("- {taint: a, reason: b, kind: Soft, lead: 1}", "lead: is not known"),
        ("- {taint: a, reason: b, kind: Soft, leadSeconds: -1}", "leadSeconds: must be a whole"),
        ("- {taint: a, reason: b, kind: Soft, leadSeconds: 1e9}", "leadSeconds: must be a whole"),
        ("- {annotation: a, reason: b, kind: Soft, leadSeconds: 1}", "leave it out"),
        ("- {", "cannot be read"),
        ("\x00", "cannot be read"),
        (" " * (MAX_BYTES + 1), "has more than"),
    ],
)
def test_a_file_that_cannot_be_used_keeps_the_program_from_starting(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = write(tmp_path, text)
    with pytest.raises(ValueError, match=r"notices\.yaml") as failed:
        read_rows(path)
    assert words in str(failed.value)
    with pytest.raises(SystemExit) as ended:
        read_settings(["--broker-image", "i"], {"NOTICES_FILE": path})
    assert ended.value.code == 2
    assert "NOTICES_FILE" in capsys.readouterr().err


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(ValueError, match="nowhere"):
        read_rows(str(tmp_path / "nowhere"))
