"""The operator and the broker accept the same order of numbers: the two share no code."""

from collections.abc import Mapping
from itertools import combinations, product

import pytest

from broker_runtime.config import BROKER_KEYS, TOPIC_KEYS, ConfigKey, broker_settings
from broker_runtime.errors import ConfigError
from sluicegate_operator.api.configs.config_orders import BROKER_ORDERS, TOPIC_ORDERS, Order

KEYS = sorted(BROKER_ORDERS[0].defaults)


def problem(config: dict[str, str]) -> str | None:
    """The error of a broker with this configuration; None if it is valid."""
    try:
        broker_settings({"node.id": "1", **config})
    except ConfigError as error:
        return str(error)
    return None


def refused(config: dict[str, str]) -> bool:
    return any(order.wrong(config) for order in BROKER_ORDERS)


@pytest.mark.parametrize(("orders", "keys"), [(BROKER_ORDERS, BROKER_KEYS), (TOPIC_ORDERS, TOPIC_KEYS)])
def test_defaults_are_the_brokers(orders: tuple[Order, ...], keys: Mapping[str, ConfigKey]) -> None:
    for order in orders:
        assert order.defaults == {key: keys[key].default for chain in order.chains for key in chain}
        assert not order.wrong({})


@pytest.mark.parametrize("key", KEYS)
def test_one_number_is_refused_where_the_broker_refuses_it(key: str) -> None:
    numbers = {number + more for number in BROKER_ORDERS[0].defaults.values() for more in (-1, 0, 1)} - {-1, 0}
    for config in ({key: str(number)} for number in numbers):
        assert refused(config) == (problem(config) is not None), config


def test_two_numbers_are_refused_where_the_broker_refuses_them() -> None:
    for low, high in combinations(KEYS, 2):
        for one, other in product(("1000", "15000", "45000", "60000"), repeat=2):
            config = {low: one, high: other}
            assert refused(config) == (problem(config) is not None), config


def test_an_order_ignores_values_that_are_not_numbers() -> None:
    assert not BROKER_ORDERS[0].wrong({"group.consumer.session.timeout.ms": "soon"})
