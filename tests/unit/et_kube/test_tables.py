import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from et_kube.tables import Entry, Table


def make_entry(
    name: str, uid: str, version: int, value: str = "", namespace: str = "ns"
) -> Entry[str]:
    return Entry((namespace, name), uid, version, value or f"{name}@{version}")


def make_table() -> Table[str]:
    return Table(lambda value: value.split("@")[0])


def test_an_older_version_never_replaces_a_newer_one() -> None:
    table = make_table()
    table.put(make_entry("a", "u1", 5))

    _, is_new = table.put(make_entry("a", "u1", 4))

    assert not is_new
    assert table.find(("ns", "a")) == "a@5"


def test_a_uid_seen_deleted_never_comes_back() -> None:
    table = make_table()
    table.put(make_entry("a", "u1", 5))
    table.remove(("ns", "a"), "u1")

    table.put(make_entry("a", "u1", 6))

    assert table.find(("ns", "a")) is None
    assert table.select("a") == []


def test_the_end_of_a_namesake_leaves_its_successor() -> None:
    table = make_table()
    table.put(make_entry("a", "u2", 9))

    assert table.remove(("ns", "a"), "u1") is None
    assert table.find(("ns", "a")) == "a@9"


def test_a_list_removes_what_it_does_not_hold() -> None:
    table = make_table()
    table.put(make_entry("a", "u1", 5))
    table.put(make_entry("b", "u2", 6))

    changed = table.replace_all("ns", [make_entry("b", "u2", 6)], 7)

    assert changed == ["a@5"]
    assert [entry.value for entry in table] == ["b@6"]


def test_a_list_keeps_what_was_written_after_it_was_taken() -> None:
    table = make_table()
    table.put(make_entry("mine", "u1", 9))

    table.replace_all("ns", [], 7)

    assert table.find(("ns", "mine")) == "mine@9"


def test_a_list_of_one_namespace_says_nothing_about_another() -> None:
    table = make_table()
    table.put(make_entry("a", "u1", 5, namespace="other"))

    table.replace_all("ns", [], 7)

    assert table.find(("other", "a")) == "a@5"


def test_a_table_that_starts_anew_takes_older_versions_and_what_was_deleted() -> None:
    table = make_table()
    table.put(make_entry("a", "u1", 900))
    table.put(make_entry("b", "u2", 901))
    table.remove(("ns", "b"), "u2")
    table.put(make_entry("c", "u3", 902, namespace="other"))

    assert table.clear("ns") == ["a@900"]
    table.replace_all("ns", [make_entry("a", "u1", 500), make_entry("b", "u2", 501)], 502)

    assert sorted(entry.value for entry in table) == ["a@500", "b@501", "c@902"]
    assert table.select("a") == ["a@500"]
    assert table.clear(None) == ["c@902", "a@500", "b@501"]
    assert len(table) == 0
    assert table.select("a") == []


def test_a_list_contradicts_what_was_seen_where_it_shows_what_was_over_when_it_was_read() -> None:
    table = make_table()
    table.put(make_entry("a", "u1", 900))
    table.put(make_entry("b", "u2", 901))
    table.remove(("ns", "b"), "u2", 902)
    table.put(make_entry("c", "u3", 903))
    table.remove(("ns", "c"), "u3", at=1.0)  # nobody told at which version

    older, namesake = make_entry("a", "u1", 500), make_entry("a", "u0", 400)
    deleted, unknown = make_entry("b", "u2", 501), make_entry("c", "u3", 502)

    assert [table.contradicts([e], 10_000, 0.0) for e in (older, namesake, deleted)] == [True] * 3
    assert not table.contradicts([make_entry("a", "u1", 900), unknown], 10_000, 0.0)
    assert table.contradicts([unknown], 10_000, 1.0)  # it was begun when that was missing
    assert not table.contradicts([older, deleted], 899, 0.0)  # it was read before
    has_its_label_again = make_entry("b", "u2", 905)
    assert not table.contradicts([has_its_label_again], 10_000, 0.0)


def test_amending_touches_only_the_same_uid() -> None:
    table = make_table()
    table.put(make_entry("a", "u1", 5))

    assert not table.amend(("ns", "a"), "u2", lambda _: "changed", 0.0)
    assert table.amend(("ns", "a"), "u1", lambda _: "a@amended", 0.0)
    assert table.select("a") == ["a@amended"]


def test_an_index_that_changes_moves_the_object() -> None:
    table = make_table()
    table.put(make_entry("a", "u1", 5, "left@1"))
    table.put(make_entry("a", "u1", 6, "right@2"))

    assert table.select("left") == []
    assert table.select("right") == ["right@2"]


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["put", "remove"]),
        st.sampled_from(["a", "b"]),
        st.sampled_from(["u1", "u2", "u3"]),
        st.integers(1, 9),
    ),
    max_size=30,
)


@pytest.mark.long
@given(EVENTS)
def test_whatever_the_order_of_events_index_and_places_agree(
    events: list[tuple[str, str, str, int]],
) -> None:
    table = make_table()
    dead: set[str] = set()
    for kind, name, incarnation, version in events:
        uid = f"{name}-{incarnation}"
        if kind == "put":
            table.put(make_entry(name, uid, version))
        else:
            table.remove(("ns", name), uid)
            dead.add(uid)

    found = sorted(entry.value for entry in table)
    assert found == sorted(value for name in "ab" for value in table.select(name))
    assert dead.isdisjoint(entry.uid for entry in table)


def test_what_is_made_of_many_is_made_anew_once_one_of_them_has_changed() -> None:
    table, made = Table[str](lambda value: value.split("@")[0][0]), []

    def join(values: list[str]) -> str:
        made.append(values)
        return ",".join(values)

    def ask() -> str:
        return table.derive("a", join)

    assert [ask(), ask()] == ["", ""]
    made.clear()
    table.put(make_entry("a1", "u1", 5, "a1"))
    table.put(make_entry("a2", "u2", 6, "a2"))
    table.put(make_entry("b1", "u3", 7, "b1"))
    assert [ask(), ask()] == ["a1,a2", "a1,a2"]
    table.put(make_entry("a1", "u1", 8, "a1"))  # as it was
    table.put(make_entry("b1", "u3", 9, "b2"))  # another's
    assert (ask(), len(made)) == ("a1,a2", 1)
    table.put(make_entry("a1", "u1", 10, "a3"))
    assert ask() == "a3,a2"
    table.put(make_entry("a1", "u1", 11, "b3"))
    assert ask() == "a2"
    table.put(make_entry("a1", "u1", 12, "a4"))
    table.amend(("ns", "a2"), "u2", lambda value: f"{value}!", 1.0)
    assert ask() == "a4,a2!"
    table.remove(("ns", "a1"), "u1", 13)
    assert ask() == "a2!"
    table.clear(None)
    assert ask() == ""


def test_what_is_made_of_objects_that_are_not_there_is_not_kept() -> None:
    table = make_table()
    tracemalloc.start()
    try:
        for number in range(1000):
            assert table.derive(f"namespace-{number}", len) == 0
        assert tracemalloc.get_traced_memory()[0] < 10_000
    finally:
        tracemalloc.stop()
