"""PID 1 of the launcher's user container: runs the user's command when there are workers for it.

It places the files that the command needs, waits for the broker's GO, starts the command in a
session of its own, carries out scripts meanwhile, passes signals on, and owns the end when
the pod's comes, with SIGTERM or whatever its image wants: horovodrun may never react to it
(research: 10 s, its --elastic-timeout, or not at all).
"""

from __future__ import annotations

import errno
import os
import select
import signal
from time import monotonic

from et_contract import frames, hosts, names
from launcher.agent import spawning
from launcher.agent.catching import Caught
from launcher.agent.noticing import NoticeFile
from launcher.protocol.bodies import read_notice
from launcher.protocol.notices import encode_notice
from launcher.protocol.signals import PASSED
from launcher.shim import ending, environments, placing, programs
from launcher.shim.beginnings import Beginnings
from launcher.shim.connecting import PROMPT_GROWTH, PROMPT_PAUSE, Line
from launcher.shim.scripting import Scripts
from launcher.ssh.attending import Agents

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

NOT_READY = 1
USAGE_ERROR = 2
MIRROR_SECONDS = 1.0
"""How late /etc/edl/hostfile and /job/hostfile may be; the discovery script reads the broker."""
SAY_SECONDS = 30.0
"""How often people are told what is waited for."""
START_SECONDS = 60.0
"""How long a command is tried to be started for which memory or processes are lacking."""
START_AGAIN = 5.0
LACKING = (errno.EAGAIN, errno.ENOMEM)
"""What fork(2) fails with; it says nothing of the command."""
REPORT_SECONDS = 5.0
"""What the broker has to hear that the command has ended."""
DEFAULT_GRACE = 30.0


def main(
    argv: Sequence[str],
    environ: Mapping[str, str] = os.environ,
    paths: placing.Paths = placing.PATHS,
) -> int:
    """Runs the command `argv`; returns its exit code, 128+n when signal n ended it.

    127 when there is no such command, 143 when SIGTERM came before it was started.
    """
    if not argv:
        programs.say("no command to run")
        return USAGE_ERROR
    signals = Caught()
    nonce = os.urandom(16).hex()
    launcher = Launcher(argv, environ=environ, paths=paths, nonce=nonce, signals=signals)
    try:
        placing.place_programs(paths)
        launcher.beginnings.prepare()
        if environ.get(names.ENV_ATTACH_MODE) == names.SSH_MODE:
            launcher.agents.prepare()
    except OSError as error:
        programs.say(f"cannot place {error.filename}: {error.strerror}")
        return NOT_READY
    return launcher.run()


