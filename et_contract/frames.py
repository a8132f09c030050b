"""The frame: what travels between shim, broker and agent, in both directions.

    version:u8 | type:u8 | flags:u16 | session:16 bytes | offset:u64 | length:u32 | payload

Network byte order, 32 bytes of header. `flags` is the channel (1 stdout, 2 stderr) of DATA, ACK and
DROPPED, the sender of SIGNAL and SIGNALED (signals.py), else 0. `offset` is the position of DATA's
first byte in its channel; for ACK the number of bytes that are safe; for DROPPED where the loss
begins (payload: JSON {"to": n}); for SIGNAL and SIGNALED the number of the signal; else 0.
`session` is 16 zero bytes in frames about the whole stream. Payloads of control frames are JSON
objects.
"""

from __future__ import annotations

import json
import struct
from collections import namedtuple

from et_contract.texts import clean, parse_json

TYPE_CHECKING = False
if TYPE_CHECKING:  # keeps `typing` out of the start of a worker process
    from typing import Any, Dict, Iterator, Optional, Tuple

PROTOCOL_VERSION = 3
"""Of all that operator, brokers and agents tell each other. 2: BREAK. 3: NOTICE."""
HEADER = struct.Struct("!BBH16sQI")
VERSION = 1
NO_SESSION = b"\0" * 16
MAX_DATA = 32 * 1024
MAX_PAYLOAD = 1024 * 1024 - HEADER.size
MAX_ANSWER = 4096
"""Bytes of what an agent says of itself or of one session, in words or numbers of ours."""
MAX_OFFSET = 2**63

STDOUT = 1
STDERR = 2
CHANNELS = (STDOUT, STDERR)
_NO_TYPES = {"VERSION", "STDOUT", "STDERR"}

WINDOW = 256 * 1024
"""Bytes of one session, both channels together, that may be sent and not yet acknowledged; what a
session begins with."""
MOST_WINDOW = 2 * 1024 * 1024
"""What it may grow to where the way is long; the agent's ring holds twice as much."""
WORKER_SESSIONS = 4096
"""Of one worker, four for each of its slots at most: WELCOME has room for so many, and both broker
and agent start no more."""
PING_SECONDS = 10.0
"""How often a broker sends PING."""
DEAD_SECONDS = 30.0
"""A stream without a frame for this long is dead, at both ends."""
ANSWER_SECONDS = 30.0
"""So long after its script's time nobody waits for the SCRIPT_DONE of a SCRIPT any more."""

EXIT_REFUSED = 255
"""What a shim ends with that was refused."""
EXIT_GONE = 137
"""What a shim ends with whose worker is gone."""

# type            value    # from -> to
HELLO = 1  # broker -> agent {job, epoch, launcher, brokerStart, connection, pod}
WELCOME = 2  # agent -> broker {instance, epoch, sessions, closed, terminating, noticed}
REJECT = 3  # agent -> broker, broker -> shim {reason, fenced}: the stream is over
SPAWN = 4  # shim -> broker -> agent {host, command, env, window, ranks, blacklists, again, ending}
SPAWNED = 5  # agent -> broker -> shim {pid, instance}
DATA = 6  # agent -> broker -> shim
ACK = 7  # shim -> broker -> agent {window}: from the broker, when the window has changed
DROPPED = 8  # agent -> broker -> shim {to}
SIGNAL = 9  # shim -> broker -> agent {signal}
EXIT = 10  # agent -> broker -> shim {code, produced, reason}: produced are bytes [stdout, stderr]
EXIT_ACK = 11  # shim -> broker -> agent: or the broker in the place of a shim that died
RESUME = 12  # shim -> broker -> agent {host, instance, received, window, ranks, blacklists}
LOST = 13  # agent -> broker -> shim {reason, code}: there is no such session (any more)
CLOSE_IF_IDLE = 14  # broker -> agent
CLOSED = 15  # agent -> broker: no session, no marked process, and no SPAWN will be accepted
BUSY = 16  # agent -> broker {sessions, processes}
TERMINATING = 17  # agent -> broker {seconds}: PID 1 got SIGTERM
PING = 18  # broker -> agent: each PING_SECONDS
PONG = 19  # agent -> broker: with the payload of the PING, ranks and clock
# only on the broker's unix socket
HOSTS = 20  # hostdiscovery -> broker {nonce}
HOSTS_LIST = 21  # broker -> hostdiscovery {text}
LAUNCH = 22  # PID 1 -> broker {nonce, noticed}: registers, waits for GO
GO = 23  # broker -> PID 1 {hosts}: enough hosts are listed
SCRIPT = 24  # broker -> PID 1 {id, script, argument, env, timeout}
SCRIPT_DONE = 25  # PID 1 -> broker {id, code, output, timedOut}
ENDED = 26  # PID 1 -> broker {code, toldToEnd}: the user's command has ended
ATTACH = 27  # broker -> PID 1 {pod, name, address}: run the agent of a worker that ssh reaches
DETACH = 28  # broker -> PID 1 {wanted}: pods; end the agents of all others
# between agent, broker and shim again
SIGNALED = 29  # agent -> broker -> shim: signals up to `offset` are delivered
# between agent and broker again
GRACE = 30  # broker -> agent {seconds, grace}: the pod is being deleted and has so long
BREAK = 31  # broker -> agent {addresses, before}: that only members have which are gone
NOTICE = 32  # broker -> agent, broker -> PID 1 {notice, signal}: of the end of a pod; none any more

