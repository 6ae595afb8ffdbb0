"""The brokers that a roll may try to restart together, and their order."""

import pytest

from sluicegate_operator.planning.rolls.roll_groups import BrokerGroup, broker_groups

RACKS = {0: "b", 1: "a", 2: "b", 3: "a", 4: None, 5: "c"}


def tried(strategy: str, pending: set[int]) -> list[str]:
    assert strategy in ("Broker", "Rack")
    return [str(group) for group in broker_groups(strategy, pending, RACKS)]  # type: ignore[arg-type]


def test_by_broker_each_one_restarts_alone_whatever_its_rack() -> None:
    assert tried("Broker", {3, 1, 0}) == ["broker 0", "broker 1", "broker 3"]


def test_by_rack_whole_racks_are_tried_first_and_then_each_broker() -> None:
    assert tried("Rack", {0, 1, 2, 3, 4, 5, 6}) == [
        "rack a (brokers 1, 3)",
        "rack b (brokers 0, 2)",
        *(f"broker {broker_id}" for broker_id in range(7)),
    ]


@pytest.mark.parametrize("pending", [{4}, {4, 6}, {1, 5}], ids=["none", "none and not registered", "one of each"])
def test_brokers_without_a_rack_or_alone_in_theirs_restart_alone(pending: set[int]) -> None:
    assert tried("Rack", pending) == tried("Broker", pending)


def test_only_those_of_a_rack_that_need_a_restart_are_taken() -> None:
    assert broker_groups("Rack", {1, 3, 0}, RACKS)[0] == BrokerGroup(frozenset({1, 3}), "a")
