"""The keys of group coordinators: Apache Kafka's file has the same meaning here, and conflicts are refused."""

import pytest

from broker_runtime.config import broker_settings
from broker_runtime.config.in_force.effective import effective_config
from broker_runtime.config.keys.groups import GroupConfig, MigrationPolicy, assignment_interval_ms
from broker_runtime.errors import ConfigError

ONE = {"node.id": "1"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"group.min.session.timeout.ms": "7", "group.max.session.timeout.ms": "6"}, "less than or equal to group.max"),
        ({"group.consumer.session.timeout.ms": "60001"}, "less than or equal to group.consumer.max.session.timeout.ms"),
        (
            {"group.consumer.session.timeout.ms": "44999"},
            r"group.consumer.min.session.timeout.ms must be .*\(45000 and",
        ),
        ({"group.consumer.max.session.timeout.ms": "44999"}, "group.consumer.max.session.timeout.ms"),
        ({"group.consumer.heartbeat.interval.ms": "4999"}, "group.consumer.min.heartbeat.interval.ms must be less"),
        ({"group.consumer.heartbeat.interval.ms": "15001"}, "less than or equal to group.consumer.max.heartbeat"),
        (
            {"group.consumer.heartbeat.interval.ms": "45000", "group.consumer.max.heartbeat.interval.ms": "45000"},
            "heartbeat.interval.ms must be less than group.consumer.session.timeout.ms",
        ),
        ({"group.consumer.assignment.interval.ms": "15001"}, "less than or equal to group.consumer.max.assignment"),
        ({"group.consumer.min.assignment.interval.ms": "1001"}, "less than or equal to group.consumer.assignment"),
        ({"group.consumer.assignors": "uniform,sticky"}, "a list of: uniform, range"),
        ({"group.consumer.assignors": ""}, "a list of: uniform, range"),
        ({"group.consumer.migration.policy": "sideways"}, "one of: bidirectional, upgrade, downgrade, disabled"),
        ({"group.coordinator.rebalance.protocols": "classic,push"}, "a list of: classic, consumer"),
        ({"group.coordinator.rebalance.protocols": "consumer"}, "must have classic"),
        ({"offsets.topic.replication.factor": "32768"}, "between 1 and 32767"),
        ({"offsets.retention.minutes": "0"}, "at least 1"),
        ({"group.max.size": "0"}, "at least 1"),
    ],
)
def test_mistakes_are_refused(changes: dict[str, str], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        broker_settings({**ONE, **changes})


def test_the_policy_of_migration_in_any_case() -> None:
    def policy(text: str) -> MigrationPolicy:
        return MigrationPolicy.of(broker_settings({**ONE, "group.consumer.migration.policy": text}).config)

    assert MigrationPolicy.of(GroupConfig()) == policy("BIDIRECTIONAL") == MigrationPolicy(upgrade=True, downgrade=True)
    assert policy("Upgrade") == MigrationPolicy(upgrade=True, downgrade=False)
    assert policy("downgrade") == MigrationPolicy(upgrade=False, downgrade=True)
    assert policy("DISABLED") == MigrationPolicy(upgrade=False, downgrade=False)


@pytest.mark.parametrize(("stored", "in_force"), [("500", 500), ("99", 100), ("2001", 2000)])
def test_a_dynamic_assignment_interval_counts_as_the_bound_that_it_is_beyond(stored: str, in_force: int) -> None:
    bounds = {
        "group.consumer.min.assignment.interval.ms": "100",
        "group.consumer.max.assignment.interval.ms": "2000",
    }
    effective = effective_config(
        broker_settings({**ONE, **bounds}), {"group.consumer.assignment.interval.ms": stored}, {}
    )
    assert effective.ignored == ()
    assert assignment_interval_ms(effective.config) == in_force
