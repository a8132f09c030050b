"""What agents and shims say, checked: beside both runs the user's code, so nothing is trusted.

Whatever is wrong with a body is a ProtocolError, which ends one connection and nothing more. No
number, text or list leaves here without a bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeGuard

from et_contract import frames
from et_contract.documents import SessionExit, read_flag
from et_contract.frames import Frame, ProtocolError
from et_contract.texts import clean
from launcher.broker.facts import PROBLEM_KEPT
from launcher.broker.rings import RankCounts
from launcher.broker.sessions import MOST_INSTANCE
from launcher.protocol.signals import ENDING

_MOST_SESSIONS = 2 * frames.WORKER_SESSIONS
"""In a WELCOME: agents of a former runtime have no bound of their own."""
MOST_REASON = 120
"""Characters of a reason, in ASCII: the report has room for so much."""
_MOST_CODE = 255
_MOST_RANKS = 2**16
_MOST_HOST = 256
"""Characters of a host's name that are kept, more than any worker's has: until the config is read
nobody knows whom it means."""
LONGEST_OPENING = frames.HEADER.size + frames.MAX_PAYLOAD - 32
"""Bytes, with room for what is added when it is said again."""
_NEVER_TOO_LONG = frames.MAX_PAYLOAD // 16
"""Bytes of JSON: escapes and numbers become so many times longer at most."""


@dataclass(frozen=True, slots=True)
class KnownSession:
    """A session as WELCOME lists it."""

    id: bytes
    ended: SessionExit | None


@dataclass(frozen=True, slots=True)
class Welcome:
    """The agent's answer to HELLO."""

    instance: str
    is_closed: bool
    is_terminating: bool
    sessions: tuple[KnownSession, ...]
    noticed: bool | None = None
    """Whether the agent knows of a notice; None where it would understand none."""


@dataclass(frozen=True, slots=True)
class Pong:
    """The agent's answer to PING; None is what it does not say."""

    sent: float | None
    """When that PING was sent."""
    ranks: RankCounts | None
    """How far the ranks are."""
    clock: float | None
    """The agent's time when it answered."""


def read_welcome(frame: Frame) -> Welcome:
    """The body of WELCOME; raises ProtocolError."""
    body = frames.decode_json(frame)
    listed = body.get("sessions")
    if not isinstance(listed, list) or len(listed) > _MOST_SESSIONS:
        raise ProtocolError("WELCOME without its sessions")
    return Welcome(
        instance=str(body.get("instance")),
        is_closed=body.get("closed") is True,
        is_terminating=body.get("terminating") is not None,
        sessions=tuple(map(_read_session, listed)),
        noticed=read_flag(body.get("noticed")),
    )


def read_noticed(frame: Frame) -> bool | None:
    """Whether PID 1 knows of a notice, as LAUNCH says; None where it would understand none.

    Raises ProtocolError.
    """
    return read_flag(frames.decode_json(frame).get("noticed"))


def read_rejection(frame: Frame) -> tuple[str, bool]:
    """Why a REJECT ended the stream, and whether it is for good. Raises ProtocolError."""
    body = frames.decode_json(frame)
    return clean(body.get("reason"), PROBLEM_KEPT), body.get("fenced") is True


def read_exit(frame: Frame) -> SessionExit:
    """The end that an EXIT frame tells; raises ProtocolError."""
    return _build_exit(frame.session, frames.decode_json(frame))


def read_pong(frame: Frame) -> Pong:
    """The body of PONG; raises ProtocolError."""
    body = frames.decode_json(frame)
    sent, clock = body.get("sent"), body.get("clock")
    return Pong(
        sent=sent if type(sent) is float else None,
        ranks=_read_ranks(body.get("ranks")),
        clock=clock if type(clock) is float and 0 <= clock < math.inf else None,
    )


def _read_ranks(found: Any) -> RankCounts | None:
    if not isinstance(found, list) or len(found) != len(RankCounts._fields):
        return None
    if not all(type(count) is int and 0 <= count <= _MOST_RANKS for count in found):
        return None
    return RankCounts(*found)


def read_opening(frame: Frame) -> dict[str, Any]:
    """The checked body of SPAWN or RESUME; `received` by channel. Raises ProtocolError.

    `ranks` and `blacklists` are for us alone, all else is for the agent.

    It goes to an agent in our words, which may be longer, on a stream that others share: what an
    agent might not take, nested too deep for its Python for one, is left out or refused here.
    """
    body = frames.decode_json(frame)
    if frame.session == frames.NO_SESSION:
        raise ProtocolError("a session needs an id")
    host, window = body.get("host"), body.get("window")
    ranks = body.get("ranks", 0)
    if not isinstance(host, str):
        raise ProtocolError("which host?")
    if type(ranks) is not int or not 0 <= ranks <= _MOST_RANKS:
        raise ProtocolError("ranks that are no number")
    wish = window if type(window) is int else frames.WINDOW
    opening = {"host": host[:_MOST_HOST], "window": wish}
    opening.update(_read_resume(frame, body) if frame.type == frames.RESUME else _read_spawn(body))
    size = len(frame.payload)
    if size > _NEVER_TOO_LONG and len(frames.encode_json(frame.type, opening)) > LONGEST_OPENING:
        raise ProtocolError("what is to be started does not fit into a frame")
    opening["ranks"] = ranks
    opening["blacklists"] = ranks > 0 and body.get("blacklists") is True
    return opening


def _read_resume(frame: Frame, body: dict[str, Any]) -> dict[str, Any]:
    instance = body.get("instance")
    if not isinstance(instance, str) or len(instance) > MOST_INSTANCE:
        raise ProtocolError("RESUME without an instance")
    return {"instance": instance, "received": frames.decode_counts(frame, body, "received")}


def _read_spawn(body: dict[str, Any]) -> dict[str, Any]:
    command, env, ending = body.get("command"), body.get("env") or {}, body.get("ending")
    if not isinstance(command, str):
        raise ProtocolError("SPAWN without a command")
    if not isinstance(env, dict) or not all(isinstance(value, str) for value in env.values()):
        raise ProtocolError("SPAWN with an env that is not of texts")
    if ending not in (None, *ENDING):
        raise ProtocolError("SPAWN with an ending that is none")
    opening = {"command": command, "env": env, "again": True, "ending": ending}
    if body.get("again") is not True:
        del opening["again"]
    if ending is None:
        del opening["ending"]
    return opening


def _read_session(body: Any) -> KnownSession:
    try:
        key = bytes.fromhex(body["id"])
        state = body["state"]
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"WELCOME lists a session wrongly: {error}") from error
    if len(key) != len(frames.NO_SESSION) or state not in ("running", "exited"):
        raise ProtocolError(f"WELCOME lists a session wrongly: {state}")
    return KnownSession(key, _build_exit(key, body) if state == "exited" else None)


def is_code(value: Any) -> TypeGuard[int]:
    """Whether a process can have ended so: with an exit status, or 0 less the signal that ended it.

    Any process of the user's may say anything else, and the documents hold no larger number.
    """
    return type(value) is int and -_MOST_CODE <= value <= _MOST_CODE


def _build_exit(key: bytes, body: dict[str, Any]) -> SessionExit:
    code = body.get("code")
    if not is_code(code) or code < 0:
        raise ProtocolError(f"an end with code {str(code)[:20]}")
    reason = clean(body.get("reason"), MOST_REASON)
    return SessionExit(key.hex(), code, reason.encode("ascii", "replace").decode())
