"""What a session has written and the shim has not yet acknowledged.

While the session is claimed, reading stops at one window of held bytes: the process waits for its
reader, as behind any pipe. While it is not, nothing waits: up to RING bytes are held, then the
oldest are dropped, and the next claim is told which.
"""

from __future__ import annotations

from typing import Dict, List, Optional

from et_contract import frames
from et_contract.frames import ProtocolError

RING = 4 * 1024 * 1024
"""Bytes held per session, both streams together; memory is taken as they come."""
READ = 64 * 1024
"""Bytes per read(2) of a pipe."""


class _Stream:
    """`start` oldest byte held, `sent` next byte to send, `end` next byte to come."""

    def __init__(self) -> None:
        self.start = 0
        self.sent = 0
        self.end = 0
        self.data = bytearray()
        self.ended = False

    def trim(self, start: int) -> None:
        del self.data[: start - self.start]
        self.start = start


class Output:
    """Both streams of one session. Offsets count bytes from the start of each stream."""

    def __init__(self) -> None:
        self.window = frames.WINDOW
        self._streams = {stream: _Stream() for stream in frames.STREAMS}
        self._turn = False

    @property
    def starts(self) -> List[int]:
        """Offset of the oldest byte held, [stdout, stderr]."""
        return [stream.start for stream in self._streams.values()]

    @property
    def ends(self) -> List[int]:
        """Bytes produced so far, [stdout, stderr]."""
        return [stream.end for stream in self._streams.values()]

    @property
    def held(self) -> int:
        """Bytes held."""
        return sum(len(stream.data) for stream in self._streams.values())

    @property
    def is_ended(self) -> bool:
        """Neither stream can bring more."""
        return all(stream.ended for stream in self._streams.values())

    def wants(self, stream: int, limit: Optional[int]) -> bool:
        """Whether to read this stream now; `limit` bytes may be held, None: any number come in."""
        return not self._streams[stream].ended and (limit is None or self.held < limit)

    def add(self, stream: int, data: bytes) -> None:
        """Take bytes read from the process; the oldest are dropped where there is no room."""
        target = self._streams[stream]
        target.data += data
        target.end += len(data)
        while self.held > RING:
            fullest = max(self._streams.values(), key=lambda each: len(each.data))
            excess = min(self.held - RING, len(fullest.data))
            fullest.trim(fullest.start + excess)

    def end(self, stream: int) -> None:
        """The process's side of this stream is closed."""
        self._streams[stream].ended = True

    def acknowledge(self, stream: int, offset: int) -> None:
        """Bytes before `offset` are safe; an older word than the last one changes nothing.

        They may have come over a stream that was cut, and not yet be sent on this one. Bytes that
        were never produced are not believed. Raises ProtocolError for another stream.
        """
        target = self._streams.get(stream)
        if target is None:
            raise ProtocolError(f"ACK for stream {stream}")
        if target.start < offset <= target.end:
            target.trim(offset)
            target.sent = max(target.sent, offset)

    def is_behind(self, received: Dict[int, int]) -> bool:
        """Whether these counts are of bytes that were never produced."""
        return any(offset > self._streams[stream].end for stream, offset in received.items())

    def resume(self, received: Dict[int, int]) -> None:
        """Send again from what is safe, whatever was sent before; raises ProtocolError."""
        if self.is_behind(received):
            raise ProtocolError(f"RESUME at {received} is ahead of {self.ends}")
        for stream, offset in received.items():
            target = self._streams[stream]
            if offset > target.start:
                target.trim(offset)
            target.sent = offset

    def forget(self) -> None:
        """Let go of every byte; a later claim is told that they are gone."""
        for stream in self._streams.values():
            stream.trim(stream.end)
            stream.sent = stream.end

    def next_frame(self, session: bytes) -> Optional[bytes]:
        """The next DATA or DROPPED that the window allows; None when there is none."""
        credit = self.window - sum(max(0, s.sent - s.start) for s in self._streams.values())
        # In turn: neither stream can starve the other.
        for number in (frames.STDERR, frames.STDOUT) if self._turn else frames.STREAMS:
            stream = self._streams[number]
            self._turn = number == frames.STDOUT
            if stream.sent < stream.start:
                return _dropped(session, number, stream)
            if stream.sent < stream.end and credit > 0:
                return _data(session, number, stream, credit)
        return None


def _dropped(session: bytes, number: int, stream: _Stream) -> bytes:
    start, stream.sent = stream.sent, stream.start
    body = b'{"to":%d}' % stream.start
    return frames.encode(frames.DROPPED, session, body, flags=number, offset=start)


def _data(session: bytes, number: int, stream: _Stream, credit: int) -> bytes:
    first = stream.sent - stream.start
    with memoryview(stream.data) as view:
        data = bytes(view[first : first + min(credit, frames.MAX_DATA)])
    start, stream.sent = stream.sent, stream.sent + len(data)
    return frames.encode(frames.DATA, session, data, flags=number, offset=start)
