"""A short run of each fuzz target, and a target whose fault only guided inputs reach. `make fuzz` runs for a night."""

from pathlib import Path

import pytest

from tests.fuzz.campaign import campaign, is_guided
from tests.fuzz.table import NAMES

SECONDS_EACH = 2.0
JOBS = 2


@pytest.mark.full
@pytest.mark.timeout(1_500)
def test_no_target_finds_a_fault_in_two_seconds(tmp_path: Path) -> None:
    outcomes = list(campaign(NAMES, SECONDS_EACH, tmp_path, JOBS))
    assert [each.fault for each in outcomes if each.fault is not None] == []
    assert [each.name for each in outcomes if not each.inputs] == []


@pytest.mark.full
@pytest.mark.timeout(300)
def test_a_fault_behind_four_comparisons_is_found(tmp_path: Path) -> None:
    """By chance, one of four thousand million inputs has these bytes: only coverage leads there."""
    (outcome,) = campaign(["planted-fault"], 120.0 if is_guided() else 1.0, tmp_path, 1)
    assert (outcome.fault is not None) is is_guided()
    if outcome.fault is not None:
        assert "the planted fault" in outcome.fault
        (found,) = (tmp_path / "planted-fault").glob("fault-*")
        assert found.read_bytes().startswith(b"\xf0Kq\x01")
