"""The reader of the API server's audit log."""

from __future__ import annotations

from pathlib import Path

from devcluster.audits import read_lines
from tests.e2e.audits import mark_end


def test_from_a_mark_on_everything_is_read_though_the_file_was_full_meanwhile(
    tmp_path: Path,
) -> None:
    log = tmp_path / "audit.log"
    (tmp_path / "audit-2026-01-01T00-00-01.000.log").write_bytes(b"older\n")
    log.write_bytes(b"before\n")
    start = mark_end(log)
    with log.open("ab") as stream:
        stream.write(b"after\n")
    log.rename(tmp_path / "audit-2026-01-01T00-00-02.000.log")
    log.write_bytes(b"newest\nhal")

    assert list(read_lines(log, start)) == [b"after\n", b"newest\n"]
    assert list(read_lines(log)) == [b"older\n", b"before\n", b"after\n", b"newest\n"]
