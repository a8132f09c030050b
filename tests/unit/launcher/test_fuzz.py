"""A fixed share of the hostile inputs; `make soak` tries a million."""

from __future__ import annotations

import pytest

from tests.fuzzing import TARGETS, Fuzzer, run


@pytest.mark.long
@pytest.mark.point("fuzz")
def test_hostile_inputs_meet_the_promised_errors_and_no_others():
    assert sum(done.inputs for done in run(20_000, seed=1)) == 20_000


def test_an_input_that_breaks_a_promise_is_named():
    def fail(_fuzzer: Fuzzer) -> None:
        raise RuntimeError("not promised")

    with pytest.raises(RuntimeError) as caught:
        run(1, 5, ((fail, 100),))
    assert caught.value.__notes__ == ["input 5/fail/0"]
    assert sum(share for _, share in TARGETS) == 100
