"""What the broker keeps of each session: enough to go on after a cut, and no output.

relaying.py holds them. Each step is in a table: one that is not there is a ProtocolError and
changes nothing. No I/O, no clock: frames to send are returned, times are handed in.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import InitVar, dataclass, field
from typing import Any

from et_contract import frames
from et_contract.frames import Frame, ProtocolError
from launcher.broker.flows import Flow
from launcher.protocol.endings import TERM
from launcher.protocol.signals import FROM_BROKER, KILL, Signals
from launcher.protocol.transitions import Table, stay, step, step_frame

_START_BITS = 32
STARTS = frames.MAX_OFFSET >> _START_BITS
"""The numbers of signals tell so many starts of brokers apart, from 0 on."""
MOST_INSTANCE = 64
"""Characters of an agent's name for itself, which its shims say again."""

# ---- what its agent may have of it
NEW = "new"
KEPT = "kept"
"""The session's SPAWN waits with us: no agent has got it."""
SENT = "sent"
"""The agent may have got the SPAWN, from us or from a broker before us."""
EXITED = "exited"
_ANSWERS = ("SPAWNED", "DATA", "DROPPED", "SIGNALED", "LOST")
_OPENINGS = ("SPAWN", "SPAWN again", "RESUME")

PROCESS: Table = {
    NEW: {
        "SPAWN": KEPT, "SPAWN again": SENT, "RESUME": SENT,
        "listed": SENT, "listed with its end": EXITED,
    },
    KEPT: {
        "sent": SENT, "RESUME": SENT,
        **stay(KEPT, "SPAWN", "SPAWN again"),
        # What an agent tells of a session that it was never sent is its own, and no offence.
        **stay(KEPT, *_ANSWERS, "EXIT", "listed", "listed with its end", "not listed"),
    },
    # Where a SPAWN was not answered, the streams on which it was sent are over: it never arrives.
    SENT: {
        "EXIT": EXITED, "listed with its end": EXITED, "not listed": KEPT,
        **stay(SENT, *_OPENINGS, *_ANSWERS, "sent", "listed"),
    },
    EXITED: {
        "listed": SENT, "not listed": KEPT,
        **stay(EXITED, *_OPENINGS, *_ANSWERS, "EXIT", "sent", "listed with its end"),
    },
}  # fmt: skip

# ---- who speaks for it
ASKING = "asking"
"""A shim that has asked how its session stands and was not told of the end."""
TOLD = "told"
"""A shim that was told of the end."""
AWAY = "away"
"""Nobody: its shim has gone, or was not seen yet, and is waited for."""
TERMED = "termed"
"""We: no shim will come, TERM was sent."""
KILLED = "killed"
"""We: and KILL."""

CARE: Table = {
    NEW: {"opened": ASKING, "waited for": AWAY},
    ASKING: {"EXIT": TOLD, "waited for": AWAY, **stay(ASKING, "opened")},
    TOLD: {"opened": ASKING, "waited for": AWAY, **stay(TOLD, "EXIT")},
    AWAY: {"opened": ASKING, "given up": TERMED, **stay(AWAY, "EXIT")},
    TERMED: {"opened": ASKING, "given up": KILLED, **stay(TERMED, "EXIT")},
    KILLED: {"opened": ASKING, **stay(KILLED, "EXIT")},
}


