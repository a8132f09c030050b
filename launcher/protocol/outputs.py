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
"""Bytes held per session, both channels together; memory is taken as they come."""
READ = 64 * 1024
"""Bytes per read(2) of a pipe."""


class _Channel:
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
    """Both channels of one session. Offsets count bytes from the start of each channel."""

    def __init__(self) -> None:
        self.window = frames.WINDOW
        self._channels = {channel: _Channel() for channel in frames.CHANNELS}
        self._turn = False

    @property
    def starts(self) -> List[int]:
        """Offset of the oldest byte held, [stdout, stderr]."""
        return [channel.start for channel in self._channels.values()]

    @property
    def ends(self) -> List[int]:
        """Bytes produced so far, [stdout, stderr]."""
        return [channel.end for channel in self._channels.values()]

    @property
    def held(self) -> int:
        """Bytes held."""
        return sum(len(channel.data) for channel in self._channels.values())

    @property
    def is_ended(self) -> bool:
        """Neither channel can bring more."""
        return all(channel.ended for channel in self._channels.values())

    def wants(self, channel: int, limit: Optional[int]) -> bool:
        """Whether to read this channel now; `limit` bytes may be held, None: any number come in."""
        return not self._channels[channel].ended and (limit is None or self.held < limit)

    def add(self, channel: int, data: bytes) -> None:
        """Take bytes read from the process; the oldest are dropped where there is no room."""
        target = self._channels[channel]
        target.data += data
        target.end += len(data)
        while self.held > RING:
            fullest = max(self._channels.values(), key=lambda each: len(each.data))
            excess = min(self.held - RING, len(fullest.data))
            fullest.trim(fullest.start + excess)

    def end(self, channel: int) -> None:
        """The process's side of this channel is closed."""
        self._channels[channel].ended = True

    def acknowledge(self, channel: int, offset: int) -> None:
        """Bytes before `offset` are safe; an older word than the last one changes nothing.

        They may have come over a stream that was cut, and not yet be sent on this one. Bytes that
        were never produced are not believed. Raises ProtocolError for another channel.
        """
        target = self._channels.get(channel)
        if target is None:
            raise ProtocolError(f"ACK for channel {channel}")
        if target.start < offset <= target.end:
            target.trim(offset)
            target.sent = max(target.sent, offset)

    def is_behind(self, received: Dict[int, int]) -> bool:
        """Whether these counts are of bytes that were never produced."""
        return any(offset > self._channels[channel].end for channel, offset in received.items())

    def resume(self, received: Dict[int, int]) -> None:
        """Send again from what is safe, whatever was sent before; raises ProtocolError."""
        if self.is_behind(received):
            raise ProtocolError(f"RESUME at {received} is ahead of {self.ends}")
        for channel, offset in received.items():
            target = self._channels[channel]
            if offset > target.start:
                target.trim(offset)
            target.sent = offset

    def forget(self) -> None:
        """Let go of every byte; a later claim is told that they are gone."""
        for channel in self._channels.values():
            channel.trim(channel.end)
            channel.sent = channel.end

    def next_frame(self, session: bytes) -> Optional[bytes]:
        """The next DATA or DROPPED that the window allows; None when there is none."""
        credit = self.window - sum(max(0, c.sent - c.start) for c in self._channels.values())
        # In turn: neither channel can starve the other.
        for number in (frames.STDERR, frames.STDOUT) if self._turn else frames.CHANNELS:
            channel = self._channels[number]
            self._turn = number == frames.STDOUT
            if channel.sent < channel.start:
                return _dropped(session, number, channel)
            if channel.sent < channel.end and credit > 0:
                return _data(session, number, channel, credit)
        return None


def _dropped(session: bytes, number: int, channel: _Channel) -> bytes:
    start, channel.sent = channel.sent, channel.start
    body = b'{"to":%d}' % channel.start
    return frames.encode(frames.DROPPED, session, body, flags=number, offset=start)


def _data(session: bytes, number: int, channel: _Channel, credit: int) -> bytes:
    first = channel.sent - channel.start
    with memoryview(channel.data) as view:
        data = bytes(view[first : first + min(credit, frames.MAX_DATA)])
    start, channel.sent = channel.sent, channel.sent + len(data)
    return frames.encode(frames.DATA, session, data, flags=number, offset=start)
