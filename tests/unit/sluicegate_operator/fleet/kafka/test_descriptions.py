"""The remembered descriptions of brokers."""

from collections.abc import Collection
from typing import Any, Self

import pytest

from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.kafka import descriptions
from sluicegate_operator.kafka_admin.views import BrokerDescription
from sluicegate_operator.planning.registrations.registrations import BrokerWords


class Admin:
    """Replaces `AdminClient`."""

    addresses: Collection[tuple[str, int]] = ()

    def __init__(self, addresses: Collection[tuple[str, int]], **_: Any) -> None:
        Admin.addresses = addresses

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def describe_brokers(self) -> tuple[BrokerDescription, ...]:
        tags = {"broker.id": "0", "broker.version": "0.1.0-sluicegate", "endpoints": "plaintext://b0:9092", "zone": "a"}
        return (
            BrokerDescription(0, "b0", 9092, 1, 3, tags),
            BrokerDescription(1, "", -1, -1, -1, {"rack": "r" * 300}),
        )


async def test_built_in_tags_are_omitted_and_running_brokers_are_asked_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(descriptions, "AdminClient", Admin)
    brokers = [BrokerAddress(0, "b0", 9092, up=False), BrokerAddress(1, "b1", 9092, up=True)]
    assert await descriptions.ask_descriptions(brokers) == {
        0: BrokerWords("0.1.0-sluicegate", 1, 3, {"zone": "a"}),
        1: BrokerWords(None, None, None, {"rack": "r" * 256}),
    }
    assert list(Admin.addresses) == [("b1", 9092), ("b0", 9092)]
