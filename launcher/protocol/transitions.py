"""Every legal step of the agent, as data: what is not in a table is illegal.

A frame that is illegal breaks the connection it came on; a step of our own that is illegal is a
defect. Both raise ProtocolError and change nothing.
"""

from __future__ import annotations

from typing import Dict, Mapping

from et_contract import frames
from et_contract.frames import ProtocolError

Table = Mapping[str, Mapping[str, str]]
"""state -> event -> next state. Frames are events under their own names."""


def stay(state: str, *events: str) -> Dict[str, str]:
    """Events that change nothing."""
    return dict.fromkeys(events, state)


# ---- a connection: a bridge that has not spoken, waits for the end of older sessions, or holds
NEW = "new"
WAITING = "waiting"
HOLDING = "holding"
SESSION_FRAMES = ("SPAWN", "RESUME", "ACK", "SIGNAL", "EXIT_ACK")

CONNECTION: Table = {
    NEW: {"HELLO": WAITING},
    WAITING: {"welcome": HOLDING, **stay(WAITING, "PING", "PONG")},
    HOLDING: {
        **stay(HOLDING, "PING", "PONG", "CLOSE_IF_IDLE", "GRACE", "BREAK", "NOTICE"),
        **stay(HOLDING, *SESSION_FRAMES),
    },
}

# ---- a session
ABSENT = "absent"
STARTING = "starting"
RUNNING = "running"
LEFT = "left"
"""The first process has ended, its output has not."""
EXITED = "exited"
"""All is known; kept until acknowledged."""
FORGOTTEN = "forgotten"
"""A tombstone: only the exit and the byte counts are left, until the epoch ends."""

SESSION: Table = {
    # What comes late, after a cut or for a session of an earlier epoch, is no offence.
    ABSENT: {"SPAWN": STARTING, **stay(ABSENT, "RESUME", "ACK", "SIGNAL", "EXIT_ACK")},
    STARTING: {"started": RUNNING, "not started": EXITED},
    # A shim that acknowledges an end which has not come is no offence of all others either.
    RUNNING: {"ended": LEFT, **stay(RUNNING, *SESSION_FRAMES, "output", "output ended")},
    LEFT: {"settled": EXITED, **stay(LEFT, *SESSION_FRAMES, "output", "output ended")},
    EXITED: {"EXIT_ACK": FORGOTTEN, **stay(EXITED, "SPAWN", "RESUME", "ACK", "SIGNAL")},
    FORGOTTEN: stay(FORGOTTEN, *SESSION_FRAMES),
}

# ---- the door: whether new sessions come in
OPEN = "open"
ARMED = "armed"
"""Asked to close: does so by itself when idle, unless a session comes first."""
CLOSED = "closed"

DOOR: Table = {
    OPEN: {"CLOSE_IF_IDLE": ARMED, **stay(OPEN, "SPAWN", "new epoch")},
    ARMED: {"SPAWN": OPEN, "idle": CLOSED, "new epoch": OPEN, **stay(ARMED, "CLOSE_IF_IDLE")},
    # Refusing is not a step: a SPAWN at a closed door changes nothing.
    CLOSED: stay(CLOSED, "CLOSE_IF_IDLE", "SPAWN", "new epoch"),
}

# ---- leaving, once PID 1 got SIGTERM or what it was told is due
STAYING = "staying"
PARTING = "parting"
"""Sessions may end by themselves."""
TERMINATING = "terminating"
"""Sessions were sent SIGTERM; none is started any more."""
KILLING = "killing"
EMPTY = "empty"
"""Nothing of a session is left, and no SIGTERM has come: a hook of the pod may still run."""
DISMISSING = "dismissing"
"""Nothing of a session is left; the template's own command may end."""
GONE = "gone"

_WITHOUT_SESSIONS = {"idle": DISMISSING, "empty": EMPTY, "over": GONE}

LEAVING: Table = {
    STAYING: {"SIGTERM": PARTING, "time": PARTING},
    PARTING: {"SIGTERM": TERMINATING, "time": TERMINATING, **_WITHOUT_SESSIONS},
    TERMINATING: {"SIGTERM": KILLING, "time": KILLING, **_WITHOUT_SESSIONS},
    KILLING: {**stay(KILLING, "SIGTERM", "time"), **_WITHOUT_SESSIONS},
    # Only SIGTERM ends PID 1, and with it all else that runs in its container.
    EMPTY: {"SIGTERM": DISMISSING, **stay(EMPTY, "empty")},
    DISMISSING: {"over": GONE, **stay(DISMISSING, "SIGTERM", "time", "idle")},
    GONE: stay(GONE, "SIGTERM", "time", "idle", "over"),
}


def step(table: Table, state: str, event: str) -> str:
    """The state after `event`; raises ProtocolError where the table has none."""
    after = table[state].get(event)
    if after is None:
        raise ProtocolError(f"{event} is not allowed when {state}")
    return after


def step_frame(table: Table, state: str, frame: frames.Frame) -> str:
    """As `step`, for a frame that has come."""
    return step(table, state, frames.NAMES.get(frame.type, str(frame.type)))
