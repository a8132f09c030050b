"""Where frames wait for the wire: one outbox per stream, one transport per connection.

Nothing here blocks. What is queued for a shim is bounded by its session's window, what is queued
for an agent by what its shims acknowledge; a stream that takes nothing for half a minute is dead.
Where either is more, somebody floods us or does not read, and that connection is ended.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

from et_contract.frames import MAX_PAYLOAD, MOST_WINDOW, ProtocolError
from launcher.broker.logging import log

MESSAGE = 32 * 1024
"""Bytes: what is smaller is sent together, what is larger in pieces, for the servers on the way
have limits of their own."""
PEER_HELD = 2 * MOST_WINDOW
"""Bytes queued for one connection of our socket, for each of its sessions."""
ALL_HELD = 512 * 2**20
"""Bytes queued for all connections of our socket together, twice what the windows of the largest
job are: each may ask for what it never reads. Whoever has most is cut off."""
LOOK_BYTES = 64 * 1024
"""After so many to one connection it is looked how many of them wait: newer Pythons count all the
pieces for that, and an agent's may be as small as a line."""
UNFINISHED = 64 * 2**20
"""Bytes of frames of which the rest has not come: of all connections of our socket together, and of
all agents before their WELCOME, after which they say nothing that is long. Whoever writes his frame
at once has it taken; of who does not, whoever has sent most is cut off."""
MOST_PEERS = 32_768
"""Connections of our socket: two for each slot of the largest jobs."""
AGENT_HELD = 32 * MAX_PAYLOAD
"""Bytes queued for one agent: the SPAWNs of many slots, each with an environment."""
AGENTS_HELD = 512 * 2**20
"""Bytes queued for all agents together, twice what SPAWNs take (starts.KEPT): a shim may say
anything any number of times, to agents that read none of it. Where most waits, that stream ends."""
_ENDLESS = "its frame does not come to an end"
_TOO_MUCH = "more waits for the agent than there is room for"


S = TypeVar("S", bound=Hashable)


class Unfinished(Generic[S]):
    """What each of many has sent of a frame of which the rest has not come, in bytes."""

    def __init__(self) -> None:
        self._sizes: dict[S, int] = {}
        self._held = 0

    def note(self, sender: S, size: int) -> list[S]:
        """So many bytes are there of this one: who is to be cut off, and counts no more."""
        self._held += size - self._sizes.pop(sender, 0)
        if size:
            self._sizes[sender] = size
        over = []
        while self._held > UNFINISHED:
            most = max(self._sizes, key=self._sizes.__getitem__)
            self._held -= self._sizes.pop(most)
            over.append(most)
        return over


class Outbox:
    """Frames on their way to one agent, in order; a PING goes before them all."""

    def __init__(self) -> None:
        self._frames: deque[bytes] = deque()
        self._filled = asyncio.Event()
        self._trouble = ""
        """Why nothing is sent any more."""
        self.held = 0
        """Bytes that wait."""

    def put(self, frame: bytes) -> None:
        """Send after all others; what is too much ends the stream."""
        if self.held + len(frame) > AGENT_HELD:
            self.end(_TOO_MUCH)
        if not self._trouble:
            self.held += len(frame)
            self._frames.append(frame)
            self._filled.set()

    def put_first(self, frame: bytes) -> None:
        """Send before all others; raises ProtocolError once the stream is to end."""
        self._check()
        self.held += len(frame)
        self._frames.appendleft(frame)
        self._filled.set()

    def end(self, trouble: str) -> None:
        """Nothing of what waits, and of what follows, is sent: that ends the stream."""
        self._frames.clear()
        self.held = 0
        self._trouble = trouble
        self._filled.set()

    async def take(self) -> bytes:
        """The next frames, at least one; the only reader waits until there is one.

        Raises ProtocolError once the stream is to end.
        """
        await self._filled.wait()
        self._check()
        taken = bytearray()
        while self._frames and len(taken) < MESSAGE:
            taken += self._frames.popleft()
        if not self._frames:
            self._filled.clear()
        self.held -= len(taken)
        return bytes(taken)

    def _check(self) -> None:
        if self._trouble:
            raise ProtocolError(self._trouble)


