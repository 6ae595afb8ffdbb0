"""A roll that fails in its middle, while the log continues: a smaller batch may need no new segment."""

import errno
from collections.abc import Callable

import pytest

from broker_runtime.config import TopicConfig
from broker_runtime.errors import KafkaError
from tests.support.logs.logs import LogHouse, values_of

_CHANGES_MAX = 50


def _fails_at(number: int, failed: list[int]) -> Callable[[], None]:
    """Fail one change to the disk, the one of this number, for lack of descriptors or space."""
    changes = 0

    def change() -> None:
        nonlocal changes
        changes += 1
        if changes == number:
            failed.append(number)
            raise OSError(errno.EMFILE, "too many open files")

    return change


@pytest.mark.parametrize("how_it_ends", ["stopped", "killed", "power lost"])
def test_nothing_that_follows_a_roll_that_failed_anywhere_is_lost_with_the_next_start(how_it_ends: str) -> None:
    """Previously a new segment without its indexes blocked the log: records behind it were dropped or damaged."""
    for number in range(1, _CHANGES_MAX):
        house = LogHouse(TopicConfig(segment_bytes=1000))
        house.append(b"a" * 500)
        failed: list[int] = []
        house.fs.before_change = _fails_at(number, failed)
        try:
            house.append(b"b" * 600)
        except KafkaError:
            assert failed
        house.fs.before_change = lambda: None
        for value in (b"small", b"c" * 600, b"after"):
            house.append(value)
        appended = values_of(house.log)
        if how_it_ends == "stopped":
            house.restart()
        elif how_it_ends == "killed":
            house.kill()
        else:
            house.log.flush()
            house.lose_power(number)
        assert not house.logs.damaged
        assert values_of(house.log) == appended
        if not failed:
            return
    raise AssertionError("the roll makes more changes than were tried")
