"""The two documents: what is written is read again, and what would do harm is refused in words."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from et_contract.documents import (
    KNOWS_HELD,
    MAX_NOTICE,
    MAX_WORKERS,
    HostConfig,
    InvalidDocument,
    Member,
    MemberState,
    Report,
    ScriptResult,
    SessionExit,
    ToldNotice,
    decode_config,
    decode_report,
    encode_config,
    encode_report,
)
from launcher.broker.facts import ALL_EXITS_KEPT, EXITS_KEPT
from tests.counting import count_steps

ONE = Member("w-0", "uid-0", 1, MemberState.ACTIVE, "main", ips=("10.0.0.1", "fd00::1"))


def make_config(*members: Member) -> HostConfig:
    return HostConfig("job", "ns", "job-uid", 1, 1, 1, 1, members)


def test_a_name_may_come_again_when_the_former_is_gone():
    config = make_config(replace(ONE, state=MemberState.GONE), replace(ONE, uid="uid-1"))
    assert decode_config(encode_config(config)) == config


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (replace(ONE, uid="uid-1"), "listed twice: 'w-0'"),
        (replace(ONE, uid="uid-1", state=MemberState.DRAINING), "listed twice: 'w-0'"),
        (replace(ONE, name="w-1"), "a uid is there twice"),
        (replace(ONE, name="w_1", uid="uid-1"), "not the name of a host: 'w_1'"),
        (replace(ONE, name="w-1", uid="uid-1", slots=0), "cannot have 0 slots"),
        (replace(ONE, name="w-1", uid="uid-1", ips=("10.0.0.256",)), "10.0.0.256"),
        (replace(ONE, name="w-1", uid="uid-1", ips=("fe80::1%eth0",)), "of one node alone"),
    ],
)
def test_members_that_would_make_a_bad_list_are_refused(other: Member, reason: str):
    with pytest.raises(InvalidDocument, match=reason):
        decode_config(encode_config(make_config(ONE, other)))


@pytest.mark.long
def test_of_more_addresses_than_there_can_be_none_is_read():
    """One who may write ConfigMaps had 170,000 of them read at each change of his."""
    text = encode_config(make_config(replace(ONE, ips=("fd00::1",) * 60_000)))

    def read() -> None:
        with suppress(InvalidDocument):
            decode_config(text)
            pytest.fail("it is read")

    assert count_steps(read) < 2000
    largest = [
        replace(ONE, name=f"w-{number}", uid=f"uid-{number}", ips=("10.0.0.1", "fd00::1"))
        for number in range(4 * MAX_WORKERS)
    ]
    assert len(decode_config(encode_config(make_config(*largest))).members) == len(largest)


MANY = 30_000


@pytest.mark.parametrize(
    "changes",
    [
        {"members": [{}] * MANY},
        {"notices": [{"pods": []}] * MANY},
        {"notices": [{"pods": ["a"] * MANY}]},
    ],
    ids=["members", "notices", "pods of a notice"],
)
def test_of_more_members_or_notices_than_there_can_be_none_is_read(changes: dict[str, Any]):
    """What others write there is read in each pass over its job, and other jobs wait for that."""
    text = json.dumps(json.loads(encode_config(make_config(ONE))) | changes)
    with pytest.raises(InvalidDocument, match="than there can be"):
        decode_config(text)


NOTICE = ToldNotice("AWS takes it back", "taint spot-itn", "2026-01-31T12:00:00Z", ("uid-0", "l"))


def test_notices_are_read_as_they_were_written_and_are_not_there_where_nobody_has_any():
    config = replace(
        make_config(ONE),
        notices=(NOTICE, replace(NOTICE, deadline="", pods=("uid-1",))),
        notice_signal="SIGUSR1",
    )
    assert decode_config(encode_config(config)) == config
    former = json.loads(encode_config(make_config(ONE)))
    assert not {"notices", "noticeSignal"} & former.keys()
    assert decode_config(json.dumps(former)) == make_config(ONE)


@pytest.mark.parametrize(
    "changes",
    [
        {"deadline": "tomorrow"},
        {"deadline": "2026-01-31T12:00:00.5Z"},
        {"deadline": "2026-01-31T12:00:00+01:00"},
        {"deadline": 5},
        {"pods": None},
        {"pods": [5]},
        {"reason": ...},
        {"source": ...},
    ],
)
def test_a_notice_that_is_none_is_refused(changes: dict[str, Any]):
    whole = json.loads(encode_config(replace(make_config(ONE), notices=(NOTICE,))))
    changed = whole["notices"][0] | changes
    whole["notices"] = [{key: value for key, value in changed.items() if value is not ...}]
    with pytest.raises(InvalidDocument):
        decode_config(json.dumps(whole))


def test_words_of_a_notice_are_bounded_and_a_signal_that_is_not_known_is_none():
    whole = json.loads(encode_config(replace(make_config(ONE), notices=(NOTICE,))))
    whole["notices"][0] |= {"reason": "\x1b[2J" + "x" * 5000, "source": "\ud800" * 5000}
    for signal in ("SIGKILL", 9, ["SIGUSR1"], None):
        config = decode_config(json.dumps(whole | {"noticeSignal": signal}))
        assert config.notice_signal == ""
        [notice] = config.notices
        assert (len(notice.reason), len(notice.source)) == (MAX_NOTICE, MAX_NOTICE)
        assert notice.reason.startswith("xxx")
        assert decode_config(encode_config(config)) == config


@pytest.mark.parametrize("text", ["[" * 100_000, '{"epoch": Infinity}', "[]", "{}", '"'])
def test_what_is_no_document_is_refused(text: str):
    with pytest.raises(InvalidDocument):
        decode_report(text)
    with pytest.raises(InvalidDocument):
        decode_config(text)


REPORT: dict[str, Any] = {"epoch": 1, "launcherUid": "l", "brokerStart": 1}
DEEP = {"a": json.loads("[" * 600 + "]" * 600)}


@pytest.mark.parametrize(
    "fields",
    [
        {"epoch": 10**19},
        {"epoch": -1},
        {"observedGeneration": 2**63 - 1},
        {"ended": 2**31},
        {"ended": 1e300},
        {"scripts": {"s": {"code": 10**12, "output": ""}}},
        {"exits": {"u": [{"session": "s", "code": None}]}},
        {"exits": {"u": [{"session": "s", "code": DEEP}]}},
        {"listed": 5},
        {"unlisted": 5},
        {"unlisted": [2**53]},
        {"ready": 5},
        {"ready": [2**53]},
        {"usedUp": 5},
        {"usedUp": {"u": None}},
        {"usedUp": {"u": 2**31}},
        {"usedUp": {"u": DEEP}},
        {"launcherUid": DEEP},
        {"problems": ["a"]},
        {"problems": "x" * 2**20},
    ],
)
def test_a_number_or_text_that_no_status_could_hold_is_refused(fields: dict[str, Any]):
    with pytest.raises(InvalidDocument):
        decode_report(json.dumps(REPORT | fields))


def test_words_in_a_report_are_bounded_and_can_be_shown():
    odd = "\ud800\x1b[2J" + "x" * 5000
    problems = {f"{number:03}{odd}": odd for number in range(500)}
    exits = {"u": [{"session": "s", "code": 1, "reason": odd}]}
    scripts = {"s": {"code": 1, "output": odd}}
    text = json.dumps(REPORT | {"problems": {}, "exits": exits, "scripts": scripts})
    report = decode_report(text)
    assert report.exits["u"][0].reason.startswith("\ufffdxxx")
    assert (len(report.exits["u"][0].reason), len(report.scripts["s"].output)) == (1024, 4096)
    few = {key: problems[key][:900] for key in sorted(problems)[:100]}
    report = decode_report(json.dumps(REPORT | {"problems": few}))
    assert len(report.problems) == 20
    for reason, message in report.problems.items():
        assert len(reason) <= 64
        assert message.encode().startswith("\ufffdxxx".encode())


@pytest.mark.parametrize(
    "part",
    [
        {"scripts": {str(n): {"code": 0, "output": ""} for n in range(5000)}},
        {"exits": {str(n): [] for n in range(5000)}},
        {"exits": {"uid": [{"session": "s", "code": 0}] * 5000}},
        {"problems": {str(n): "" for n in range(5000)}},
        {"usedUp": {str(n): 1 for n in range(5000)}},
    ],
    ids=["scripts", "workers", "ends", "problems", "used up"],
)
def test_a_report_that_tells_more_than_any_broker_keeps_is_none(part: dict[str, Any]) -> None:
    body = {"epoch": 1, "launcherUid": "l", "brokerStart": 1}
    assert decode_report(json.dumps(body)).epoch == 1
    with pytest.raises(InvalidDocument, match="more ends, results and problems"):
        decode_report(json.dumps({**body, **part}))


@pytest.mark.parametrize(("is_told", "is_done"), [(True, False), (False, True), (None, True)])
def test_whose_end_it_was_is_read_as_it_was_written(*, is_told: bool | None, is_done: bool) -> None:
    report = decode_report(encode_report(Report(1, "l", 1, ended=0, is_told_to_end=is_told)))
    assert (report.is_told_to_end, report.is_done) == (is_told, is_done)


def test_a_former_broker_knows_nobody_who_is_held_and_says_so_of_itself() -> None:
    former = decode_report(json.dumps({k: v for k, v in REPORT.items() if k != "version"}))
    assert former.version < KNOWS_HELD
    assert former.ready == frozenset()
    told = decode_report(encode_report(replace(former, ready=frozenset({"u"}), version=KNOWS_HELD)))
    assert (told.version, told.ready) == (KNOWS_HELD, {"u"})
    assert Report(1, "l", 1).version >= KNOWS_HELD


def test_a_former_broker_says_of_nobody_that_he_is_used_up() -> None:
    assert decode_report(json.dumps(REPORT)).used_up == {}
    assert "usedUp" not in encode_report(Report(1, "l", 1)), "nor is it written for nobody"


def test_an_end_that_a_former_broker_told_was_the_commands_own() -> None:
    body = {"epoch": 1, "launcherUid": "l", "brokerStart": 1, "ended": 0}
    report = decode_report(json.dumps(body))
    assert (report.is_done, report.is_told_to_end) == (True, None)


def test_the_longest_report_of_a_broker_is_read() -> None:
    ends = tuple(SessionExit(f"s{n}", 0) for n in range(EXITS_KEPT))
    report = Report(
        1,
        "l",
        1,
        exits={f"u{n}": ends for n in range(ALL_EXITS_KEPT // EXITS_KEPT)},
        scripts={str(n): ScriptResult(0, "") for n in range(64)},
        used_up={f"u{n}": 137 for n in range(2 * MAX_WORKERS)},
    )
    assert decode_report(encode_report(report)) == report
