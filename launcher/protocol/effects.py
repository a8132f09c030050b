"""What the agent's state machine wants done; the I/O around it does it, in order.

Data alone, as returned by each call of the machine: agent/serving.py carries them out, each once
(fakes/agents.py in its place).
"""

from __future__ import annotations

from collections import namedtuple

Send = namedtuple("Send", ["connection", "data"])
"""Queue `data` (whole frames) on `connection`."""

Hang = namedtuple("Hang", ["connection", "reason"])
"""Close `connection` when what is queued on it is sent; the machine has forgotten it already."""

Spawn = namedtuple("Spawn", ["session", "command", "env"])
"""Start `sh -c command` and report `started` or `not_started` before anything else."""

Signal = namedtuple("Signal", ["session", "number"])
"""Signal the process group of a session whose first process has not been reaped."""

CloseOutput = namedtuple("CloseOutput", ["session"])
"""Read what the session's pipes hold, report it, close them, report `output_ended` of both."""

Sweep = namedtuple("Sweep", ["session", "signal", "spares_group"])
"""Find every process of one session, send each `signal` unless 0, those of its process group only
if it is not spared, and report their number: `swept`."""

Survey = namedtuple("Survey", ["signal"])
"""Find every process of all sessions, send each `signal` unless 0, and report their number:
`surveyed`."""

TellRanks = namedtuple("TellRanks", ["before", "addresses"])
"""Let the ranks here know that nobody has these addresses any more, as of this monotonic time."""

ShowNotice = namedtuple("ShowNotice", ["text"])
"""Let scripts here read this of the end of the pod; "" takes it away."""

SignalHandlers = namedtuple("SignalHandlers", ["number"])
"""Signal every process here that has a handler for it."""

SignalCommand = namedtuple("SignalCommand", ["number"])
"""Signal the process group of the template's own command."""

Leave = namedtuple("Leave", [])
"""End PID 1 with code 0, and everything in the container with it."""
