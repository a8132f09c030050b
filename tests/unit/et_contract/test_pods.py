"""What a worker's name says, and whose it is."""

from __future__ import annotations

import pytest

from et_contract.pods import MAX_INDEX, build_worker_name, read_own_index


@pytest.mark.parametrize("job", ["job", "a-worker-0", "worker"])
@pytest.mark.parametrize("index", [0, 10, MAX_INDEX])
def test_the_name_of_a_worker_has_its_index(job: str, index: int):
    assert read_own_index(build_worker_name(job, index), job) == index


@pytest.mark.parametrize(
    "name", ["job", "job-worker-", "job-worker-x", "job-worker-07", "other-worker-3"]
)
def test_what_no_worker_of_the_job_is_called_has_no_index(name: str):
    assert read_own_index(name, "job") is None
