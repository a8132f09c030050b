"""The broker's files in the pod's emptyDir."""

from __future__ import annotations

from pathlib import Path

import structlog

from launcher.broker.memories import Memory, encode_memory, write_whole

log = structlog.get_logger()


class Files:
    """The `Shelf` of brokering. A full disk is told in the log; training does not stop for it.

    Args:
        hosts: the list for readers that cannot reach the broker.
        memory: what the next broker must know.
    """

    def __init__(self, *, hosts: Path, memory: Path) -> None:
        self._hosts = hosts
        self._memory = memory

    def publish(self, text: str) -> None:
        """See brokering.Shelf."""
        log.info("hosts listed", count=text.count("\n"))
        self._write(self._hosts, text)

    def keep(self, memory: Memory) -> None:
        """See brokering.Shelf."""
        self._write(self._memory, encode_memory(memory))

    def _write(self, path: Path, text: str) -> None:
        try:
            write_whole(path, text)
        except OSError as error:
            log.critical("file not written", path=str(path), reason=str(error))
