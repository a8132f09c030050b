"""The two documents: what is written is read again, and what would do harm is refused in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from launcher.documents import (
    HostConfig,
    InvalidDocument,
    Member,
    MemberState,
    decode_config,
    decode_report,
    encode_config,
)

ONE = Member("w-0", "uid-0", 1, MemberState.ACTIVE, "main")


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
    ],
)
def test_members_that_would_make_a_bad_list_are_refused(other: Member, reason: str):
    with pytest.raises(InvalidDocument, match=reason):
        decode_config(encode_config(make_config(ONE, other)))


@pytest.mark.parametrize("text", ["[" * 100_000, '{"epoch": Infinity}', "[]", "{}", '"'])
def test_what_is_no_document_is_refused(text: str):
    with pytest.raises(InvalidDocument):
        decode_report(text)
    with pytest.raises(InvalidDocument):
        decode_config(text)
