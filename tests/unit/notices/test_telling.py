"""On one's own node, under a policy, and never more taken back than was said."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from et_kube.errors import Conflict, Refused, ServerFailed
from et_kube.notices import (
    LEAVING_ADVISED,
    LEAVING_AT,
    LEAVING_REASON,
    choose_notice,
    find_notice,
    list_notices,
)
from et_kube.times import format_time
from et_notices.judging import Word
from et_notices.telling import TRIES, Unheld
from tests.unit.notices.rigs import at, build_node, build_server

WORD = Word(at(120), "AWS takes the spot instance back", at(-60))
SAID = {
    LEAVING_AT: "2026-01-01T00:02:00Z",
    LEAVING_REASON: "AWS takes the spot instance back",
    LEAVING_ADVISED: "2025-12-31T23:59:00Z",
}
OTHERS = {"others": "stay"}


def now() -> datetime:
    return at(0)


async def test_a_word_is_three_annotations_and_taking_it_back_takes_these_alone():
    server = build_server()
    node = build_node(server)
    await node.say(WORD, now)
    assert server.annotations == OTHERS | SAID
    await node.say(Word(advised=at(-60)), now)
    assert server.annotations == OTHERS | {LEAVING_ADVISED: SAID[LEAVING_ADVISED]}
    await node.say(Word(), now)
    assert server.annotations == OTHERS


async def test_a_new_life_takes_back_what_a_former_one_has_said():
    server = build_server()
    await build_node(server).say(WORD, now)
    await build_node(server).say(Word(), now)
    assert server.annotations == OTHERS


async def test_what_the_node_says_is_what_everybody_reads():
    server = build_server()
    await build_node(server).say(WORD, now)
    found = find_notice(server.node)
    assert found is not None
    assert (found.is_firm, found.deadline, found.reason) == (True, at(120), WORD.reason)
    soft = choose_notice(one for one in list_notices(server.node) if not one.is_firm)
    assert soft is not None
    assert (soft.reason, soft.deadline) == ("its cloud advises to leave it", at(-60))


async def test_somebody_elses_word_stands_where_it_ends_no_later_and_is_not_taken_back():
    server = build_server()
    theirs = {LEAVING_AT: format_time(at(60)), LEAVING_REASON: "the rack"}
    server.annotate(theirs)
    node = build_node(server)
    await node.say(WORD, now)
    assert server.annotations == OTHERS | theirs | {LEAVING_ADVISED: SAID[LEAVING_ADVISED]}
    await node.say(Word(), now)
    assert server.annotations == OTHERS | theirs


@pytest.mark.parametrize(
    "theirs", [at(600), at(0) - timedelta(hours=1)], ids=["later", "long over"]
)
async def test_one_that_ends_later_or_is_long_over_gives_way(theirs: datetime):
    server = build_server()
    server.annotate({LEAVING_AT: format_time(theirs)})
    await build_node(server).say(WORD, now)
    assert server.annotations == OTHERS | SAID


async def test_what_somebody_has_changed_since_is_his():
    server = build_server()
    node = build_node(server)
    await node.say(WORD, now)
    server.annotate({LEAVING_AT: format_time(at(60)), LEAVING_REASON: None})
    await node.say(Word(), now)
    assert server.annotations == OTHERS | {LEAVING_AT: format_time(at(60))}


async def test_the_node_is_read_as_it_is_without_our_words():
    server = build_server()
    node = build_node(server)
    await node.say(WORD, now)
    seen = await node.look()
    assert seen["metadata"]["annotations"] == OTHERS
    assert seen["spec"]["providerID"].startswith("aws://")
    assert server.annotations == OTHERS | SAID, "and reading changes nothing"


async def test_without_the_policy_nothing_is_said():
    server = build_server()
    server.is_held = False
    with pytest.raises(Unheld, match="may change all of a node: install the policy"):
        await build_node(server).say(WORD, now)
    assert not server.writes


async def test_a_refusal_that_is_not_the_policys_proves_nothing():
    server = build_server()

    def forbid() -> None:
        raise Refused(403, "Forbidden", 'nodes "node-1" is forbidden: User cannot patch')

    server.strike = forbid
    with pytest.raises(Unheld, match="not by the policy"):
        await build_node(server).prove()


async def test_a_policy_that_keeps_it_from_its_own_node_is_told_of():
    with pytest.raises(Unheld, match="may not say that its node ends"):
        await build_node(build_server(name="another"), "node-1").prove()


async def test_a_server_that_fails_has_neither_proven_nor_disproven():
    server = build_server()

    def fail() -> None:
        raise ServerFailed(500, "", "etcd")

    server.strike = fail
    with pytest.raises(ServerFailed):
        await build_node(server).prove()


@pytest.mark.parametrize(("changes", "is_said"), [(TRIES - 1, True), (TRIES, False)])
async def test_a_node_that_changes_meanwhile_is_looked_at_again_some_times(
    changes: int, is_said: bool
):
    server = build_server()
    node = build_node(server)
    requests = 0

    def change() -> None:
        # a word is tried twice, the node is looked at, and then it is written
        nonlocal requests
        requests += 1
        if requests % 4 == 0 and requests // 4 <= changes:
            server.annotate({"heartbeat": str(requests)})

    server.strike = change
    if is_said:
        await node.say(WORD, now)
    else:
        with pytest.raises(Conflict):
            await node.say(WORD, now)
    assert (LEAVING_AT in server.annotations) == is_said
