"""Keys are declared once, as typed attributes."""

from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import pytest

from broker_runtime.config import BrokerConfig, ConfigKey, TopicConfig, Type, broker_settings
from broker_runtime.config.declaring.declaration import Config, dynamic, static
from broker_runtime.config.declaring.definition import Key, UpdateMode
from broker_runtime.config.in_force.effective import effective_config

PYTHON_TYPES = {
    Type.BOOLEAN: bool,
    Type.STRING: str,
    Type.INT: int,
    Type.SHORT: int,
    Type.LONG: int,
    Type.DOUBLE: float,
    Type.LIST: tuple[str, ...],
    Type.PASSWORD: str,
}


class Shop(Config):
    shop_doors: Key[int] = static("shop.doors", Type.INT, 2, "How many doors there are.")
    name: Key[str | None] = dynamic("name", Type.STRING, None, "What it is called.")


class Market(Shop):
    stalls: Key[int] = static("stalls", Type.INT, 7, "How many stalls there are.")


def test_an_attribute_is_the_key_of_the_class_and_the_value_of_an_instance() -> None:
    market = Market(name="Fish", stalls=3)
    assert (market.shop_doors, market.name, market.stalls) == (2, "Fish", 3)
    assert (Market.shop_doors.name, Market.shop_doors.default) == ("shop.doors", 2)
    assert Market.name.mode is UpdateMode.CLUSTER_WIDE
    assert list(Market.KEYS) == ["shop.doors", "name", "stalls"]


def test_values_by_name_may_hold_more_than_the_class_declares() -> None:
    market = Market.from_values({"shop.doors": 4, "listener.name.external.stalls": 5, "else": 6})
    assert (market.shop_doors, market.stalls) == (4, 7)


def test_a_config_never_changes() -> None:
    market = Market()
    with pytest.raises(AttributeError, match="stalls cannot be set"):
        market.stalls = 5
    assert market.stalls == 7


def test_an_argument_that_is_no_key_is_refused() -> None:
    with pytest.raises(TypeError, match="Market has no stools"):
        Market(stools=5)  # type: ignore[call-arg]


def test_an_attribute_is_called_like_its_key() -> None:
    # Python 3.11 wraps errors that are raised while a class is created.
    with pytest.raises((RuntimeError, TypeError)):
        type("Odd", (Config,), {"doors": static("shop.doors", Type.INT, 2, "")})


def test_a_key_is_declared_once() -> None:
    with pytest.raises(TypeError, match="declared twice"):
        type("Twice", (Market,), {"stalls": static("stalls", Type.INT, 2, "")})


def declared() -> Iterator[tuple[str, Any, ConfigKey]]:
    for owner in (*BrokerConfig.__mro__, TopicConfig):
        for attribute, annotation in get_type_hints(owner).items():
            if attribute in vars(owner) and isinstance(vars(owner)[attribute], Key):
                yield attribute, get_args(annotation)[0], vars(owner)[attribute]


def test_the_annotation_of_a_key_has_the_type_of_its_values() -> None:
    found = list(declared())
    assert len(found) == len(BrokerConfig.KEYS) + len(TopicConfig.KEYS)
    for attribute, annotation, key in found:
        plain = PYTHON_TYPES[key.type]
        assert annotation == (plain if key.default is not None else plain | None), attribute


def test_defaults_are_values_that_may_be_set() -> None:
    for _, _, key in declared():
        if key.default is not None:
            assert key.parse(str(key.render(key.default))) == key.default, key.name


def test_static_values_and_values_in_force_are_read_alike() -> None:
    settings = broker_settings({"node.id": "1", "max.connections": "9", "log.retention.hours": "2"})
    effective = effective_config(settings, {"max.connections": "8"}, {})
    assert (settings.config.max_connections, effective.config.max_connections) == (9, 8)
    assert settings.config.log_retention_ms == effective.config.log_retention_ms == 7_200_000
    assert settings.with_value(BrokerConfig.broker_rack, "a").config.broker_rack == "a"
