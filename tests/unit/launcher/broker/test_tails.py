from __future__ import annotations

import asyncio
import json
import os

import pytest

from et_contract import frames
from et_contract.documents import Member, MemberState
from et_contract.frames import Frame
from et_contract.tails import ALL_BYTES, MOST_BYTES, LastLines
from launcher.broker.sessions import Session
from launcher.broker.tails import Tails
from launcher.broker.telling import MOST_WAITING, Teller, measure_waiting

ACTIVE, GONE = MemberState.ACTIVE, MemberState.GONE


def make_members(count: int, state: MemberState = ACTIVE) -> list[Member]:
    return [Member(f"w-{n}", f"uid-{n}", 1, state, "main") for n in range(count)]


def make_tails(count: int = 2, *, is_cut: bool = False) -> Tails:
    tails = Tails(is_cut=is_cut)
    tails.follow(make_members(count))
    return tails


def make_session(index: int = 0) -> Session:
    return Session(b"s" * 16, host=f"w-{index}", uid=f"uid-{index}")


def show(tails: Tails, session: Session, text: bytes, offset: int = 0, channel: int = 1) -> None:
    tails.take(session, Frame(frames.DATA, session.id, channel, offset, text))


def end(tails: Tails) -> list[LastLines]:
    tails.end_all()
    return tails.hand_over()


def test_each_worker_has_its_own_lines_of_all_its_sessions_and_both_channels():
    tails = make_tails()
    one, two, other = make_session(), make_session(), make_session(1)
    show(tails, one, b"a\n")
    show(tails, other, b"w-0: not mine\n")
    show(tails, two, b"b\n", channel=2)
    show(tails, one, b"c\n", 2)

    assert end(tails) == [
        LastLines("w-0", ("a", "b", "c"), is_cut=False),
        LastLines("w-1", ("w-0: not mine",), is_cut=False),
    ]
    assert end(tails) == []


def test_one_that_is_gone_is_told_once_and_the_others_go_on():
    tails = make_tails()
    show(tails, make_session(), b"bye\n")
    gone = [*make_members(1, GONE), make_members(2)[1]]

    tails.follow(gone)
    tails.follow(gone)
    show(tails, make_session(), b"late\n", 4)
    assert tails.hand_over() == [LastLines("w-0", ("bye",), is_cut=False)]

    tails.follow([])
    assert tails.hand_over() == [LastLines("w-1", (), is_cut=False)]


def test_what_comes_a_second_time_is_there_once():
    tails, session = make_tails(1), make_session()
    show(tails, session, b"one\ntwo\n")
    show(tails, session, b"two\nthree\n", 4)
    show(tails, session, b"one\n")
    show(tails, session, b"four\n", 14)

    [last] = end(tails)
    assert last.lines == ("one", "two", "three", "four")


def test_after_another_broker_there_may_have_been_more():
    assert end(make_tails(1, is_cut=True)) == [LastLines("w-0", (), is_cut=True)]


def test_a_flood_leaves_the_end_alone():
    tails, session = make_tails(1), make_session()
    piece = b"".join(b"%07d\n" % n for n in range(1000))
    for number in range(50):
        show(tails, session, piece, number * len(piece))

    [last] = end(tails)
    assert last.is_cut
    assert last.lines[-1] == "0000999"
    assert MOST_BYTES - 30 < len(json.dumps(last.lines)) <= MOST_BYTES


@pytest.mark.long
def test_all_workers_together_are_bounded_whatever_they_print():
    tails = make_tails(1024)
    for index in range(1024):
        show(tails, make_session(index), b"\xff\x00" * 4 * MOST_BYTES)

    found = end(tails)
    assert len(found) == 1024
    assert sum(len(json.dumps(last.lines)) for last in found) <= ALL_BYTES


# ------------------------------------------------------------------ into the log
def test_a_log_that_nobody_reads_takes_no_more_until_somebody_does():
    waiting, told = MOST_WAITING + 1, list[str]()
    tails = make_tails(1)
    teller = Teller(tails, lambda: waiting, lambda last: told.append(last.worker))
    tails.end_all()

    teller.look()
    assert told == []

    waiting = 0
    teller.look()
    teller.look()
    assert told == ["w-0"]


@pytest.mark.long
async def test_what_had_to_wait_is_told_once_somebody_reads_though_nothing_else_happens():
    waiting, told = list[int](), asyncio.Queue[str]()
    tails = make_tails(2)
    teller = Teller(
        tails, lambda: waiting.pop() if waiting else 0, lambda last: told.put_nowait(last.worker)
    )
    async with asyncio.timeout(5.0), asyncio.TaskGroup() as group:
        task = group.create_task(teller.run())
        for _ in range(2):
            waiting += [MOST_WAITING + 1] * 3
            tails.follow(make_members(2))
            tails.end_all()
            teller.look()
            assert told.empty()
            assert {await told.get(), await told.get()} == {"w-0", "w-1"}
        task.cancel()


async def test_at_the_end_all_is_told_and_nobody_waits_for_long():
    told = list[str]()

    def measure() -> int:
        return MOST_WAITING + 1 if len(told) == 2 else 0

    teller = Teller(make_tails(3), measure, lambda last: told.append(last.worker))
    async with asyncio.timeout(5.0):
        await teller.finish(0.05)

    assert sorted(told) == sorted({*told})
    assert len(told) == 2


def test_what_waits_in_a_pipe_is_seen_from_where_it_is_written():
    reader, writer = os.pipe()
    try:
        assert measure_waiting(writer) == 0
        os.write(writer, b"12345")
        assert measure_waiting(writer) == 5
    finally:
        os.close(reader)
        os.close(writer)
    assert measure_waiting(os.open(os.devnull, os.O_WRONLY)) == 0
