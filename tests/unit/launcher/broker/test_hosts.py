"""The list of hosts: sticky, gathered, and what a read of it proves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from et_contract.documents import AHEAD, HostConfig, Member, MemberState
from et_contract.hosts import Host
from launcher.broker.hosts import (
    GATHER_SECONDS,
    JOIN_SECONDS,
    HostList,
    HostMemory,
    Verdict,
)

ACTIVE, DRAINING, GONE = MemberState.ACTIVE, MemberState.DRAINING, MemberState.GONE
HELD = MemberState.HELD


def make_member(index: int, state: MemberState = ACTIVE) -> Member:
    return Member(f"job-worker-{index}", f"uid-{index}", 2, state, "main")


def make_config(generation: int, *members: Member, epoch: int = 1) -> HostConfig:
    return HostConfig(
        job="job",
        namespace="ns",
        job_uid="job-uid",
        generation=generation,
        epoch=epoch,
        replicas=2,
        min_replicas=1,
        members=members,
    )


def make_list(memory: HostMemory | None = None) -> HostList:
    return HostList("job-uid", 1, memory or HostMemory())


def make_listed(count: int) -> HostList:
    hosts = make_list()
    hosts.configure(make_config(1, *map(make_member, range(count))), 0.0)
    for index in range(count):
        hosts.welcome(f"uid-{index}", 0.0)
    hosts.gather(0.0)
    hosts.register("nonce")
    hosts.start()
    return hosts


def test_hosts_are_listed_at_once_when_all_have_come():
    hosts = make_list()
    hosts.configure(make_config(1, make_member(0), make_member(1)), 0.0)
    hosts.welcome("uid-0", 5.0)
    hosts.gather(5.0)
    assert hosts.text == ""
    assert hosts.due() == 5.0 + GATHER_SECONDS
    hosts.welcome("uid-1", 5.1)
    assert hosts.due() == 5.0
    hosts.gather(5.1)
    assert hosts.text == "job-worker-0:2\njob-worker-1:2\n"
    assert hosts.due() is None


def test_the_first_waits_no_longer_than_the_gathering():
    hosts = make_list()
    hosts.configure(make_config(1, make_member(0), make_member(1)), 0.0)
    hosts.welcome("uid-1", 5.0)
    hosts.gather(5.0 + GATHER_SECONDS)
    assert hosts.text == "job-worker-1:2\n"


def test_a_member_without_a_welcome_is_not_listed():
    hosts = make_list()
    hosts.configure(make_config(1, make_member(0)), 0.0)
    hosts.gather(100.0)
    assert hosts.text == ""


def test_a_draining_host_is_off_the_list_at_once_and_never_returns():
    hosts = make_listed(2)
    hosts.configure(make_config(2, make_member(0), make_member(1, DRAINING)), 0.0)
    assert hosts.text == "job-worker-0:2\n"
    hosts.configure(make_config(3, make_member(0), make_member(1)), 0.0)
    hosts.welcome("uid-1", 9.0)
    hosts.gather(99.0)
    assert hosts.text == "job-worker-0:2\n"
    assert hosts.members["uid-1"].state is DRAINING


def test_a_terminating_host_is_off_the_list_at_once():
    hosts = make_listed(2)
    hosts.remove("uid-0")
    assert hosts.text == "job-worker-1:2\n"


def test_a_member_that_a_newer_config_forgot_is_gone():
    hosts = make_listed(2)
    hosts.configure(make_config(2, make_member(0)), 0.0)
    assert hosts.text == "job-worker-0:2\n"
    assert hosts.members["uid-1"].state is GONE


@pytest.mark.parametrize(
    ("config", "verdict"),
    [
        pytest.param(make_config(0), Verdict.STALE, id="lower generation"),
        pytest.param(make_config(9, epoch=0), Verdict.STALE, id="lower epoch"),
        pytest.param(replace(make_config(9), job_uid="other"), Verdict.STALE, id="another job"),
        pytest.param(make_config(9, epoch=2), Verdict.FENCED, id="later epoch"),
        pytest.param(make_config(2), Verdict.TAKEN, id="newer"),
    ],
)
def test_only_newer_configs_of_this_epoch_are_taken(config: HostConfig, verdict: Verdict):
    hosts = make_listed(1)
    assert hosts.configure(config, 0.0) is verdict
    assert hosts.text == ("" if verdict is Verdict.TAKEN else "job-worker-0:2\n")


def test_once_fenced_nothing_is_taken_any_more():
    hosts = make_listed(1)
    hosts.configure(make_config(2, epoch=2), 0.0)
    assert hosts.configure(make_config(3), 0.0) is Verdict.FENCED
    assert hosts.text == "job-worker-0:2\n"


def test_a_restart_keeps_the_list_and_lists_nobody_twice():
    before = make_listed(2)
    before.configure(make_config(2, make_member(0), make_member(1, DRAINING)), 0.0)
    hosts = make_list(before.memory)
    assert hosts.text == "job-worker-0:2\n"
    assert hosts.is_known
    assert hosts.configure(make_config(1), 0.0) is Verdict.STALE
    hosts.configure(make_config(2, make_member(0), make_member(1, DRAINING)), 0.0)
    hosts.welcome("uid-0", 0.0)
    hosts.gather(10.0)
    assert hosts.text == "job-worker-0:2\n"


def test_a_host_that_was_forgotten_while_no_broker_ran_is_off_the_list():
    hosts = make_list(make_listed(2).memory)
    assert hosts.text == "job-worker-0:2\njob-worker-1:2\n"
    hosts.configure(make_config(5, make_member(0)), 0.0)
    assert hosts.text == "job-worker-0:2\n"
    hosts.count_read("nonce", 1.0)
    assert hosts.memory.served_generation == 5


def test_a_read_counts_only_with_the_nonce_of_the_command():
    hosts = make_listed(2)
    hosts.configure(make_config(4, make_member(0), make_member(1, DRAINING)), 0.0)
    assert not hosts.count_read("", 1.0)
    assert not hosts.count_read("guess", 1.0)
    assert hosts.memory.served_generation == 0
    assert hosts.count_read("nonce", 2.0)
    assert hosts.count_read("nonce", 3.0)
    assert hosts.memory.served_generation == 4
    departure = hosts.departures["uid-1"]
    assert (departure.reads, departure.served_at) == (2, 2.0)


def test_nothing_is_served_before_there_is_a_nonce():
    hosts = make_list()
    assert not hosts.count_read("", 0.0)


def test_a_host_is_offered_from_when_the_command_may_read():
    hosts = make_list()
    hosts.configure(make_config(1, make_member(0), make_member(1), make_member(2)), 0.0)
    hosts.welcome("uid-0", 0.0)
    hosts.welcome("uid-1", 0.0)
    hosts.gather(1.0)
    hosts.configure(make_config(2, make_member(0, DRAINING), make_member(1), make_member(2)), 0.0)
    hosts.start()
    hosts.welcome("uid-2", 2.0)
    hosts.gather(3.0)
    offered = [uid for uid in hosts.members if hosts.was_offered(uid)]
    assert offered == ["uid-1", "uid-2"]


def test_the_text_is_made_once_for_each_list_and_names_for_each_config():
    hosts = make_listed(2)
    assert hosts.text is hosts.text
    assert hosts.find_named() is hosts.find_named()
    hosts.configure(make_config(2, make_member(0), make_member(1, DRAINING)), 2.0)
    assert hosts.text == "job-worker-0:2\n"
    assert [member.state for member in hosts.find_named().values()] == [ACTIVE, DRAINING]
    hosts.nudge = Host("pseudo", 1)
    assert hosts.text == "job-worker-0:2\npseudo:1\n"


def test_a_name_means_the_pod_that_lives():
    hosts = make_list()
    old = Member("job-worker-0", "old", 1, GONE, "main")
    hosts.configure(make_config(1, old, make_member(0)), 0.0)
    found = {name: member.uid for name, member in hosts.find_named().items()}
    assert found == {"job-worker-0": "uid-0"}


@pytest.mark.long
@given(
    st.lists(st.tuples(st.sampled_from(["welcome", "drain", "gone", "tick"]), st.integers(0, 3)))
)
def test_whatever_happens_a_host_leaves_for_good(steps: list[tuple[str, int]]):
    hosts = make_list()
    states = dict.fromkeys(range(4), ACTIVE)
    generation, left = 1, set[str]()
    hosts.configure(make_config(1, *map(make_member, range(4))), 0.0)
    for now, (step, index) in enumerate(steps):
        if step == "welcome":
            hosts.welcome(f"uid-{index}", now)
        elif step == "tick":
            hosts.gather(now)
        else:
            generation += 1
            states[index] = DRAINING if step == "drain" else GONE
            hosts.configure(
                make_config(generation, *(make_member(i, s) for i, s in states.items())), 0.0
            )
            left.add(f"job-worker-{index}:2")
        lines = hosts.text.splitlines()
        assert not left & set(lines)
        assert len(lines) == len(set(lines))


def test_a_host_that_joins_a_training_waits_for_those_the_job_still_wants():
    hosts = make_listed(1)
    hosts.configure(replace(make_config(2, make_member(0), make_member(1)), replicas=3), 0.0)
    hosts.welcome("uid-1", 5.0)
    assert hosts.due() == 5.0 + JOIN_SECONDS

    hosts.configure(replace(make_config(3, *map(make_member, range(3))), replicas=3), 0.0)
    assert hosts.due() == 5.0 + JOIN_SECONDS
    hosts.welcome("uid-2", 6.0)

    assert hosts.due() == 5.0
    hosts.gather(6.0)
    assert hosts.text == "job-worker-0:2\njob-worker-1:2\njob-worker-2:2\n"


def test_a_host_joins_from_its_first_read_until_something_is_started_on_it():
    hosts = make_listed(1)
    assert hosts.joining == {}
    hosts.configure(make_config(2, make_member(0), make_member(1)), 0.0)
    hosts.welcome("uid-1", 5.0)
    hosts.gather(5.0)
    assert hosts.joining == {"uid-1": None}

    hosts.count_read("somebody", 6.0)
    assert hosts.joining == {"uid-1": None}
    hosts.count_read("nonce", 7.0)
    hosts.count_read("nonce", 8.0)
    assert hosts.joining == {"uid-1": 7.0}

    hosts.join("uid-1")
    assert hosts.joining == {}


def test_a_host_that_is_taken_off_joins_no_more():
    hosts = make_listed(1)
    hosts.configure(make_config(2, make_member(0), make_member(1)), 0.0)
    hosts.welcome("uid-1", 5.0)
    hosts.gather(5.0)

    hosts.remove("uid-1")

    assert hosts.joining == {}


def test_the_next_broker_takes_every_listed_host_as_joining_until_it_knows_better():
    hosts = make_list(make_listed(2).memory)

    assert hosts.joining == {"uid-0": None, "uid-1": None}


def test_a_name_that_the_command_has_known_never_means_another_pod():
    hosts = make_listed(2)
    hosts.configure(make_config(2, make_member(0)), 0.0)
    namesake = replace(make_member(1), uid="uid-of-another")
    hosts.configure(make_config(3, make_member(0), namesake, make_member(2)), 0.0)
    assert hosts.dismiss_spent() == ["uid-of-another"]


def test_nor_where_it_was_held_until_another_one_leaves():
    hosts = make_listed(2)
    hosts.configure(make_config(2, make_member(0)), 0.0)
    namesake = replace(make_member(1, HELD), uid="uid-of-another")
    hosts.configure(make_config(3, make_member(0), namesake), 0.0)
    hosts.welcome("uid-of-another", 1.0)
    active = replace(namesake, state=ACTIVE)
    hosts.configure(make_config(4, make_member(0, DRAINING), active), 2.0)
    assert "uid-of-another" not in hosts.memory.ever_listed
    assert hosts.dismiss_spent() == ["uid-of-another"]


def test_a_pod_that_is_known_to_be_gone_is_spent_where_a_config_wants_it_again():
    hosts = make_listed(2)
    hosts.configure(make_config(2, make_member(0), make_member(1, GONE)), 0.0)
    hosts.configure(make_config(3, make_member(0), make_member(1)), 0.0)
    assert hosts.dismiss_spent() == ["uid-1"]


def test_a_worker_that_comes_late_is_not_spent():
    hosts = make_listed(1)
    hosts.configure(make_config(2, make_member(0), make_member(2)), 0.0)
    hosts.welcome("uid-2", 1.0)
    hosts.gather(9.0)
    hosts.configure(make_config(3, make_member(0), make_member(2), make_member(1)), 0.0)
    assert hosts.dismiss_spent() == []


def test_who_was_taken_off_is_told_where_a_config_of_before_wants_him_back():
    hosts = make_listed(2)
    hosts.configure(make_config(2, make_member(0), make_member(1, DRAINING)), 0.0)
    assert hosts.unlisted == frozenset()
    hosts.configure(make_config(3, make_member(0), make_member(1)), 0.0)
    assert hosts.unlisted == {"uid-1"}
    hosts.configure(make_config(4, make_member(0), make_member(1, DRAINING)), 0.0)
    assert hosts.unlisted == frozenset()


def test_the_next_broker_tells_them_too():
    hosts = make_listed(2)
    hosts.configure(make_config(2, make_member(0), make_member(1, DRAINING)), 0.0)
    successor = make_list(hosts.memory)
    successor.configure(make_config(3, make_member(0), make_member(1)), 0.0)
    assert successor.unlisted == {"uid-1"}
    assert successor.hosts == (Host("job-worker-0", 2),)


def test_a_worker_that_refuses_us_for_good_is_told_and_never_listed():
    hosts = make_listed(1)
    hosts.configure(make_config(2, make_member(0), make_member(1)), 0.0)
    hosts.refuse("uid-1")
    hosts.welcome("uid-1", 1.0)
    hosts.gather(9.0)
    assert hosts.unlisted == {"uid-1"}
    assert hosts.hosts == (Host("job-worker-0", 2),)


@pytest.mark.parametrize("uid", ["uid-0", "nobody"])
def test_a_refusal_of_one_that_is_listed_or_unknown_changes_nothing(uid: str):
    hosts = make_listed(2)
    before = hosts.memory
    hosts.refuse(uid)
    assert hosts.unlisted == frozenset()
    assert hosts.memory == before


def test_a_config_that_is_numbered_far_ahead_is_ignored_but_for_the_first():
    hosts = make_list()
    assert hosts.configure(make_config(2**52, make_member(0)), 0.0) is Verdict.TAKEN
    hosts = make_listed(1)
    assert hosts.configure(make_config(2 * AHEAD + 2, make_member(1)), 0.0) is Verdict.STALE
    assert hosts.configure(make_config(2 * AHEAD + 1, make_member(0)), 0.0) is Verdict.TAKEN


# ------------------------------------------------------------------ who is held
def hold(hosts: HostList, *indexes: int) -> None:
    """Beside two that are listed these are held, and have answered."""
    held = (make_member(index, HELD) for index in indexes)
    hosts.configure(make_config(2, make_member(0), make_member(1), *held), 0.0)
    for index in indexes:
        hosts.welcome(f"uid-{index}", 5.0)


def test_who_is_held_is_on_no_list_however_long_ago_he_has_answered():
    hosts = make_listed(2)
    hold(hosts, 2)
    hosts.gather(1000.0)
    assert hosts.text == "job-worker-0:2\njob-worker-1:2\n"
    assert hosts.memory.ready == {"uid-2"}
    assert hosts.due() is None
    assert "uid-2" not in hosts.memory.offered


def test_one_config_takes_one_off_and_lists_who_was_held_for_him():
    hosts = make_listed(2)
    hold(hosts, 2)
    hosts.configure(make_config(3, make_member(0), make_member(1, DRAINING), make_member(2)), 9.0)
    assert hosts.text == "job-worker-0:2\njob-worker-2:2\n"
    assert hosts.memory.ready == frozenset()
    assert hosts.due() is None
    assert hosts.was_offered("uid-2")


def test_who_has_just_come_is_listed_with_him():
    hosts = make_listed(2)
    hold(hosts, 2)
    members = (make_member(0), make_member(1), make_member(2, HELD), make_member(3))
    hosts.configure(make_config(3, *members, make_member(4)), 9.0)
    hosts.welcome("uid-3", 9.0)
    assert hosts.due() == 9.0 + JOIN_SECONDS
    members = (make_member(0), make_member(1, DRAINING), make_member(2), make_member(3))
    hosts.configure(make_config(4, *members, make_member(4)), 9.5)
    assert hosts.text == "job-worker-0:2\njob-worker-2:2\njob-worker-3:2\n"


def test_who_has_not_answered_yet_is_listed_when_he_does():
    hosts = make_listed(2)
    hosts.configure(make_config(2, make_member(0), make_member(1), make_member(2, HELD)), 0.0)
    hosts.configure(make_config(3, make_member(0), make_member(1, DRAINING), make_member(2)), 9.0)
    assert hosts.text == "job-worker-0:2\n"
    hosts.welcome("uid-2", 10.0)
    hosts.gather(10.0)
    assert hosts.text == "job-worker-0:2\njob-worker-2:2\n"


def test_who_was_listed_is_never_held_again():
    hosts = make_listed(2)
    hosts.configure(make_config(2, make_member(0), make_member(1, HELD)), 0.0)
    assert hosts.text == "job-worker-0:2\njob-worker-1:2\n"
    assert hosts.members["uid-1"].state is ACTIVE


def test_who_is_held_and_terminates_is_never_listed():
    hosts = make_listed(2)
    hold(hosts, 2)
    hosts.remove("uid-2")
    assert hosts.memory.ready == frozenset()
    hosts.configure(make_config(3, make_member(0), make_member(1), make_member(2)), 9.0)
    hosts.welcome("uid-2", 9.0)
    hosts.gather(99.0)
    assert hosts.text == "job-worker-0:2\njob-worker-1:2\n"
    assert hosts.unlisted == {"uid-2"}


def test_who_is_held_leaves_without_having_been_listed():
    hosts = make_listed(2)
    hold(hosts, 2)
    hosts.configure(make_config(3, make_member(0), make_member(1), make_member(2, DRAINING)), 9.0)
    assert hosts.text == "job-worker-0:2\njob-worker-1:2\n"
    assert hosts.memory.ready == frozenset()
    assert hosts.departures.draining == ["uid-2"]


def test_the_next_broker_knows_who_has_answered():
    hosts = make_listed(2)
    hold(hosts, 2)
    after = make_list(hosts.memory)
    after.configure(make_config(3, make_member(0), make_member(1, DRAINING), make_member(2)), 0.0)
    assert after.text == "job-worker-0:2\njob-worker-2:2\n"
    forgot = make_list(hosts.memory)
    forgot.configure(make_config(3, make_member(0), make_member(1)), 0.0)
    assert forgot.memory.ready == frozenset()