class Wires:
    """The `Wire` of relaying, on asyncio."""

    def __init__(self) -> None:
        self._outboxes: dict[str, Outbox] = {}
        self._queued = 0
        """Bytes that wait for all of these: so many at most, with what was sent since a look."""
        self._peers: dict[int, asyncio.Transport] = {}
        self._last_peer = 0
        self._unfinished: Unfinished[int] = Unfinished()
        self._unwelcome: Unfinished[Outbox] = Unfinished()
        self._unread: dict[int, int] = {}
        """Bytes that wait for a connection: so many at most, with what was read since a look."""
        self._all_unread = 0

    def open_stream(self, uid: str, outbox: Outbox) -> None:
        """Frames for this pod go here from now on."""
        self._outboxes[uid] = outbox

    def close_stream(self, uid: str) -> None:
        """Frames for this pod are dropped from now on."""
        self._outboxes.pop(uid, None)

    def add_peer(self, transport: asyncio.Transport) -> int:
        """A connection of our socket; its number is used once. One too many is ended."""
        self._last_peer += 1
        if len(self._peers) >= MOST_PEERS:
            transport.abort()
        else:
            self._peers[self._last_peer] = transport
        return self._last_peer

    def remove_peer(self, peer: int) -> None:
        """The connection has ended."""
        self._peers.pop(peer, None)
        self.note_unfinished(peer, 0)
        self._note_unread(peer, 0)

    def note_unfinished(self, peer: int, size: int) -> None:
        """So many bytes of a frame have come from this connection, and the rest has not."""
        for most in self._unfinished.note(peer, size):
            log.warning("connection ended", peer=most, reason=_ENDLESS)
            if most in self._peers:
                self._peers[most].abort()

    def note_unwelcome(self, outbox: Outbox, size: int) -> None:
        """So many bytes of a frame have come from the agent to which this leads; 0 at its end."""
        for most in self._unwelcome.note(outbox, size):
            most.end(_ENDLESS)

    def hang_up_all(self) -> None:
        """End every connection of our socket: its other end comes back to the next broker."""
        for transport in list(self._peers.values()):
            transport.abort()

    def to_agent(self, uid: str, data: bytes) -> None:
        """See relaying.Wire."""
        outbox = self._outboxes.get(uid)
        if outbox is not None:
            outbox.put(data)
            self._queued += len(data)
            if self._queued > AGENTS_HELD:
                self._end_fullest()

    def to_peer(self, peer: int, data: bytes, sessions: int = 1) -> bool:
        """See relaying.Wire. True when the kernel took it or will: writing is tried at once."""
        transport = self._peers.get(peer)
        if transport is None or transport.is_closing():
            return False
        unread, most = self._unread.get(peer, 0), PEER_HELD * sessions
        if unread > most or (unread + len(data)) // LOOK_BYTES > unread // LOOK_BYTES:
            unread = transport.get_write_buffer_size()
        if unread > most:
            log.warning("connection ended", peer=peer, reason="it does not read what it is sent")
            transport.abort()
            return False
        transport.write(data)
        self._note_unread(peer, unread + len(data))
        return not transport.is_closing()

    def hang_up(self, peer: int) -> None:
        """See relaying.Wire."""
        transport = self._peers.get(peer)
        if transport is not None:
            transport.close()

    # ------------------------------------------------------------ inside

    def _end_fullest(self) -> None:
        outboxes = sorted(self._outboxes.values(), key=lambda outbox: outbox.held)
        self._queued = sum(outbox.held for outbox in outboxes)
        while self._queued > AGENTS_HELD - AGENT_HELD:  # a look is not worth less
            fullest = outboxes.pop()
            self._queued -= fullest.held
            fullest.end(_TOO_MUCH)

    def _note_unread(self, peer: int, size: int) -> None:
        self._all_unread += size - self._unread.pop(peer, 0)
        if size:
            self._unread[peer] = size
        if self._all_unread > ALL_HELD:
            self._make_room()

    def _make_room(self) -> None:
        """What was read meanwhile does not count, which is looked at only now."""
        there = ((peer, self._peers[peer]) for peer in self._unread if peer in self._peers)
        self._unread = {peer: transport.get_write_buffer_size() for peer, transport in there}
        self._all_unread = sum(self._unread.values())
        while self._all_unread > ALL_HELD - PEER_HELD:  # a look is not worth less
            most = max(self._unread, key=self._unread.__getitem__)
            self._all_unread -= self._unread.pop(most)
            log.warning("connection ended", peer=most, reason="it does not read what it is sent")
            self._peers[most].abort()
