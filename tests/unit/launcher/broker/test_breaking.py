"""Which addresses agents are told that nobody has any more, and that no living one is cut off."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from et_contract import frames
from et_contract.documents import Member, MemberState
from launcher.broker.breaking import Breaks, find_gone

NOW = 100.0
ACTIVE, DRAINING, GONE = MemberState.ACTIVE, MemberState.DRAINING, MemberState.GONE


class Agents:
    """What each was told, in order."""

    def __init__(self) -> None:
        self.told: list[tuple[str, list[str], float]] = []

    def to_agent(self, uid: str, data: bytes) -> None:
        decoder = frames.Decoder()
        decoder.feed(data)
        [frame] = decoder
        assert frame.type == frames.BREAK
        body: dict[str, Any] = frames.decode_json(frame)
        self.told.append((uid, body["addresses"], body["before"]))

    def to_peer(self, peer: int, data: bytes, sessions: int = 1) -> bool:
        raise NotImplementedError

    def hang_up(self, peer: int) -> None:
        raise NotImplementedError


def member(uid: str, state: MemberState, *ips: str) -> Member:
    return Member(uid, uid, 1, state, "main", ips=ips)


A, B = member("a", ACTIVE, "10.0.0.1", "fd00::1"), member("b", ACTIVE, "10.0.0.2")
LOST = replace(B, state=GONE)


@pytest.fixture
def agents() -> Agents:
    return Agents()


def test_all_addresses_of_who_is_gone_are_told_in_answer_to_a_clock_and_once(agents: Agents):
    breaks = Breaks(agents)
    assert not breaks.take([A, B], NOW)
    breaks.answer("a", 5.0, NOW)
    assert agents.told == []
    assert breaks.take([replace(A, state=GONE), B], NOW)
    breaks.answer("b", None, NOW)
    assert agents.told == []
    breaks.answer("b", 6.0, NOW)
    breaks.answer("b", 7.0, NOW)
    assert not breaks.take([replace(A, state=GONE), B], NOW)
    breaks.answer("b", 8.0, NOW)
    assert agents.told == [("b", ["10.0.0.1", "fd00::1"], 6.0)]


def test_a_clock_that_was_asked_for_before_is_too_old(agents: Agents):
    """Nothing would be said of a ring that was made meanwhile, with who is gone."""
    breaks = Breaks(agents)
    breaks.take([A, LOST], NOW)
    breaks.answer("a", 5.0, NOW - 1)
    breaks.answer("a", 5.5, None)
    assert agents.told == []
    breaks.answer("a", 6.0, NOW)
    assert agents.told == [("a", ["10.0.0.2"], 6.0)]


def test_losses_that_come_faster_than_clocks_are_told_as_far_as_these_go(agents: Agents):
    breaks = Breaks(agents)
    breaks.take([A, LOST], NOW)
    assert breaks.take([A, LOST, member("c", GONE, "10.0.0.3")], NOW + 2)
    breaks.answer("a", 6.0, NOW)
    breaks.answer("a", 6.5, NOW + 1)
    breaks.answer("a", 8.0, NOW + 2)
    assert agents.told == [("a", ["10.0.0.2"], 6.0), ("a", ["10.0.0.2", "10.0.0.3"], 8.0)]


def test_who_has_a_new_stream_is_told_again_and_who_comes_late_too(agents: Agents):
    breaks = Breaks(agents)
    breaks.take([A, LOST], NOW)
    breaks.answer("a", 1.0, NOW)
    breaks.forget("a")
    breaks.answer("a", 2.0, NOW)
    breaks.answer("c", 3.0, NOW)
    assert [(uid, before) for uid, _, before in agents.told] == [("a", 1.0), ("a", 2.0), ("c", 3.0)]


def test_each_further_loss_is_told_with_those_before_it(agents: Agents):
    breaks = Breaks(agents)
    breaks.take([A, LOST], NOW)
    breaks.answer("a", 1.0, NOW)
    assert breaks.take([A, LOST, member("c", GONE, "10.0.0.3")], NOW)
    breaks.answer("a", 2.0, NOW)
    assert agents.told[-1] == ("a", ["10.0.0.2", "10.0.0.3"], 2.0)
    assert not breaks.take([A], NOW)  # forgotten
    breaks.answer("a", 3.0, NOW)
    assert len(agents.told) == 2


@pytest.mark.parametrize("state", [ACTIVE, DRAINING])
def test_an_address_that_one_who_lives_has_is_never_told(agents: Agents, state: MemberState):
    """It was given to a new pod; or pods have those of their nodes."""
    heir = member("c", state, "10.0.0.2")
    assert find_gone([A, LOST, heir]) == {}
    assert find_gone([A, LOST, replace(heir, ips=("10.0.0.9",))]) == {"b": {"10.0.0.2"}}
    breaks = Breaks(agents)
    breaks.take([A, LOST], NOW)
    breaks.answer("a", 1.0, NOW)
    breaks.take([A, LOST, heir], NOW)
    breaks.answer("d", 2.0, NOW)
    assert breaks.take([A, LOST, replace(heir, state=GONE)], NOW)
    breaks.answer("a", 3.0, NOW)
    assert agents.told == [("a", ["10.0.0.2"], 1.0), ("a", ["10.0.0.2"], 3.0)]


def test_nothing_is_told_while_one_who_lives_might_have_any_address(agents: Agents):
    assert find_gone([A, LOST, member("c", ACTIVE)]) == {}
    assert find_gone([A, member("c", GONE)]) == {}


class Life:
    """A job whose pods get each other's addresses, what its rank knows, and words under way.

    The one rank that we look at is in a ring; `rings` are when that was made, by its agent's clock,
    and who is in it with which address. Words of the broker come late, in their order.
    """

    def __init__(self) -> None:
        self.breaks = Breaks(self)
        self.clock = 0.0
        self.pods: dict[str, tuple[str, MemberState]] = {}
        self.config: tuple[Member, ...] = ()
        self.pongs: list[tuple[float, float]] = []
        self.words: list[tuple[float, frozenset[str]]] = []
        self.made = 0.0
        self.ring: dict[str, str] = {}
        self.numbers = iter(range(10**6))

    def to_agent(self, _uid: str, data: bytes) -> None:
        decoder = frames.Decoder()
        decoder.feed(data)
        body: dict[str, Any] = frames.decode_json(next(iter(decoder)))
        self.words.append((body["before"], frozenset(body["addresses"])))

    def to_peer(self, peer: int, data: bytes, sessions: int = 1) -> bool:
        raise NotImplementedError

    def hang_up(self, peer: int) -> None:
        raise NotImplementedError

    def lives(self, uid: str) -> bool:
        return self.pods.get(uid, ("", GONE))[1] is ACTIVE

    # what may happen
    def come(self, place: int) -> None:
        """A pod, with an address that no pod has that lives."""
        taken = {ip for ip, state in self.pods.values() if state is ACTIVE}
        free = [f"10.0.0.{n}" for n in range(1, 5) if f"10.0.0.{n}" not in taken]
        if free:
            self.pods[f"uid-{next(self.numbers)}"] = (free[place % len(free)], ACTIVE)

    def lose(self, place: int) -> None:
        living = [uid for uid in self.pods if self.lives(uid)]
        if living:
            uid = living[place % len(living)]
            self.pods[uid] = (self.pods[uid][0], GONE)

    def forget(self, _place: int) -> None:
        self.pods = {uid: pod for uid, pod in self.pods.items() if pod[1] is ACTIVE}

    def read(self, _place: int) -> None:
        """The broker reads the config; who is in it may have ranks from then on."""
        self.config = tuple(member(uid, state, ip) for uid, (ip, state) in self.pods.items())
        self.breaks.take(self.config, self.clock)

    def form(self, _place: int) -> None:
        """A ring of those whose ranks the broker has started, and that live."""
        known = [m for m in self.config if m.state is ACTIVE and self.lives(m.uid)]
        self.ring = {m.uid: m.ips[0] for m in known}
        self.made = self.clock

    def say(self, _place: int) -> None:
        self.pongs.append((self.clock, self.clock))

    def hear(self, _place: int) -> None:
        if self.pongs:
            self.breaks.answer("rank", *self.pongs.pop(0))

    def start_anew(self, _place: int) -> None:
        """Another broker, which reads the same config before it hears anybody."""
        self.pongs.clear()
        self.breaks = Breaks(self)
        self.breaks.take(self.config, self.clock)

    def cut(self, _place: int) -> None:
        """A word has come, and the rank obeys it."""
        if self.words:
            before, addresses = self.words.pop(0)
            cut = {uid for uid, ip in self.ring.items() if ip in addresses and self.made < before}
            assert not any(map(self.lives, cut))
            self.ring = {uid: ip for uid, ip in self.ring.items() if uid not in cut}


ACTS = ("come", "lose", "forget", "read", "form", "say", "hear", "start_anew", "cut")


@pytest.mark.parametrize("seed", range(40))
def test_whoever_gets_an_address_and_however_late_a_word_is_nobody_is_cut_off_who_lives(seed: int):
    chance = random.Random(seed)  # noqa: S311 (the same each time)
    life = Life()
    for _ in range(1000):
        life.clock += 1.0
        getattr(life, chance.choice(ACTS))(chance.randrange(4))
    # And all who are gone are cut off, once word of them has come.
    life.pongs = [(life.clock + 1.0, life.clock + 1.0)]
    for name in ("read", "hear", *("cut",) * (len(life.words) + 1)):
        getattr(life, name)(0)
    left = {uid for uid in life.ring if uid in life.pods and not life.lives(uid)}
    shared = {ip for ip, state in life.pods.values() if state is ACTIVE}
    assert all(life.ring[uid] in shared for uid in left)
