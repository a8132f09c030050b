"""What every program of ours does around its own tasks."""

from __future__ import annotations

import gc

import pytest

from et_process.running import spare_imports


@pytest.mark.long
def test_what_there_is_at_the_start_is_not_looked_at_again() -> None:
    before = [{}]
    try:
        spare_imports()
        seen = gc.get_objects()
        assert not any(one is before for one in seen)
        assert len(seen) < gc.get_freeze_count()
    finally:
        gc.unfreeze()
