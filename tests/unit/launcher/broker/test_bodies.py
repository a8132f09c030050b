"""What agents say, whatever it is: read, or refused with the protocol's own error."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from et_contract import frames
from et_contract.frames import Frame, ProtocolError
from launcher.broker.bodies import read_rejection, read_welcome
from launcher.broker.facts import PROBLEM_KEPT
from launcher.protocol.agents import Agent
from launcher.protocol.effects import Send
from launcher.protocol.fences import Fenced
from launcher.protocol.signals import read_signal

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=600),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def make_rejection(payload: bytes) -> Frame:
    return Frame(frames.REJECT, frames.NO_SESSION, 0, 0, payload)


@pytest.mark.long
@given(st.fixed_dictionaries({}, optional={"reason": VALUES, "fenced": VALUES, "more": VALUES}))
def test_a_rejection_is_words_and_whether_it_is_for_good(body: dict[str, object]):
    reason, is_fenced = read_rejection(make_rejection(json.dumps(body).encode()))
    assert len(reason) <= PROBLEM_KEPT
    assert is_fenced == (body.get("fenced") is True)


@given(st.binary(max_size=60))
def test_what_is_no_rejection_breaks_a_rule_and_nothing_else(payload: bytes):
    with suppress(ProtocolError):
        read_rejection(make_rejection(payload))


@pytest.mark.parametrize("is_fenced", [True, False])
def test_a_rejection_is_read_as_it_was_built(is_fenced: bool):
    decoder = frames.Decoder()
    decoder.feed(frames.build_rejection("why", is_fenced=is_fenced))
    [frame] = decoder
    assert read_rejection(frame) == ("why", is_fenced)


@pytest.mark.parametrize("read", [read_welcome, read_signal], ids=["of an agent", "of a shim"])
def test_of_what_breaks_a_rule_no_more_is_quoted_than_people_read(read: Callable[[Frame], object]):
    """The reason is logged, in one write that waits, and sent."""
    said = "\x1b[2J" + "x" * 500_000
    sessions = [{"id": "00" * 16, "state": said}]
    payload = json.dumps({"sessions": sessions, "signal": said}).encode()
    with pytest.raises(ProtocolError, match="xxx") as caught:
        read(Frame(frames.WELCOME, frames.NO_SESSION, 0, 0, payload))
    assert len(str(caught.value)) <= PROBLEM_KEPT
    assert "\x1b" not in str(caught.value)


def make_hello(epoch: int, launcher: str, connection: int = 1) -> Frame:
    body = {"job": "j", "pod": "p", "epoch": epoch, "launcher": launcher, "brokerStart": 1}
    payload = json.dumps({**body, "connection": connection}).encode()
    return Frame(frames.HELLO, frames.NO_SESSION, 0, 0, payload)


@given(st.integers(1, 4), st.integers(1, 4), st.sampled_from(["first", "second"]))
def test_what_an_agent_refuses_for_good_its_broker_reads_so(known: int, epoch: int, launcher: str):
    agent = Agent(instance="i", job="j", pod="p", epoch=1, grace=30)
    agent.connected(1, 0.0)
    agent.receive(1, make_hello(known, "first"), 0.0)
    agent.connected(2, 0.0)
    hello = make_hello(epoch, launcher, connection=1)
    is_another = epoch < known or (epoch == known and launcher != "first")
    try:
        agent.receive(2, hello, 0.0)
    except ProtocolError as error:
        refusal = str(error)
        dropped = agent.drop(2, refusal, is_fenced=isinstance(error, Fenced))
        [sent] = [effect for effect in dropped if isinstance(effect, Send)]
        decoder = frames.Decoder()
        decoder.feed(sent.data)
        assert [read_rejection(frame) for frame in decoder] == [(refusal, is_another)]
    else:
        assert not is_another
