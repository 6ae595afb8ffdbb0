import pytest

from sluicegate_operator.fleet.local.local_process import BackOff


def test_a_child_that_ends_again_and_again_waits_longer_up_to_a_limit() -> None:
    back_off = BackOff(first_s=1.0, max_s=30.0)
    assert [back_off.delay_s(exits) for exits in (1, 2, 3, 4, 5, 6, 7)] == [1, 2, 4, 8, 16, 30, 30]


@pytest.mark.parametrize("exits", [100, 10_000])
def test_a_child_that_never_stays_up_is_still_started(exits: int) -> None:
    assert BackOff(first_s=0.001, max_s=30.0).delay_s(exits) == 30
