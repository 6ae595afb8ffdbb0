"""The configuration of one group in force; the controller's tests check its allowed values."""

import pytest

from broker_runtime.config.keys.group_resource import GROUP_KEYS, GroupTimes, group_resource_problem, group_times
from broker_runtime.config.keys.groups import ConsumerGroupConfig

BROKER = ConsumerGroupConfig()
SESSION, HEARTBEAT, ASSIGNMENT = GROUP_KEYS


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({}, GroupTimes(45_000, 5_000, 1_000)),
        ({SESSION: "50000"}, GroupTimes(50_000, 5_000, 1_000)),
        ({HEARTBEAT: "7000", ASSIGNMENT: "0"}, GroupTimes(45_000, 7_000, 0)),
        ({"share.session.timeout.ms": "50000", "of.another.version": "1"}, GroupTimes(45_000, 5_000, 1_000)),
        ({SESSION: "long", HEARTBEAT: "99999999999999"}, GroupTimes(45_000, 5_000, 1_000)),
    ],
)
def test_the_values_in_force(own: dict[str, str], expected: GroupTimes) -> None:
    assert group_times(BROKER, own) == expected


def test_a_value_beyond_the_bounds_of_this_broker_counts_as_the_bound() -> None:
    own = {SESSION: "60000", HEARTBEAT: "14000", ASSIGNMENT: "14000"}
    assert group_resource_problem(own, BROKER) is None
    narrow = ConsumerGroupConfig(
        group_consumer_max_session_timeout_ms=46_000,
        group_consumer_max_heartbeat_interval_ms=6_000,
        group_consumer_max_assignment_interval_ms=2_000,
    )
    assert group_times(narrow, own) == GroupTimes(46_000, 6_000, 2_000)
