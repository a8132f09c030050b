from __future__ import annotations

from datetime import UTC, datetime, timedelta

from et_kube.resources import CONFIG_MAPS, PODS, Ref
from et_operator.model.keys import JobKey
from et_operator.model.snapshots import REFUSED_LATELY, Refusal
from et_operator.state.answers import TAKEN_FOR, WORDS_KEPT, Answers

KEY = JobKey("team", "train")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
CONFIG = Ref(CONFIG_MAPS, "team", "train-config")


class Book(Answers):
    """Of what a server answers about one job."""

    def __init__(self) -> None:
        self.seen: set[Ref] = set()
        super().__init__(lambda ref: ref in self.seen)

    def refuse(
        self, message: str, generation: int = 1, name: str = "", *, is_meant: bool = False
    ) -> Refusal:
        refusal = Refusal(message, 1, NOW, generation, name, is_meant=is_meant)
        self.note_writes(KEY, "u", (), {PODS: refusal})
        return self.find(KEY, "u").refusals[PODS]


def test_a_failure_that_is_told_in_other_words_each_time_is_renewed_now_and_then_only() -> None:
    book = Book()
    told = [book.refuse(f"cause {n}") for n in range(1, WORDS_KEPT + 2)]
    assert [refusal.count for refusal in told] == list(range(1, WORDS_KEPT + 2))
    assert {refusal.message for refusal in told[:WORDS_KEPT]} == {"cause 1"}
    assert told[-1].message == f"cause {WORDS_KEPT + 1}"
    assert book.refuse("no", is_meant=True).message == "no"


def test_what_the_author_has_changed_or_the_server_has_done_is_refused_for_the_first_time() -> None:
    book = Book()
    assert [book.refuse("no").count, book.refuse("no").count] == [1, 2]
    assert book.refuse("no", generation=2).count == 1
    assert book.refuse("no", 2, "another object").count == 1
    assert book.refuse("no", 2, "another object").count == 2
    book.note_writes(KEY, "u", {PODS}, {})
    assert book.find(KEY, "u").is_empty


def test_what_is_refused_is_counted_by_itself() -> None:
    """A quota that has refused growth many times may have the room of a launcher that was lost."""
    book = Book()
    counts = []
    for name in ("train-worker-8", "train-worker-8", "train-launcher-r1", "train-launcher-r1"):
        book.note_writes(KEY, "u", (), {PODS: Refusal("quota", 1, NOW, 1, name)})
        counts.append(book.find(KEY, "u").refusals[PODS].count)
    assert counts == [1, 2, 1, 2]


def test_another_job_of_the_name_begins_with_no_answers() -> None:
    book = Book()
    book.refuse("no")
    assert book.find(KEY, "another").is_empty


def test_a_name_is_somebody_elses_for_so_long_or_until_it_is_seen_to_go() -> None:
    book = Book()
    book.note_taken(KEY, "u", CONFIG, NOW, is_in_sight=False)
    assert book.find_waiting("team", "train-config") == {KEY}
    book.expire(KEY, NOW + TAKEN_FOR - timedelta(seconds=1))
    assert book.find(KEY, "u").taken_names
    book.expire(KEY, NOW + TAKEN_FOR)
    assert (book.find(KEY, "u").is_empty, book.find_waiting("team", "train-config")) == (True, ())

    book.seen = {CONFIG}
    book.note_taken(KEY, "u", CONFIG, NOW, is_in_sight=True)
    book.expire(KEY, NOW)
    assert book.find(KEY, "u").taken_names
    book.seen = set()
    book.expire(KEY, NOW)
    assert book.find(KEY, "u").is_empty


def test_a_refusal_is_believed_for_so_long_and_none_from_the_future() -> None:
    for later in (REFUSED_LATELY, -timedelta(seconds=1)):
        book = Book()
        book.refuse("no")
        book.expire(KEY, NOW + REFUSED_LATELY - timedelta(seconds=1))
        assert book.find(KEY, "u").refusals
        book.expire(KEY, NOW + later)
        assert book.find(KEY, "u").is_empty
