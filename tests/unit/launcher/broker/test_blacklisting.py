"""Which workers are used up: their hosts were given up, and the training goes on without them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from et_contract import frames
from et_contract.documents import MemberState, Report, SessionExit
from launcher.broker.bodies import KnownSession
from launcher.broker.memories import Memory
from launcher.broker.relaying import CLAIM_SECONDS
from tests.unit.launcher.broker.test_brokering import (
    ACTIVE,
    DRAINING,
    GONE,
    NOBODY,
    PID1,
    BrokerRig,
    make_frame,
)

TERM = 15


def name_session(index: int, slot: int = 0) -> bytes:
    return bytes([index + 1, slot + 1]) * 8


def make_trained(slots: int = 1, *, blacklists: bool = True) -> BrokerRig:
    """Three workers, ranks on each of their slots, and a command that asks for hosts."""
    fresh = Memory(Report(epoch=1, launcher_uid="launcher-uid", broker_start=1))
    rig = BrokerRig(fresh)
    rig.configure(dict.fromkeys(range(3), ACTIVE), replicas=3)
    for index in range(3):
        rig.welcome(index)
    rig.peer(PID1, frames.LAUNCH, nonce="nonce")
    for index in range(3):
        for slot in range(slots):
            start(rig, index, slot, blacklists=blacklists)
    read(rig, 3)
    return rig


def find_peer(index: int, slot: int) -> int:
    return 10 + index + 100 * slot


def start(
    rig: BrokerRig, index: int, slot: int = 0, *, ranks: int = 1, blacklists: bool = True
) -> None:
    session, host = name_session(index, slot), f"job-worker-{index}"
    body = {"host": host, "command": "train", "ranks": ranks, "blacklists": blacklists}
    rig.peer(find_peer(index, slot), frames.SPAWN, session, **body)
    rig.hear(index, frames.SPAWNED, session, pid=1, instance="i")


def tell_to_end(rig: BrokerRig, index: int, slot: int = 0) -> None:
    frame = make_frame(frames.SIGNAL, name_session(index, slot), signal=TERM)._replace(offset=1)
    rig.broker.take_peer_frame(find_peer(index, slot), frame, rig.now)


def end(rig: BrokerRig, index: int, code: int, slot: int = 0) -> None:
    session = name_session(index, slot)
    rig.hear(index, frames.EXIT, session, code=code, produced=[0, 0], reason="")
    rig.peer(find_peer(index, slot), frames.EXIT_ACK, session)


def read(rig: BrokerRig, count: int = 15) -> None:
    """The command asks for hosts, as each second."""
    for _ in range(count):
        rig.wait(1.0)
        rig.read()


@pytest.mark.parametrize("code", [137, 134, 1])
def test_a_worker_of_which_the_only_rank_fails_is_used_up_when_the_others_go_on(code: int):
    rig = make_trained()
    end(rig, 1, code)
    read(rig, 9)
    assert rig.report.used_up == {}
    read(rig, 2)
    assert rig.report.used_up == {"uid-1": code}
    needed = rig.broker.ledger.needed
    read(rig)
    assert rig.broker.ledger.needed == needed


def test_with_the_code_of_the_first_that_failed_and_not_before_the_last_has_ended():
    rig = make_trained(slots=2)
    end(rig, 1, 137, slot=1)
    read(rig)
    assert rig.report.used_up == {}
    end(rig, 1, 143, slot=0)  # horovodrun ends it too
    read(rig)
    assert rig.report.used_up == {"uid-1": 137}


def test_a_bystander_that_is_aborted_is_used_up_too():
    rig = make_trained()
    end(rig, 1, 137)
    end(rig, 2, 134)
    read(rig)
    assert rig.report.used_up == {"uid-1": 137, "uid-2": 134}


def test_an_end_with_0_gives_nobody_up():
    rig = make_trained()
    end(rig, 1, 0)
    read(rig, 30)
    assert rig.report.used_up == {}


@pytest.mark.parametrize("order", ["before", "after"])
def test_nor_does_a_crash_at_the_end_of_a_training_that_has_succeeded_elsewhere(order: str):
    """Rank 0 saves for long; horovodrun judges when it has ended too, and gives nobody up."""
    rig = make_trained()
    for index, code in [(2, 0), (1, 134)] if order == "before" else [(1, 134), (2, 0)]:
        end(rig, index, code)
        rig.wait(1.0)
    read(rig, 30)
    assert rig.report.used_up == {}


def test_a_training_that_begins_after_one_that_has_succeeded_is_judged_again():
    rig = make_trained()
    for index in range(3):
        end(rig, index, 0)
    for index in range(3):
        start(rig, index, 1)
    end(rig, 1, 137, slot=1)
    read(rig)
    assert rig.report.used_up == {"uid-1": 137}


@pytest.mark.parametrize("ends", [0, 2000])
def test_an_end_with_0_that_is_told_again_ends_no_training_that_has_begun_since(ends: int):
    """Its acknowledgement was lost in a cut."""
    rig = make_trained()
    rig.hear(0, frames.EXIT, name_session(0), code=0, produced=[0, 0], reason="")
    for index in (1, 2):
        end(rig, index, 0)
        start(rig, index, 1)
    for number in range(ends):  # the report has no room for as many
        ended = SessionExit(number.to_bytes(16, "big").hex(), 1, "")
        rig.broker.ledger.end_session(f"uid-{number % 100}", ended)
    rig.hear(0, frames.EXIT, name_session(0), code=0, produced=[0, 0], reason="")
    end(rig, 1, 137, slot=1)
    read(rig)
    assert rig.report.used_up == {"uid-1": 137}


def test_who_leaves_for_it_stays_so_until_something_runs_there():
    """The operator asks whether it ends anything by force."""
    rig = make_trained()
    end(rig, 1, 137)
    read(rig)
    rig.configure({1: DRAINING}, replicas=3)
    for index in (0, 2):
        end(rig, index, 0)
    read(rig, 3)
    assert rig.report.used_up == {"uid-1": 137}


def test_it_is_no_end_of_a_training_that_who_is_to_leave_ends_with_0():
    rig = make_trained()
    rig.configure({2: DRAINING}, replicas=3)
    end(rig, 2, 0)
    end(rig, 1, 137)
    read(rig)
    assert rig.report.used_up == {"uid-1": 137}


def test_nor_that_a_rank_does_which_was_told_to_end():
    rig = make_trained(slots=2)
    end(rig, 1, 137)
    tell_to_end(rig, 1, slot=1)
    end(rig, 1, 0, slot=1)
    read(rig)
    assert rig.report.used_up == {"uid-1": 137}


def test_who_starts_its_ranks_again_gives_nobody_up():
    rig = make_trained(blacklists=False)
    end(rig, 1, 1)
    read(rig, 30)
    assert rig.report.used_up == {}


def test_nor_does_what_is_no_rank():
    rig = make_trained()
    rig.configure({3: ACTIVE}, replicas=4)
    rig.welcome(3)
    start(rig, 3, blacklists=False)
    end(rig, 3, 1)
    read(rig, 30)
    assert rig.report.used_up == {}


def test_nor_is_given_up_whose_host_is_used_again():
    rig = make_trained()
    end(rig, 1, 1)
    read(rig, 8)
    start(rig, 1)
    read(rig, 30)
    end(rig, 1, 0)
    read(rig, 30)
    assert rig.report.used_up == {}


def test_where_all_end_the_training_is_over_and_another_may_follow():
    """As in a script that calls horovodrun until it succeeds."""
    rig = make_trained()
    end(rig, 1, 137)
    rig.wait(0.5)
    for index in (0, 2):
        end(rig, index, 143)
    start(rig, 0)
    start(rig, 2)
    read(rig, 60)  # and its rank here is late
    assert rig.report.used_up == {}


def test_whose_ranks_elsewhere_are_told_to_end_gives_nobody_up():
    """They may take their time, and horovodrun asks until it has seen the failure."""
    rig = make_trained()
    end(rig, 1, 137)
    for index in (0, 2):
        tell_to_end(rig, index)
    read(rig, 30)
    assert rig.report.used_up == {}


def test_a_command_that_asks_no_more_has_given_nobody_up():
    rig = make_trained()
    end(rig, 1, 137)
    for _ in range(60):
        rig.wait(1.0)
    assert rig.report.used_up == {}
    rig.read()
    assert rig.report.used_up == {}, "we were away with it"


def test_nor_has_one_that_has_ended():
    rig = make_trained()
    end(rig, 1, 137)
    rig.peer(PID1, frames.ENDED, code=1)
    for index in (0, 2):
        end(rig, index, 143)
    read(rig, 30)
    assert rig.report.used_up == {}


@pytest.mark.parametrize("state", [DRAINING, GONE])
def test_who_is_to_leave_is_not_used_up(state: MemberState):
    rig = make_trained()
    rig.configure({1: state}, replicas=3)
    end(rig, 1, 143)
    read(rig, 30)
    assert rig.report.used_up == {}


def test_nor_is_who_leaves_within_these_seconds():
    rig = make_trained()
    end(rig, 1, 143)
    read(rig, 5)
    rig.hear(1, frames.TERMINATING, seconds=30)
    read(rig, 30)
    assert rig.report.used_up == {}


def test_the_next_broker_knows_it_and_tells_no_end_that_it_has_not_seen():
    before = make_trained()
    end(before, 1, 137)
    read(before)
    end(before, 2, 137)
    read(before, 5)
    rig = resume(before, (0,))
    read(rig, 30)
    assert rig.report.used_up == {"uid-1": 137}


def test_a_rank_that_fails_while_no_broker_runs_is_heard_of_by_the_next():
    rig = resume(make_trained(), (0, 1, 2))
    end(rig, 1, 137)
    read(rig)
    assert rig.report.used_up == {"uid-1": 137}


@pytest.mark.parametrize("first", ["agent", "shim"])
def test_so_is_one_whose_end_its_agent_tells_as_it_is_met(first: str):
    rig = resume(make_trained(), (0, 2))
    session = name_session(1)
    ended = KnownSession(session, SessionExit(session.hex(), 137, ""))
    if first == "agent":
        rig.welcome(1, replace(NOBODY, sessions=(ended,)))
    resume_shim(rig, 1)
    if first == "shim":
        rig.welcome(1, replace(NOBODY, sessions=(ended,)))
    end(rig, 1, 137)
    read(rig, int(CLAIM_SECONDS) - 1)
    assert rig.report.used_up == {}, "who trains on may still come back"
    read(rig)
    assert rig.report.used_up == {"uid-1": 137}
    assert not [p for p in rig.report.problems if p != "WorkersIdle"]


def test_one_that_was_ended_before_the_last_broker_began_says_nothing():
    before = make_trained()
    end(before, 1, 137)
    read(before)
    start(before, 1, 1)
    assert before.report.used_up == {}
    rig = resume(before, (0, 2))
    old, new = name_session(1), name_session(1, 1)
    ended = KnownSession(old, SessionExit(old.hex(), 137, ""))
    rig.welcome(1, replace(NOBODY, sessions=(ended, KnownSession(new, None))))
    rig.broker.lose_stream("uid-1")
    rig.welcome(1, replace(NOBODY, sessions=(ended,)))
    read(rig, int(CLAIM_SECONDS) + 15)
    assert rig.report.used_up == {}


def test_nobody_forgets_a_failure_because_the_config_is_not_there():
    before = make_trained()
    end(before, 1, 137)
    rig = BrokerRig(before.kept)
    for index in (0, 2):
        resume_shim(rig, index)
    rig.wait(CLAIM_SECONDS + 1)
    rig.generation = before.generation - 1
    rig.configure(dict.fromkeys(range(3), ACTIVE), replicas=3)
    rig.welcome(1)
    for index in (0, 2):
        rig.welcome(index, replace(NOBODY, sessions=(KnownSession(name_session(index), None),)))
    read(rig, int(CLAIM_SECONDS) + 15)
    assert rig.report.used_up == {"uid-1": 137}


def test_also_before_the_shims_of_the_others_have_come_back():
    before = make_trained()
    rig = resume(before, (1,))
    for index in (0, 2):
        rig.welcome(index, replace(NOBODY, sessions=(KnownSession(name_session(index), None),)))
    end(rig, 1, 137)
    read(rig)
    assert rig.report.used_up == {}, "what runs elsewhere may be anything"
    come_back(rig, 0)
    read(rig)
    assert rig.report.used_up == {"uid-1": 137}


@pytest.mark.parametrize("ranks", [1, 0], ids=["ranks", "something else"])
def test_who_runs_something_again_is_used_up_no_more(ranks: int):
    """By a time-out of the blacklist, by another command of the same script, by a user."""
    rig = make_trained()
    end(rig, 1, 137)
    read(rig)
    start(rig, 1, ranks=ranks, blacklists=ranks > 0)
    assert rig.report.used_up == {}
    read(rig, 30)
    assert rig.report.used_up == {}


@pytest.mark.parametrize("codes", [(0, 0), (1, 1), (1, 0), (0, 1), (143, 143)], ids=str)
def test_nor_is_anybody_once_the_training_that_gave_him_up_has_ended(codes: tuple[int, int]):
    """Another command of the script may follow, and has given up nobody."""
    rig = make_trained()
    end(rig, 1, 137)
    read(rig)
    assert rig.report.used_up == {"uid-1": 137}
    for index, code in zip((0, 2), codes, strict=True):
        if code == 128 + TERM:
            tell_to_end(rig, index)
        end(rig, index, code)
    assert rig.report.used_up == {}


def test_who_is_used_up_stays_so_while_others_fail_and_the_training_goes_on():
    rig = make_trained()
    end(rig, 1, 137)
    read(rig)
    end(rig, 2, 134)
    assert rig.report.used_up == {"uid-1": 137}
    read(rig)
    assert rig.report.used_up == {"uid-1": 137, "uid-2": 134}


def test_the_next_broker_takes_it_back_of_whom_it_finds_at_work():
    before = make_trained()
    end(before, 1, 137)
    read(before)
    rig = resume(before, (0, 1))
    assert rig.report.used_up == {}


def test_the_next_broker_knows_of_a_rank_that_has_failed_just_before():
    before = make_trained()
    end(before, 1, 137)
    rig = resume(before, (0, 2))
    rig.welcome(1)
    read(rig, int(CLAIM_SECONDS) - 1)
    assert rig.report.used_up == {}, "who trains on may still come back"
    read(rig)
    assert rig.report.used_up == {"uid-1": 137}


def test_it_takes_nobody_for_used_up_whose_training_has_ended_meanwhile():
    before = make_trained()
    end(before, 1, 137)
    rig = resume(before, ())
    for index in range(3):
        rig.welcome(index)
    read(rig, int(CLAIM_SECONDS) + 1)
    for index in (0, 2):
        start(rig, index, 1)  # the next one trains without it for a while
    read(rig)
    assert rig.report.used_up == {}
    assert rig.kept is not None
    assert rig.kept.failed == {}


def test_nor_one_in_which_ranks_are_started_again():
    before = make_trained()
    end(before, 1, 137)
    rig = resume(before, (0, 2))
    rig.welcome(1)
    start(rig, 1, 1)
    end(rig, 1, 0, slot=1)
    read(rig, int(CLAIM_SECONDS) + 15)
    assert rig.report.used_up == {}


def test_what_the_config_does_not_speak_of_is_forgotten():
    rig = make_trained()
    end(rig, 1, 137)
    read(rig)
    rig.configure({1: GONE}, replicas=3)
    read(rig, 3)
    del rig.members[1]
    rig.configure({}, replicas=3)
    read(rig, 10)
    assert rig.report.used_up == {}


def resume(before: BrokerRig, indices: tuple[int, ...]) -> BrokerRig:
    """The broker is started anew; the shims of these workers come back."""
    rig = BrokerRig(before.kept)
    rig.settle()
    rig.generation = before.generation - 1
    rig.configure(dict.fromkeys(range(3), ACTIVE), replicas=3)
    for index in indices:
        come_back(rig, index)
    return rig


def come_back(rig: BrokerRig, index: int) -> None:
    rig.welcome(index, replace(NOBODY, sessions=(KnownSession(name_session(index), None),)))
    resume_shim(rig, index)


def resume_shim(rig: BrokerRig, index: int) -> None:
    session, host = name_session(index), f"job-worker-{index}"
    body = {"host": host, "instance": "i", "received": [0, 0], "ranks": 1, "blacklists": True}
    rig.peer(find_peer(index, 0), frames.RESUME, session, **body)


def end_unheard(rig: BrokerRig, index: int, code: int) -> None:
    """The stream is cut, then the rank ends, then there is another stream."""
    session = name_session(index)
    ended = KnownSession(session, SessionExit(session.hex(), code, ""))
    rig.welcome(index, replace(NOBODY, sessions=(ended,)))
    end(rig, index, code)


def test_a_rank_that_fails_while_its_agent_is_not_heard_uses_its_worker_up():
    rig = make_trained()
    rig.broker.lose_stream("uid-1")
    rig.wait(1.0)
    end_unheard(rig, 1, 137)
    read(rig)
    assert rig.report.used_up == {"uid-1": 137}


def test_an_end_with_0_meanwhile_is_the_end_of_the_training():
    rig = make_trained()
    rig.broker.lose_stream("uid-1")
    end_unheard(rig, 1, 0)
    end(rig, 2, 134)
    read(rig, 30)
    assert rig.report.used_up == {}


@pytest.mark.parametrize("code", [0, 137])
def test_what_ended_unheard_says_nothing_of_a_training_that_has_begun_since(code: int):
    rig = make_trained()
    rig.broker.lose_stream("uid-1")
    for index in (0, 2):
        end(rig, index, 143)
        start(rig, index, 1)
    end_unheard(rig, 1, code)
    read(rig)
    assert rig.report.used_up == {}
    end(rig, 2, 134, slot=1)
    read(rig)
    assert rig.report.used_up == {"uid-2": 134}


def test_of_many_that_fail_one_after_the_other_each_is_used_up_when_some_go_on():
    rig = make_trained()
    many = range(3, 90)
    rig.configure(dict.fromkeys(many, ACTIVE), replicas=90)
    for index in many:
        rig.welcome(index)
        start(rig, index)
    read(rig, 3)
    failing = [*range(1, 80)]
    for index in reversed(failing):  # whoever was started first beside them fails too, but one
        end(rig, index, 1)
    tell_to_end(rig, 0)
    read(rig)
    assert rig.report.used_up == {f"uid-{index}": 1 for index in failing}
