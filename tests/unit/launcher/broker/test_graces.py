"""What agents are told of how long their pods have."""

from __future__ import annotations

from et_contract import frames
from et_contract.documents import Member, MemberState
from launcher.broker.graces import Graces


class Agents:
    """What each was told, in order."""

    def __init__(self) -> None:
        self.told: list[tuple[str, float]] = []
        self.graces: list[int] = []

    def to_agent(self, uid: str, data: bytes) -> None:
        decoder = frames.Decoder()
        decoder.feed(data)
        [frame] = decoder
        assert frame.type == frames.GRACE
        body = frames.decode_json(frame)
        self.told.append((uid, body["seconds"]))
        self.graces.append(body["grace"])

    def to_peer(self, peer: int, data: bytes, sessions: int = 1) -> bool:
        raise NotImplementedError

    def hang_up(self, peer: int) -> None:
        raise NotImplementedError


def member(uid: str, grace: int | None) -> Member:
    return Member(uid, uid, 1, MemberState.ACTIVE, "main", grace_seconds=grace)


def test_each_deletion_is_told_once_and_again_when_it_is_hastened() -> None:
    agents = Agents()
    graces = Graces(agents)
    graces.take([member("a", None), member("b", 60)], now=100.0)
    assert agents.told == [("b", 60.0)]
    graces.take([member("a", 10), member("b", 60)], now=120.0)
    assert agents.told == [("b", 60.0), ("a", 10.0)]
    graces.take([member("a", 10), member("b", 5)], now=121.0)
    assert agents.told[2:] == [("b", 5.0)]


def test_a_new_stream_is_told_what_is_left() -> None:
    agents = Agents()
    graces = Graces(agents)
    graces.take([member("a", 30)], now=100.0)
    graces.tell("a", now=120.0)
    graces.tell("a", now=140.0)
    graces.tell("b", now=140.0)
    assert agents.told == [("a", 30.0), ("a", 10.0), ("a", 0.0)]
    assert agents.graces == [30, 30, 30]


def test_who_is_no_member_any_more_is_forgotten() -> None:
    agents = Agents()
    graces = Graces(agents)
    graces.take([member("a", 30)], now=100.0)
    graces.take([], now=101.0)
    graces.tell("a", now=102.0)
    assert agents.told == [("a", 30.0)]