_ANSWERS = (SPAWNED, DROPPED, EXIT, LOST, CLOSED, BUSY, TERMINATING, PONG, SIGNALED)
_LONGEST = {DATA: MAX_DATA, REJECT: MAX_DATA, **dict.fromkeys(_ANSWERS, MAX_ANSWER)}
"""Bytes of a payload by type; MAX_PAYLOAD of all others."""

NOT_STARTED = "cannot start: "
"""How the reason of an EXIT begins when there never was a process."""

NAMES = {
    value: name
    for name, value in list(globals().items())
    if isinstance(value, int) and HELLO <= value <= NOTICE and name not in _NO_TYPES
}

Frame = namedtuple("Frame", ["type", "session", "flags", "offset", "payload"])

_MOST_REASON = 500
"""Characters of a reason, as much as people read."""


class ProtocolError(Exception):
    """The peer broke a rule; the connection must be dropped with this reason.

    It may quote what the peer has said, of any length; it is words for people all the same.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(clean(reason, _MOST_REASON))


def encode(
    kind: int,
    session: bytes = NO_SESSION,
    payload: bytes = b"",
    *,
    flags: int = 0,
    offset: int = 0,
) -> bytes:
    """One frame as bytes."""
    return HEADER.pack(VERSION, kind, flags, session, offset, len(payload)) + payload


def encode_frame(frame: Frame) -> bytes:
    """A frame that came, as bytes again."""
    kind, session, flags, offset, payload = frame
    return encode(kind, session, payload, flags=flags, offset=offset)


def encode_json(
    kind: int, body: Optional[Dict[str, Any]] = None, session: bytes = NO_SESSION
) -> bytes:
    """A control frame with a JSON object as payload."""
    return encode(kind, session, json.dumps(body or {}, separators=(",", ":")).encode())


def build_rejection(reason: str, *, is_fenced: bool = False) -> bytes:
    """A REJECT; `is_fenced`: for good, so that asking again is of no use."""
    return encode_json(REJECT, {"reason": reason, **({"fenced": True} if is_fenced else {})})


def decode_json(frame: Frame) -> Dict[str, Any]:
    """The JSON object of a control frame; raises ProtocolError for anything else."""
    name = NAMES.get(frame.type)
    try:
        text = frame.payload or b"{}"
        body = parse_json(text, MAX_PAYLOAD, has_bytes=frame.type == SPAWN)
    except ValueError as error:
        raise ProtocolError(f"{name}: payload is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise ProtocolError(f"{name}: payload is not a JSON object")
    return body


def decode_counts(frame: Frame, body: Dict[str, Any], key: str) -> Dict[int, int]:
    """`[stdout, stderr]` byte counts under `key`, by channel; raises ProtocolError."""
    counts = body.get(key)
    if (
        not isinstance(counts, list)
        or len(counts) != len(CHANNELS)
        or not all(type(count) is int and 0 <= count <= MAX_OFFSET for count in counts)
    ):
        raise ProtocolError(f"{NAMES.get(frame.type)}: {key} must be two byte counts")
    return {STDOUT: counts[0], STDERR: counts[1]}


class Decoder:
    """Bytes in, frames out. Holds at most one unfinished frame (MAX_PAYLOAD bytes)."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self.longest = MAX_PAYLOAD
        """Bytes of a payload that is taken from now on, whatever its type allows."""

    @property
    def unfinished(self) -> int:
        """Bytes that have come and are no whole frame."""
        return len(self._buffer)

    def feed(self, data: bytes) -> None:
        """Take bytes as they come, cut anywhere."""
        self._buffer += data

    def __iter__(self) -> Iterator[Frame]:
        while True:
            frame, size = self._parse()
            if frame is None:
                return
            del self._buffer[:size]
            yield frame

    def _parse(self) -> Tuple[Optional[Frame], int]:
        if len(self._buffer) < HEADER.size:
            return None, 0
        version, kind, flags, session, offset, length = HEADER.unpack_from(self._buffer)
        if version != VERSION:
            raise ProtocolError(f"frame version {version} is not {VERSION}")
        if kind not in NAMES:
            raise ProtocolError(f"unknown frame type {kind}")
        if length > min(_LONGEST.get(kind, MAX_PAYLOAD), self.longest):
            raise ProtocolError(f"{NAMES[kind]} payload of {length} bytes is too long")
        end = HEADER.size + length
        if len(self._buffer) < end:
            return None, 0
        with memoryview(self._buffer) as view:  # a slice of the buffer itself is a copy more
            payload = bytes(view[HEADER.size : end])
        return Frame(kind, session, flags, offset, payload), end
