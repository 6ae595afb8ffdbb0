"""A rate of the cluster for a connection group, in virtual time. A group rejects what exceeds its share."""

import pytest

from tests.support.limits.shared_rate_world import World


def settled(rate: int, brokers: int) -> World:
    world = World(1, rate=rate, brokers_count=brokers, of_group=True, clock_spread=0.001)
    world.run(3)
    return world


@pytest.mark.parametrize(("rate", "brokers"), [(1, 3), (3, 9), (10, 9), (300, 3)])
def test_a_group_admits_its_rate_at_whatever_broker_its_clients_connect(rate: int, brokers: int) -> None:
    world = settled(rate, brokers)
    for to in (1, 2, brokers):
        for broker in world.brokers.values():
            broker.attempts_per_s = 3.0 * rate if broker.id == to else 0.0
        begin_s = world.real_ms / 1000
        world.run(33)
        assert world.per_s(begin_s + 3, begin_s + 33) >= 0.9 * rate
    assert world.worst_used <= world.limit
    # Each broker with rejected clients saves one connection.
    assert world.most_in(10) <= max(1.1 * rate * 10, 10 * rate + brokers)


@pytest.mark.parametrize(("rate", "brokers"), [(1, 3), (3, 9), (10, 3), (10, 9)])
def test_a_group_admits_its_rate_if_its_clients_connect_to_all_brokers(rate: int, brokers: int) -> None:
    world = settled(rate, brokers)
    for broker in world.brokers.values():
        broker.attempts_per_s = 2.0 * rate
    world.run(63)
    assert world.per_s(6, 66) >= 0.9 * rate
    assert len({broker for _, broker in world.accepted}) == brokers
    assert world.worst_used <= world.limit
    assert world.most_in(10) <= max(1.1 * rate * 10, 10 * rate + brokers)


@pytest.mark.parametrize("rate", [1, 3])
def test_a_single_client_that_tries_once_in_a_while_is_admitted(rate: int) -> None:
    world = settled(rate, 3)
    world.brokers[2].attempts_per_s = 0.2
    world.run(30)
    assert len(world.accepted) >= 3
