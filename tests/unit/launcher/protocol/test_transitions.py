"""Every frame in every state: what the tables say is what the agent does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from et_contract import frames
from et_contract.frames import Frame, ProtocolError
from launcher.protocol import effects, transitions
from launcher.protocol.agents import Agent
from launcher.protocol.signals import Signals
from launcher.protocol.transitions import CONNECTION, DOOR, LEAVING, SESSION, step

ID = b"s" * 16
TABLES = {"connection": CONNECTION, "session": SESSION, "door": DOOR, "leaving": LEAVING}
FRAMES = {
    "HELLO": {
        "job": "j", "pod": "p", "epoch": 1, "launcher": "l", "brokerStart": 0, "connection": 1
    },
    "PING": {},
    "PONG": {},
    "CLOSE_IF_IDLE": {},
    "GRACE": {"seconds": 30.0},
    "BREAK": {"addresses": ["10.0.0.1"], "before": 0.0},
    "NOTICE": {
        "notice": {"reason": "r", "source": "s", "deadline": None, "pods": {"w": None}},
        "signal": "SIGUSR1",
    },
    "SPAWN": {"host": "h", "command": "c"},
    "RESUME": {"instance": "i", "received": [0, 0]},
    "ACK": {},
    "SIGNAL": {"signal": 15},
    "EXIT_ACK": {},
}  # fmt: skip
NEVER = [name for value, name in frames.NAMES.items() if name not in FRAMES]


def frame(name: str, **changes: object) -> Frame:
    kind = getattr(frames, name)
    body = {**FRAMES.get(name, {}), **changes}
    decoder = frames.Decoder()
    if name == "ACK":
        decoder.feed(frames.encode(kind, ID, flags=1))
    elif name == "SIGNAL":
        decoder.feed(Signals(ID).add(15))
    else:
        decoder.feed(frames.encode_json(kind, body, ID))
    return next(iter(decoder))


def freeze(value: object, seen: frozenset[int] = frozenset()) -> object:
    """Everything that an object holds, as text that can be compared."""
    if id(value) in seen:
        return "again"
    seen |= {id(value)}
    if isinstance(value, dict):
        return {str(k): freeze(v, seen) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [freeze(v, seen) for v in value]
    if hasattr(value, "__dict__") and not callable(value):
        return freeze({k: v for k, v in vars(value).items() if k != "_handlers"}, seen)
    return repr(value) if not callable(value) else "callable"


def new_agent() -> Agent:
    agent = Agent(instance="i", job="j", pod="p", epoch=1, grace=30)
    agent.connected(1, 0)
    return agent


def holding_agent() -> Agent:
    agent = new_agent()
    agent.receive(1, frame("HELLO"), 0)
    return agent


def starting() -> Agent:
    agent = holding_agent()
    agent.receive(1, frame("SPAWN"), 0)
    return agent


def running() -> Agent:
    agent = starting()
    agent.started(ID, 7)
    return agent


def left() -> Agent:
    agent = running()
    agent.ended(ID, 3, "exited", 0)
    return agent


def exited() -> Agent:
    agent = left()
    agent.output_ended(ID, 1)
    agent.output_ended(ID, 2)
    return agent


def forgotten() -> Agent:
    agent = exited()
    agent.receive(1, frame("EXIT_ACK"), 0)
    return agent


def waiting() -> Agent:
    agent = running()
    agent.connected(2, 0)
    agent.receive(2, frame("HELLO", epoch=2), 0)
    return agent


SESSION_STATES: dict[str, Callable[[], Agent]] = {
    transitions.ABSENT: holding_agent,
    transitions.STARTING: starting,
    transitions.RUNNING: running,
    transitions.LEFT: left,
    transitions.EXITED: exited,
    transitions.FORGOTTEN: forgotten,
}
CONNECTION_STATES: dict[str, tuple[Callable[[], Agent], int]] = {
    transitions.NEW: (new_agent, 1),
    transitions.WAITING: (waiting, 2),
    transitions.HOLDING: (holding_agent, 1),
}


def is_refused(agent: Agent, connection: int, name: str) -> bool:
    before = freeze(agent)
    try:
        agent.receive(connection, frame(name), 0)
    except ProtocolError:
        assert freeze(agent) == before, "an illegal frame has changed something"
        return True
    return False


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("state", CONNECTION_STATES)
def test_a_connection_takes_what_its_table_has(state: str, name: str) -> None:
    make, connection = CONNECTION_STATES[state]
    assert is_refused(make(), connection, name) == (name not in CONNECTION[state])


@pytest.mark.parametrize("name", transitions.SESSION_FRAMES)
@pytest.mark.parametrize("state", SESSION_STATES)
def test_a_session_takes_what_its_table_has(state: str, name: str) -> None:
    assert is_refused(SESSION_STATES[state](), 1, name) == (name not in SESSION[state])


@pytest.mark.parametrize("name", NEVER)
@pytest.mark.parametrize("state", CONNECTION_STATES)
def test_what_only_an_agent_or_a_launcher_says_is_refused(state: str, name: str) -> None:
    make, connection = CONNECTION_STATES[state]
    assert is_refused(make(), connection, name)


@pytest.mark.parametrize("table", TABLES)
def test_every_step_leads_to_a_state_of_the_table_or_names_it(table: str) -> None:
    states = set(TABLES[table])
    assert all(after in states for steps in TABLES[table].values() for after in steps.values())


@pytest.mark.parametrize("table", TABLES)
def test_what_is_not_in_a_table_is_illegal(table: str) -> None:
    events = {event for steps in TABLES[table].values() for event in steps}
    for state, steps in TABLES[table].items():
        for event in events - set(steps):
            with pytest.raises(ProtocolError, match="not allowed"):
                step(TABLES[table], state, event)


def test_sessions_of_every_state_end_where_the_table_says() -> None:
    agent = forgotten()
    wanted = agent.receive(1, frame("SPAWN"), 0)
    assert not any(isinstance(effect, effects.Spawn) for effect in wanted)
