"""The condition LogsDamaged of a BrokerCluster."""

from sluicegate_operator.planning.status.log_damage import BrokerDamage, damage_finding


def test_brokers_that_can_read_everything() -> None:
    found = damage_finding({1: BrokerDamage(0, ()), 2: BrokerDamage(0, ())})
    assert (found.type, found.is_true, found.reason) == ("LogsDamaged", False, "NoDamage")
    assert found.message == "2 brokers can read all of their logs"


def test_what_cannot_be_read_is_named_by_broker() -> None:
    sentence = "offsets 15 to 16 of orders-0 cannot be read; the repair begins soon"
    found = damage_finding({2: BrokerDamage(1, (sentence,)), 1: BrokerDamage(0, ())})
    assert (found.is_true, found.reason) == (True, "OffsetsUnreadable")
    assert found.message == f"broker 2: {sentence}. `sluicegate damage list` shows all of them"


def test_a_replica_that_is_not_served_counts_without_ranges() -> None:
    found = damage_finding({1: BrokerDamage(0, ("orders-0: it is not served",))})
    assert found.is_true


def test_many_partitions_are_counted() -> None:
    found = damage_finding({1: BrokerDamage(9, tuple(f"orders-{number}" for number in range(9)))})
    assert "broker 1: orders-4; and 4 more partitions." in found.message
    assert "orders-5" not in found.message
