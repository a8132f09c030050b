"""Many sessions of many workers over one connection to the broker, in a process that has threads.

    board = Switchboard(paths.BROKER_SOCKET)
    call = board.start("job-w-3", "python train.py", {STDOUT: sink, STDERR: sink}, events=[stop])
    call.ended.wait()
    call.code

A call promises what rsh.py does as a process: output, signals and the exit code are those of the
remote command; 255 when nothing was started, 137 when nobody knows how it ended. One thread talks
to the broker, another one writes output, for a stalled reader must not hold back signals; callers
wait. What a call is, `launcher.protocol.claims` says.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections import deque
from queue import SimpleQueue
from time import monotonic

from et_contract import frames
from launcher.protocol.claims import GUEST, Claim
from launcher.protocol.courses import Course
from launcher.shim import programs
from launcher.shim.connecting import Line
from launcher.shim.holding import Hold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Deque, Dict, Iterable, List, Mapping, Optional, Set, Tuple

    from launcher.protocol.claims import Purpose
    from launcher.shim.sinks import Sink

LOOK_SECONDS = 0.25
"""How often the events of calls and their times are looked at."""
GIVE_UP_SECONDS = 10.0
"""A call is over so long after one of its events: horovodrun waits no longer for a process."""


class Call:
    """One session. `code` is the exit code once `ended` is set, and all output is written then."""

    def __init__(
        self, claim: Claim, sinks: Mapping[int, Sink], events: Iterable[threading.Event]
    ) -> None:
        self.claim = claim
        self.sinks = sinks
        self.events = tuple(events)
        self.ended = threading.Event()
        self.code = frames.EXIT_GONE
        self.busy: Set[int] = set()
        """Channels of which the writer has bytes."""
        self.course = Course(claim, monotonic())
        self.is_over = False
        self.is_unclear = False
        """A frame broke a rule: its agent is to say again how it stands."""

    @property
    def is_stopping(self) -> bool:
        """Whether one of the events is set."""
        return any(event.is_set() for event in self.events)


class Switchboard:
    """See the module. `broker` is the path of the broker's socket.

    The threads end with the process. Methods may be called from any thread, `signal` from signal
    handlers too.
    """

    def __init__(self, broker: str) -> None:
        self._line = Line(broker)
        self._hold = Hold(broker)
        self._calls: Dict[bytes, Call] = {}
        self._inbox: Deque[Tuple[Callable[..., None], Tuple[Any, ...]]] = deque()
        self._outputs: SimpleQueue[Tuple[Call, int, Optional[memoryview]]] = SimpleQueue()
        self._reader, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        self._look_at = 0.0
        self._complaint = ""
        for target in (self._talk, self._write):
            threading.Thread(target=self._guard, args=(target,), daemon=True).start()

    def start(
        self,
        host: str,
        command: str,
        sinks: Mapping[int, Sink],
        events: Iterable[threading.Event] = (),
        *,
        purpose: Purpose = GUEST,
    ) -> Call:
        """Run `command` with the worker's `sh -c`; when one of `events` is set, it is ended.

        Then it gets TERM, KILL half a minute later, and the caller is told 137 if that takes long.
        """
        claim = Claim(session=os.urandom(16), host=host, command=command, purpose=purpose)
        call = Call(claim, sinks, events)
        self._post(self._open, call)
        return call

    def signal(self, call: Call, number: int) -> None:
        """Pass a signal to the process group of the session; TERM is followed by KILL."""
        self._post(self._signal, call, number)

    # ------------------------------------------------------------ the thread that talks

    def _talk(self) -> None:
        while True:
            now = monotonic()
            while self._inbox:
                action, arguments = self._inbox.popleft()
                action(*arguments)
            if now >= self._look_at:
                self._look_at = now + LOOK_SECONDS
                for call in list(self._calls.values()):
                    self._look(call, now)
            if self._calls and self._line.due_in(now) == 0:
                self._connect(now)
            for fd, events in self._poll(now):
                if fd == self._reader:
                    os.read(fd, 4096)
                else:
                    self._exchange(events, monotonic())

    def _poll(self, now: float) -> List[Tuple[int, int]]:
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        if self._line.is_open:
            poll.register(self._line.fd, self._line.events)
        if not self._calls:
            return poll.poll()
        due = self._line.due_in(now)
        wait = min(self._look_at - now, LOOK_SECONDS if due is None else due)
        return poll.poll(max(0.0, wait) * 1000 + 1)

    def _connect(self, now: float) -> None:
        if self._line.connect(now, b""):
            self._line.send(b"".join(call.claim.opening() for call in self._calls.values()), now)
            # Any of them may have arrived, however soon the connection breaks.
            for call in self._calls.values():
                call.course.opened()
                call.is_unclear = False

    def _exchange(self, events: int, now: float) -> None:
        if events & select.POLLOUT:
            self._line.flush(now)
        if not events & ~select.POLLOUT:
            return
        touched = set()
        try:
            for frame in self._line.receive(now):
                touched.update(self._take(frame))
        except frames.ProtocolError as error:
            self._line.drop(now)
            self._complain(f"{error}; connecting to the broker again")
        for call in touched:
            self._serve(call, now)

    def _take(self, frame: frames.Frame) -> List[Call]:
        """The calls that a frame is for: one, or none that is known any more."""
        if frame.type == frames.REJECT:
            raise frames.ProtocolError(f"rejected: {frames.decode_json(frame).get('reason')}")
        call = self._calls.get(frame.session)
        if call is None:
            return []
        try:
            call.claim.receive(frame)
        except frames.ProtocolError as error:
            # The connection is that of all the others, with other agents, too.
            call.is_unclear = True
            self._complain(f"{call.claim.host}: {error}; asking again")
        return [call]

    def _serve(self, call: Call, now: float) -> None:
        """Hand its output to the writer, its acknowledgements to the broker; end it if it is."""
        for channel in frames.CHANNELS:
            data = call.claim.unwritten(channel)
            if len(data) and channel not in call.busy:
                call.busy.add(channel)
                self._outputs.put((call, channel, data))
        self._line.send(call.claim.outgoing(), now)
        if call.claim.exit_code is not None:
            self._forget(call, call.claim.exit_code)

    def _end(self, call: Call, code: int) -> None:
        if not call.is_over:
            call.is_over = True
            call.code = code
            self._outputs.put((call, 0, None))

    def _look(self, call: Call, now: float) -> None:
        """What the clock and the events ask for."""
        self._line.send(call.course.advance(now), now)
        self._judge(call)
        if call.is_unclear and self._line.is_open:
            call.is_unclear = False
            self._line.send(call.claim.opening(), now)
        if call.is_stopping and not call.course.is_left:
            call.course.leave(now + GIVE_UP_SECONDS)
            self._signal(call, signal.SIGTERM)

    def _judge(self, call: Call) -> None:
        """Tell its caller what is decided whatever becomes of it."""
        if call.course.code is None:
            return
        if call.course.reason:
            self._complain(f"{call.claim.host}: {call.course.reason}")
        if call.course.is_started:
            self._end(call, call.course.code)  # it is killed all the same, by us or the broker
        else:
            self._forget(call, call.course.code)

    def _forget(self, call: Call, code: int) -> None:
        self._calls.pop(call.claim.session, None)
        self._hold.drop(call.claim.session)
        self._end(call, code)

    def _complain(self, text: str) -> None:
        """Tell people, once in a row; best effort."""
        if text != self._complaint:
            self._complaint = text
            programs.say(text)

    # ------------------------------------------------------------ what others ask of it

    def _post(self, action: Callable[..., None], *arguments: Any) -> None:
        self._inbox.append((action, arguments))
        try:
            os.write(self._waker, b"\0")
        except BlockingIOError:
            return  # it is awake

    def _open(self, call: Call) -> None:
        self._calls[call.claim.session] = call
        self._hold.add(call.claim.session)
        # One that is too long goes nowhere: the broker would hang up on all the others.
        self._judge(call)
        if self._line.is_open and call.course.code is None:
            self._line.send(call.claim.opening(), monotonic())
            call.course.opened()

    def _signal(self, call: Call, number: int) -> None:
        self._line.send(call.course.signal(number), monotonic())
        self._judge(call)

    def _wrote(self, call: Call, channel: int, count: int) -> None:
        """`count` bytes are written; -1: nobody reads this channel any more."""
        now = monotonic()
        call.busy.discard(channel)
        if count < 0:
            call.claim.discard(channel)
            self._signal(call, signal.SIGTERM)
        else:
            call.claim.wrote(channel, count)
        self._serve(call, now)

    # ------------------------------------------------------------ the thread that writes

    def _write(self) -> None:
        while True:
            call, channel, data = self._outputs.get()
            if data is None:
                self._close(call)
                continue
            count = len(data)
            try:
                call.sinks[channel].write(bytes(data))
            except (OSError, ValueError):  # ValueError: the file is closed
                count = -1
            self._post(self._wrote, call, channel, count)

    def _close(self, call: Call) -> None:
        for sink in set(call.sinks.values()):
            try:
                sink.close()
            except (OSError, ValueError):
                continue  # its end is not less true
        call.ended.set()

    def _guard(self, target: Callable[[], None]) -> None:
        """A defect of ours must not leave a caller waiting for ever."""
        try:
            target()
        except BaseException:  # noqa: BLE001 (whatever it is, it is said aloud, and then the end)
            sys.excepthook(*sys.exc_info())
            os._exit(frames.EXIT_GONE)