class Launcher:
    """The command and all that goes on around it, in one loop that blocks only in poll."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        environ: Mapping[str, str],
        paths: placing.Paths,
        nonce: str,
        signals: Caught,
    ) -> None:
        self.agents = Agents(paths.ssh, keys=paths.keys, lib=paths.lib, environ=environ)
        self.beginnings = Beginnings(argv, paths.begun, paths.bin)
        self._argv = argv
        self._env = environments.make_command_environment(environ, nonce, paths.bin)
        self._grace = _read_grace(environ)
        self._paths = paths
        self._nonce = nonce
        self._signals = signals
        self._line = Line(paths.broker, PROMPT_PAUSE, PROMPT_GROWTH)
        self._mirror = placing.Mirror(paths)
        self._notice = NoticeFile(paths.notice)
        self._is_noticed = False
        """Whether we were told of a notice, of whichever pod of the job."""
        env = environments.make_script_environment(environ)
        self._scripts = tuple(Scripts(paths.results, env) for _ in range(2))
        """Scripts of scalings, and the notice script, which waits for none of those."""
        self._command: Optional[int] = None
        """The command's pid, once GO came."""
        self._start_at: Optional[float] = None
        """When to try again to start it."""
        self._start_until = 0.0
        """Set when GO came."""
        self._code: Optional[int] = None
        self._leave_at: Optional[float] = None
        """Set when the command has ended; None until then."""
        self._ending: List[Tuple[float, int]] = []
        """Once told to end: when to send which signal to the command."""
        self._is_told_to_end = False
        """Whether the command has been sent the signal that ends the pod."""
        self._mirror_at = 0.0
        self._complaint = ""
        self._say_at = monotonic() + SAY_SECONDS

    def run(self) -> int:
        """Returns the exit code once the broker knows it, or REPORT_SECONDS are over."""
        while True:
            now = monotonic()
            self._act(now)
            if self._code is not None and (self._leave_at is None or now >= self._leave_at):
                return self._code
            for fd, _ in self._poll(now):
                self._dispatch(fd, monotonic())

    # ------------------------------------------------------------ what the clock asks for

    def _act(self, now: float) -> None:
        for scripts in self._scripts:
            scripts.act(now)
        while self._ending and now >= self._ending[0][0]:
            self._signal_command(self._ending.pop(0)[1])
        if now >= self._mirror_at:
            self._mirror_at = now + MIRROR_SECONDS
            self._refresh_files()
            self._say_what_has_not_begun(now)
        if self._start_at is not None and now >= self._start_at:
            self._try_to_start(now)
        if self._line.due_in(now) == 0 and self._line.connect(now, self._opening()):
            self._finish_report()
        if not self._start_until and now >= self._say_at:
            self._say_at = now + SAY_SECONDS
            self._say_what_is_waited_for()

    def _poll(self, now: float) -> List[Tuple[int, int]]:
        poll = select.poll()
        poll.register(self._signals, select.POLLIN)
        if self._line.is_open:
            poll.register(self._line.fd, self._line.events)
        waits = [self._mirror_at - now, self._line.due_in(now)]
        for scripts in self._scripts:
            waits.append(scripts.due_in(now))
            if scripts.fd >= 0:
                poll.register(scripts.fd, select.POLLIN)
        waits.append(self._ending[0][0] - now if self._ending else None)
        waits.append(self._start_at - now if self._start_at is not None else None)
        waits.append(self._leave_at - now if self._leave_at is not None else None)
        return poll.poll(max(0.0, min(wait for wait in waits if wait is not None)) * 1000 + 1)

    def _refresh_files(self) -> None:
        try:
            self._mirror.refresh()
            self._complaint = ""
        except (OSError, hosts.InvalidHosts) as error:
            if str(error) != self._complaint:
                programs.say(f"cannot update {self._paths.hostfile}: {error}")
            self._complaint = str(error)

    def _say_what_is_waited_for(self) -> None:
        if not self._line.is_open:
            programs.say("waiting for the broker container of this pod")
            return
        try:
            listed = hosts.real_hosts(hosts.read_hosts(self._paths.hosts))
        except (OSError, hosts.InvalidHosts):
            listed = ()
        programs.say(f"waiting for workers: {len(listed)} can run processes, more are needed")

    def _say_what_has_not_begun(self, now: float) -> None:
        missed = self.beginnings.find_missed(now, is_over=self._code is not None)
        if missed:
            programs.say(missed)

    # ------------------------------------------------------------ what happens

    def _dispatch(self, fd: int, now: float) -> None:
        if fd == self._signals.fileno():
            for number, is_end in self._signals.take():
                self._on_signal(number, now, is_end=is_end)
        elif fd == self._line.fd:
            self._talk(now)
        else:
            for scripts in self._scripts:
                if fd == scripts.fd:
                    scripts.read()

    def _on_signal(self, number: int, now: float, *, is_end: bool) -> None:
        if number == signal.SIGCHLD:
            self._reap(now)
        elif is_end:
            # What only an init knows reaches the command as TERM.
            self._end(number if number in PASSED else signal.SIGTERM, now)
        elif number in PASSED:
            self._signal_command(number)

    def _end(self, number: int, now: float) -> None:
        """The pod ends: the command gets `number`, and others for us to end within our grace."""
        self._reap(now)  # a command that has ended already did so by itself
        if self._command is None and self._code is None:
            self._code = 128 + signal.SIGTERM  # and nothing to report: it never ran
        elif self._code is None and not self._is_told_to_end:
            self._is_told_to_end = True
            planned = ending.plan_end(number, self._grace)
            self._ending = [(now + seconds, later) for seconds, later in planned]
            self._signal_command(number)

    def _signal_command(self, number: int) -> None:
        if self._command is not None and self._code is None:
            spawning.signal_group(self._command, number)

    def _reap(self, now: float) -> None:
        """As PID 1: every child that has ended, ours or adopted."""
        for pid, code, _ in spawning.reap():
            if pid == self._command and self._code is None:  # its pid may come again
                self._finish(code, now)
            elif not self.agents.reap(pid):
                for scripts in self._scripts:
                    self._report_script(scripts, scripts.reap(pid, code), now)

    def _finish(self, code: int, now: float) -> None:
        """The command has ended, or could not be started."""
        self._code = code
        self._leave_at = now + REPORT_SECONDS
        self._line.send(self._encode_end(), now)
        self._finish_report()
        self._say_what_has_not_begun(now)

    # ------------------------------------------------------------ the broker

    def _opening(self) -> bytes:
        body = {"nonce": self._nonce, "noticed": self._is_noticed}
        opening = frames.encode_json(frames.LAUNCH, body)
        if self._code is not None:
            opening += self._encode_end()
        return opening

    def _encode_end(self) -> bytes:
        body = {"code": self._code, "toldToEnd": self._is_told_to_end}
        return frames.encode_json(frames.ENDED, body)

    def _finish_report(self) -> None:
        if self._code is not None and self._line.is_flushed:
            self._line.finish()

    def _talk(self, now: float) -> None:
        self._line.flush(now)
        self._finish_report()
        try:
            for frame in self._line.receive(now):
                self._receive(frame, now)
        except frames.ProtocolError as error:
            programs.say(f"the broker broke a rule: {error}; connecting again")
            self._line.drop(now)
        if self._line.is_finished:
            self._leave_at = now

    def _receive(self, frame: frames.Frame, now: float) -> None:
        if frame.type == frames.GO:
            self._start(now)
        elif frame.type == frames.SCRIPT:
            body = frames.decode_json(frame)
            scripts = self._scripts[str(body.get("id")).startswith(names.NOTICE_ORDER)]
            self._report_script(scripts, scripts.order(body, now), now)
        elif frame.type == frames.ATTACH:
            self._attach(frames.decode_json(frame))
        elif frame.type == frames.DETACH:
            self.agents.detach(frames.decode_json(frame))
        elif frame.type == frames.NOTICE:
            self._show_notice(read_notice(frame)[0])
        else:
            name, body = frames.NAMES[frame.type], frames.decode_json(frame)
            raise frames.ProtocolError(f"{name} for PID 1: {body.get('reason')}")

    def _show_notice(self, notice: Optional[Dict[str, Any]]) -> None:
        self._is_noticed = notice is not None
        try:
            self._notice.show(encode_notice(notice))
        except OSError as error:
            programs.say(f"cannot tell scripts of the end of pods: {error}")

    def _attach(self, worker: Dict[str, Any]) -> None:
        try:
            self.agents.attach(worker)
        except OSError as error:
            # The broker asks again.
            programs.say(f"cannot start the agent of {worker.get('name')}: {error}")

    def _start(self, now: float) -> None:
        if self._start_until or self._code is not None:
            return  # a broker that has restarted says it again
        self._start_until = now + START_SECONDS
        self._mirror_at = now + MIRROR_SECONDS
        self._refresh_files()
        self._try_to_start(now)

    def _try_to_start(self, now: float) -> None:
        self._start_at = None
        if self._code is not None:
            return  # the pod has ended meanwhile
        env = {os.fsencode(name): os.fsencode(value) for name, value in self._env.items()}
        try:
            self._command = spawning.start(list(self._argv), env=env)
        except OSError as error:
            programs.say(f"cannot start {self._argv[0]!r}: {error.strerror}")
            if error.errno in LACKING and now < self._start_until:
                self._start_at = now + START_AGAIN
                return
            missing = isinstance(error, (FileNotFoundError, NotADirectoryError))
            self._finish(programs.NOT_FOUND if missing else programs.NOT_EXECUTABLE, now)
            return
        self.beginnings.expect(now)
        placing.compile_programs(self._paths.lib)

    def _report_script(
        self, scripts: Scripts, result: Optional[Dict[str, Any]], now: float
    ) -> None:
        # Unsent results are asked for again: the broker repeats its order after every LAUNCH.
        while result is not None:
            self._line.send(frames.encode_json(frames.SCRIPT_DONE, result), now)
            result = scripts.start_next(now)


def _read_grace(environ: Mapping[str, str]) -> float:
    try:
        return max(0.0, float(environ.get(names.ENV_GRACE, DEFAULT_GRACE)))
    except ValueError:
        return DEFAULT_GRACE
