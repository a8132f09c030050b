"""What brokers and shims say to agents, checked.

Checked before the state machine looks at them (agents.py): what is wrong is a ProtocolError, or for
a SPAWN the words that its shim is told. Nothing here knows a session.
"""

from __future__ import annotations

import math
import re
import signal

from et_contract.frames import Frame, ProtocolError, decode_json
from et_contract.names import NOTICE_SIGNALS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

MOST_ADDRESSES = 8192
"""Of members that are gone: two for each of the largest job, and of those that it has lost."""
MOST_NOTICED = 4096
"""Pods of a notice: of the largest job, whose launcher is told of all."""
_MOST_WORDS = 256
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_ADDRESS = re.compile(r"[0-9A-Fa-f:.]{2,45}")


def read_grace(frame: Frame) -> Tuple[Any, Any]:
    """How many seconds are left, and how many the deletion gives, None: nobody says.

    Raises ProtocolError.
    """
    body: Dict[str, Any] = decode_json(frame)
    seconds: Any = body.get("seconds")
    grace: Any = body.get("grace")
    if not _is_duration(seconds) or not (grace is None or _is_duration(grace)):
        raise ProtocolError("GRACE without seconds")
    return seconds, grace


def _is_duration(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < math.inf


def read_break(frame: Frame, now: float) -> Tuple[float, List[str]]:
    """The agent's time that BREAK names, and the addresses; raises ProtocolError.

    It is what the agent has said itself, in a PONG, so it has been.
    """
    body: Dict[str, Any] = decode_json(frame)
    before: Any = body.get("before")
    addresses: Any = body.get("addresses")
    if type(before) is not float or not 0 <= before <= now:
        raise ProtocolError("BREAK of a time that has not been")
    if not isinstance(addresses, list) or len(addresses) > MOST_ADDRESSES:
        raise ProtocolError("BREAK without addresses")
    if not all(isinstance(each, str) and _ADDRESS.fullmatch(each) for each in addresses):
        raise ProtocolError("BREAK with an address that is none")
    return before, addresses


def read_notice(frame: Frame) -> Tuple[Optional[Dict[str, Any]], int]:
    """What NOTICE says, None where there is no notice, and the number of its signal, 0 for none.

    Raises ProtocolError. A signal that is not known is none.
    """
    body: Dict[str, Any] = decode_json(frame)
    name: Any = body.get("signal", "")
    if not isinstance(name, str):
        raise ProtocolError("NOTICE with a signal that is none")
    number = int(getattr(signal, name)) if name in NOTICE_SIGNALS else 0
    notice: Any = body.get("notice")
    return (None if notice is None else _check_notice(notice)), number


def _check_notice(notice: Any) -> Dict[str, Any]:
    pods: Any = notice.get("pods") if isinstance(notice, dict) else None
    if not isinstance(pods, dict) or len(pods) > MOST_NOTICED:
        raise ProtocolError("NOTICE without its pods")
    words: List[Any] = [notice.get("reason"), notice.get("source"), *pods]
    if not all(isinstance(each, str) and len(each) <= _MOST_WORDS for each in words):
        raise ProtocolError("NOTICE with words that are none")
    if not all(map(_is_moment, [notice.get("deadline"), *pods.values()])):
        raise ProtocolError("NOTICE of a moment that is none")
    return {key: notice.get(key) for key in ("reason", "source", "deadline", "pods")}


def _is_moment(value: Any) -> bool:
    return value is None or (isinstance(value, str) and _MOMENT.fullmatch(value) is not None)


def find_fault(body: Dict[str, Any]) -> Optional[str]:
    """What is wrong with the body of a SPAWN; None when nothing is."""
    command, env = body.get("command"), body.get("env") or {}
    if not isinstance(command, str) or not isinstance(env, dict):
        return "SPAWN needs a command, and env as an object"
    texts = [command, *env, *env.values()]
    if not all(isinstance(text, str) and "\0" not in text for text in texts):
        return "SPAWN needs texts without NUL"
    if any(not name or "=" in name for name in env):
        return "SPAWN has an env name that is none"
    return None
