"""Signals on their way to a session: each is delivered once, in the order in which they were sent.

Two may send: the shim, and the broker when no shim is left. Each numbers its own from 1 upwards.
SIGNAL has the number in its offset and the sender in its flags; SIGNALED with the same two says
that everything up to this number has been delivered, or that nothing is left to deliver it to.
What nobody has confirmed is sent again after a cut, and the agent lets go of what it has had.
"""

from __future__ import annotations

from signal import SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2

from et_contract import frames
from et_contract.frames import Frame, ProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:  # keeps `typing` out of the start of a worker process
    from typing import List, Optional, Tuple

FROM_SHIM, FROM_BROKER = 0, 1
SENDERS = (FROM_SHIM, FROM_BROKER)

PASSED = (SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2)
"""What programs are told things by, and what is therefore passed on to them."""
ENDING = (1, 2, 3, 9, 15)
"""HUP INT QUIT KILL TERM: what has not been started when one of them comes never is."""
KILL = 9
LAST_SIGNAL = 64
MOST_WAITING = 64
"""Of one sender; then one that waits already is not sent again, as the kernel has it."""
_MOST_KEPT = MOST_WAITING + LAST_SIGNAL
"""So many may wait, for each signal that does not wait yet is still taken."""


class Signals:
    """What one sender has sent to a session and nobody has confirmed.

    Args:
        session: its 16 bytes.
        sender: FROM_SHIM or FROM_BROKER.
        last: the number before the first.
    """

    def __init__(self, session: bytes, sender: int = FROM_SHIM, last: int = 0) -> None:
        self._session = session
        self._sender = sender
        self._last = last
        self._waiting: List[Tuple[int, int]] = []

    @property
    def ending(self) -> Optional[int]:
        """The first that waits and should end the process; None: none does."""
        return next((signal for _, signal in self._waiting if signal in ENDING), None)

    def is_waiting(self, signal: Optional[int] = None) -> bool:
        """Whether this signal, or any, is not confirmed."""
        return any(signal in (None, waiting) for _, waiting in self._waiting)

    def add(self, signal: int) -> bytes:
        """The SIGNAL to send; nothing where one that waits does the same."""
        if self.is_waiting(signal) and (signal == KILL or len(self._waiting) >= MOST_WAITING):
            return b""
        self._last += 1
        self._waiting.append((self._last, signal))
        return self._encode(self._last, signal)

    def keep(self, frame: Frame) -> int:
        """Take over a SIGNAL from its sender: the signal. Raises ProtocolError."""
        signal = read_signal(frame)
        if frame.offset <= self._last or len(self._waiting) >= _MOST_KEPT:
            raise ProtocolError(f"SIGNAL {frame.offset} after {self._last}")
        self._last = frame.offset
        self._waiting.append((frame.offset, signal))
        return signal

    def confirm(self, number: int) -> bool:
        """Everything up to this number has been delivered; whether that was not known."""
        before = len(self._waiting)
        self._waiting = [entry for entry in self._waiting if entry[0] > number]
        return len(self._waiting) < before

    def withdraw(self) -> None:
        """What waits is not meant any more; the numbers go on."""
        self._waiting = []

    def encode(self) -> bytes:
        """A SIGNAL for each that waits, in order."""
        return b"".join(self._encode(number, signal) for number, signal in self._waiting)

    def _encode(self, number: int, signal: int) -> bytes:
        body = b'{"signal":%d}' % signal
        return frames.encode(frames.SIGNAL, self._session, body, flags=self._sender, offset=number)


def read_signal(frame: Frame) -> int:
    """The signal of a SIGNAL; raises ProtocolError for one without sender, number or signal."""
    signal = frames.decode_json(frame).get("signal")
    if type(signal) is not int or not 0 < signal <= LAST_SIGNAL:
        raise ProtocolError(f"there is no signal {signal!r}")
    if frame.flags not in SENDERS or not 0 < frame.offset <= frames.MAX_OFFSET:
        raise ProtocolError(f"SIGNAL {frame.offset} of {frame.flags}")
    return signal
