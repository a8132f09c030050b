"""What is said of a node's end, and which of several words counts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from et_kube.notices import (
    LEAVING_AT,
    LEAVING_REASON,
    MAX_WORDS,
    NoticeKind,
    Row,
    Sign,
    find_misreading,
    find_notice,
    read_annotation,
)

AT = datetime(2026, 1, 1, tzinfo=UTC)


def make_node(*taints: dict[str, Any], conditions: Any = (), **annotations: Any) -> dict[str, Any]:
    words = {"at": LEAVING_AT, "reason": LEAVING_REASON}
    return {
        "metadata": {"annotations": {words.get(key, key): annotations[key] for key in annotations}},
        "spec": {"taints": list(taints)},
        "status": {"conditions": list(conditions)},
    }


def test_nothing_is_said_of_a_node_of_which_nothing_is_said():
    assert find_notice({}) is None
    assert find_notice({"metadata": {"annotations": {"a": "b"}}}) is None


def test_what_is_firm_counts_before_what_is_not_and_of_two_the_one_that_ends_first():
    soft = {"key": "aws-node-termination-handler/scheduled-maintenance"}
    itn = {"key": "aws-node-termination-handler/spot-itn", "timeAdded": "2026-01-01T00:00:00Z"}
    found = find_notice(make_node(soft, itn))
    assert found is not None
    assert (found.kind, found.deadline) == (NoticeKind.FIRM, AT + timedelta(seconds=120))
    earlier = find_notice(make_node(soft, itn, at="2026-01-01T00:01:00Z"))
    assert earlier is not None
    assert earlier.source == f"annotation {LEAVING_AT}"
    later = find_notice(make_node(soft, itn, at="2026-01-02T00:00:00Z"))
    assert later == found


def test_the_autoscaler_tells_when_it_began_and_not_when_it_ends():
    taint = {"key": "ToBeDeletedByClusterAutoscaler", "value": "1767225600"}
    found = find_notice(make_node(taint))
    assert found is not None
    assert (found.since, found.deadline) == (AT, None)


def test_the_time_of_a_condition_counts_for_a_row_with_a_lead():
    row = Row(Sign.CONDITION, "Reclaimed", "the rack", NoticeKind.FIRM, timedelta(minutes=1))
    condition = {
        "type": "Reclaimed",
        "status": "True",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    found = find_notice(make_node(conditions=[condition]), [row])
    assert found is not None
    assert found.deadline == AT + timedelta(minutes=1)


def test_an_annotation_of_ones_own_has_the_reason_of_its_row():
    row = Row(Sign.ANNOTATION, "example.com/ends", "the rack", NoticeKind.SOFT)
    found = find_notice(make_node(**{"example.com/ends": "2026-01-01T00:00:00Z"}), [row])
    assert found is not None
    assert (str(found), found.kind) == ("the rack (annotation example.com/ends)", NoticeKind.SOFT)
    assert find_misreading(make_node(**{"example.com/ends": "soon"}), [row])


def test_a_row_of_ones_own_says_of_what_kind_a_moment_is():
    row = Row(Sign.ANNOTATION, LEAVING_AT, "the owner may want it", NoticeKind.SOFT)
    found = find_notice(make_node(at="2026-01-01T00:00:00Z"), [row])
    assert found is not None
    assert (found.reason, found.kind, found.deadline) == (row.reason, NoticeKind.SOFT, AT)
    found = find_notice(make_node(at="2026-01-01T00:00:00Z", reason="a new disk"), [row])
    assert found is not None
    assert (found.reason, found.kind) == ("a new disk", NoticeKind.SOFT)


def test_whoever_says_it_may_say_why():
    found, problem = read_annotation(
        make_node(at="2026-01-01T00:00:00Z", reason="a\nnew disk")["metadata"]
    )
    assert problem == ""
    assert found is not None
    assert found.reason == "a new disk"


ODD = st.one_of(
    st.text(),
    st.integers(),
    st.none(),
    st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.isoformat()),
    st.text(alphabet="0123456789-:TZ+.", max_size=2000),
)


@pytest.mark.long
@given(st.lists(st.sampled_from(["a", "ToBeDeletedByClusterAutoscaler"])), ODD, ODD, ODD)
def test_whatever_is_written_there_is_a_moment_within_bounds_or_said_in_few_words(
    keys: list[str], value: Any, words: Any, added: Any
):
    taints = [{"key": key, "value": str(value), "timeAdded": added} for key in keys]
    node = make_node(*taints, at=value, reason=words)
    found, problem = find_notice(node), find_misreading(node)
    assert len(problem) < MAX_WORDS * 8
    if problem:
        assert found is None or found.source.startswith("taint")
    if found is not None:
        assert len(found.reason) <= MAX_WORDS
        moments = [moment for moment in (found.deadline, found.since) if moment is not None]
        for moment in moments:  # what is added to it, or taken away, is a moment too
            assert moment - timedelta(days=365 * 100) < moment + timedelta(days=365 * 100)
