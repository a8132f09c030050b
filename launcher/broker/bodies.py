"""What agents and shims say, checked: beside both runs the user's code, so nothing is trusted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from launcher.documents import SessionExit
from launcher.protocol import frames
from launcher.protocol.frames import Frame, ProtocolError

_MOST_SESSIONS = 8192
_MOST_REASON = 200
_MOST_CODE = 255


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
    )


def read_exit(frame: Frame) -> SessionExit:
    """The end that an EXIT frame tells; raises ProtocolError."""
    return _build_exit(frame.session, frames.decode_json(frame))


def read_pong(frame: Frame) -> float | None:
    """When the PING that it answers was sent; None when that is not said. Raises ProtocolError."""
    sent = frames.decode_json(frame).get("sent")
    return sent if type(sent) is float else None


def read_opening(frame: Frame) -> dict[str, Any]:
    """The checked body of SPAWN or RESUME; `received` by stream."""
    body = frames.decode_json(frame)
    if frame.session == frames.NO_SESSION:
        raise ProtocolError("a session needs an id")
    if not isinstance(body.get("host"), str):
        raise ProtocolError("which host?")
    if frame.type == frames.RESUME:
        if not isinstance(body.get("instance"), str):
            raise ProtocolError("RESUME without an instance")
        body["received"] = frames.decode_counts(frame, body, "received")
    elif not isinstance(body.get("command"), str):
        raise ProtocolError("SPAWN without a command")
    return body


def _read_session(body: Any) -> KnownSession:
    try:
        key = bytes.fromhex(body["id"])
        state = body["state"]
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"WELCOME lists a session wrongly: {error}") from error
    if len(key) != len(frames.NO_SESSION) or state not in ("running", "exited"):
        raise ProtocolError(f"WELCOME lists a session wrongly: {state}")
    return KnownSession(key, _build_exit(key, body) if state == "exited" else None)


def _build_exit(key: bytes, body: dict[str, Any]) -> SessionExit:
    code = body.get("code")
    if type(code) is not int or not 0 <= code <= _MOST_CODE:
        raise ProtocolError(f"an end with code {str(code)[:20]}")
    return SessionExit(key.hex(), code, str(body.get("reason") or "")[:_MOST_REASON])