@dataclass(slots=True)
class Session:
    """One process in a worker, known by the id that its shim made up."""

    id: bytes
    host: str
    uid: str = ""
    """Of the pod; "" until the config that names the host was read."""
    number: int = 0
    """The so-manieth session that was made: who is newer has a higher one."""
    peer: int | None = None
    """The shim's connection."""
    process: str = NEW
    care: str = NEW
    opening: bytes | None = None
    """The SPAWN as it is sent, until SPAWNED came, but for what is different each time: as objects
    it would be ten times as large."""
    is_again: bool = False
    """This SPAWN may have been said before."""
    ending: int | None = None
    """A signal that came with it, which ends what was not started."""
    ranks: int = 0
    """Of an elastic training, as its shim says: 0 for all that comes and goes without the list of
    hosts, and until its shim has come."""
    blacklists: bool = False
    """Who started these ranks never uses their host again once one has failed, as its shim says."""
    size: int = 0
    """Bytes of the SPAWN, as it is kept."""
    instance: str = ""
    flows: dict[int, Flow] = field(default_factory=dict)
    """By channel."""
    told: dict[int, int] = field(default_factory=dict)
    """By channel: the bytes of it that are among its worker's last ones, or were."""
    window: int = 0
    """Bytes that its agent may send ahead, see windows.py; 0 before it was told."""
    most_window: int = frames.WINDOW
    """What its shim takes at most."""
    round_at: float = 0.0
    """When the present round trip began, and what was acknowledged then."""
    round_from: int = 0
    signals: Signals = field(init=False)
    """Signals that the session's shim has sent, until the agent has delivered them."""
    orders: Signals = field(init=False)
    """Signals that the broker itself sends, in the place of a shim that is gone."""
    is_told_to_end: bool = False
    """TERM was sent, by its shim or by us: once is enough."""
    alone_until: float | None = None
    """Without a shim: when the next step to its end is due."""

    start: InitVar[int] = 1
    """Which start of the broker this is: the signals of a later one have higher numbers."""

    def __post_init__(self, start: int) -> None:
        self._go_on_from(dict.fromkeys(frames.CHANNELS, 0))
        self.signals = Signals(self.id)
        self.orders = Signals(self.id, FROM_BROKER, start << _START_BITS)

    # ------------------------------------------------------------ its shim

    def open(self, frame: Frame, body: dict[str, Any]) -> None:
        """SPAWN or RESUME on a connection of its shim, with the checked body."""
        is_again = frame.type == frames.SPAWN and body.get("again") is True
        event = "SPAWN again" if is_again else frames.NAMES[frame.type]
        self.process = step(PROCESS, self.process, event)
        self.care = step(CARE, self.care, "opened")
        self.ranks, self.blacklists = body.pop("ranks"), body.pop("blacklists")
        wish = body.get("window")
        self.most_window = min(wish if type(wish) is int else frames.WINDOW, frames.MOST_WINDOW)
        self._go_on_from(body.get("received") or dict.fromkeys(frames.CHANNELS, 0))
        self.signals = Signals(self.id)
        self.orders.withdraw()
        if frame.type == frames.SPAWN:
            self.is_again, self.ending = body.get("again") is True, body.get("ending")
            kept = {name: body[name] for name in ("host", "command", "env")}
            self.opening = json.dumps(kept, separators=(",", ":")).encode()
            self.size = len(self.opening)
        else:
            self.opening, self.instance = None, body["instance"]

    def take_signal(self, frame: Frame) -> int:
        """SIGNAL of its shim: which one. Raises ProtocolError."""
        signal = self.signals.keep(frame)
        self.is_told_to_end = self.is_told_to_end or signal == TERM
        return signal

    def wait_for_shim(self, until: float) -> None:
        """The session's shim has gone, or was not seen yet: it is waited for `until` then."""
        self.care = step(CARE, self.care, "waited for")
        self.alone_until = until

    def give_up(self) -> bytes:
        """No shim will come: TERM unless that was said, and KILL the next time. What to send."""
        self.care = step(CARE, self.care, "given up")
        self.alone_until = None
        if self.care == TERMED and self.is_told_to_end:
            return b""
        self.is_told_to_end = True
        return self.orders.add(TERM if self.care == TERMED else KILL)

    # ------------------------------------------------------------ its agent

    def note_listed(self, *, is_exited: bool) -> None:
        """A stream has opened, and its agent knows of it."""
        self.process = step(PROCESS, self.process, "listed with its end" if is_exited else "listed")

    def note_unlisted(self) -> None:
        """A stream has opened, and its agent knows nothing of it: a SPAWN has not arrived."""
        if self.opening is not None:
            self.process = step(PROCESS, self.process, "not listed")

    def start_or_resume(self, window: int) -> bytes:
        """What its agent is sent on this stream: SPAWN until that was answered, then RESUME.

        From then on it may have been said before, and its agent may tell of losses again.
        """
        self.process = step(PROCESS, self.process, "sent")
        for flow in self.flows.values():
            flow.losses = 0
        if self.opening is None:
            body: dict[str, Any] = {"host": self.host, "instance": self.instance}
            body["received"] = [self.flows[channel].received for channel in frames.CHANNELS]
            return frames.encode_json(frames.RESUME, {**body, "window": window}, self.id)
        again = b',"again":true' if self.is_again else b""
        self.is_again = True
        payload = b'%b,"window":%d%b}' % (self.opening[:-1], window, again)
        return frames.encode(frames.SPAWN, self.id, payload)

    def take(self, frame: Frame) -> bool:
        """What its agent tells of it: whether its shim waits to hear it. Raises ProtocolError.

        An agent may say anything any number of times, and of what its shim is sent only output is
        bounded by a window.
        """
        process = step_frame(PROCESS, self.process, frame)
        is_news = True
        if frame.type in (frames.DATA, frames.DROPPED):
            is_news = self.find_flow(frame).take(frame)
        elif frame.type == frames.SPAWNED:
            is_news = self.opening is not None
            self.instance = _read_instance(frame)
            self.opening = None
        elif frame.type == frames.EXIT:
            is_news = self.care == ASKING
            self.care = step_frame(CARE, self.care, frame)
        elif frame.type == frames.SIGNALED:
            signals = self.orders if frame.flags == FROM_BROKER else self.signals
            is_news = signals.confirm(frame.offset)
        self.process = process
        return is_news

    # ------------------------------------------------------------ what is so

    @property
    def is_sent(self) -> bool:
        """Whether the agent may know of the session."""
        return self.process in (SENT, EXITED)

    @property
    def is_exited(self) -> bool:
        """Whether the session's end is known."""
        return self.process == EXITED

    @property
    def is_running(self) -> bool:
        """Whether the session may have a process."""
        return self.process == SENT

    @property
    def is_given_up(self) -> bool:
        """No shim will come for it: we acknowledge in its place."""
        return self.care in (TERMED, KILLED)

    @property
    def has_heard_all(self) -> bool:
        """Every signal has been delivered."""
        return not self.signals.is_waiting() and not self.orders.is_waiting()

    @property
    def received(self) -> int:
        """Bytes acknowledged, of both channels."""
        return sum(flow.received for flow in self.flows.values())

    @property
    def under_way(self) -> int:
        """Bytes that have come and are not acknowledged, of both channels."""
        return sum(flow.under_way for flow in self.flows.values())

    def find_flow(self, frame: Frame) -> Flow:
        """The channel that a frame is about; raises ProtocolError."""
        flow = self.flows.get(frame.flags)
        if flow is None:
            raise ProtocolError(f"no channel {frame.flags}")
        return flow

    def encode_window(self) -> bytes:
        """The ACK that says how large the window is now."""
        payload = b'{"window":%d}' % self.window
        offset = self.flows[frames.STDOUT].received
        return frames.encode(frames.ACK, self.id, payload, flags=frames.STDOUT, offset=offset)

    def encode_signals(self) -> bytes:
        """A SIGNAL for each that is not known to be delivered."""
        return self.signals.encode() + self.orders.encode()

    def acknowledge(self) -> bytes:
        """ACKs for all that has come, in the place of a shim that never will."""
        frames_ = bytearray()
        for channel, flow in self.flows.items():
            if flow.passed > flow.received:
                flow.received = flow.passed
                frames_ += frames.encode(frames.ACK, self.id, flags=channel, offset=flow.passed)
        return bytes(frames_)

    def _go_on_from(self, received: dict[int, int]) -> None:
        """So much of each channel is where it belongs."""
        self.flows = {
            channel: Flow(received=count, passed=count) for channel, count in received.items()
        }


def count_ranks(sessions: Iterable[Session]) -> Counter[str]:
    """How many ranks these sessions are, by the uid of their pod."""
    ranks: Counter[str] = Counter()
    for session in sessions:
        if session.ranks:
            ranks[session.uid] += session.ranks
    return ranks


def _read_instance(frame: Frame) -> str:
    """Raises ProtocolError for one that a shim could not say again."""
    instance = frames.decode_json(frame).get("instance")
    if not isinstance(instance, str) or not 0 < len(instance) <= MOST_INSTANCE:
        raise ProtocolError("SPAWNED without an instance")
    return instance
