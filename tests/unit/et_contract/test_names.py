"""Names that both sides read back."""

from __future__ import annotations

import pytest

from et_contract.names import build_report_key, read_report_epoch


@pytest.mark.parametrize("epoch", [1, 10, 10**9 - 1])
def test_the_key_of_a_report_names_its_epoch(epoch: int):
    assert read_report_epoch(build_report_key(epoch)) == epoch


@pytest.mark.parametrize("number", ["", "0", "01", "001", "-1", "1 ", "1\n", "\u0663", "1" * 10])
def test_an_epoch_has_one_key_and_every_other_one_is_no_reports(number: str):
    assert read_report_epoch(f"report-{number}") == 0
