"""Sentences about damaged replicas, of the brokers that answer."""

from collections.abc import Collection
from typing import Any, Self

import pytest

from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.kafka import log_damage
from sluicegate_operator.kafka_admin.errors import KafkaAdminError
from sluicegate_operator.kafka_admin.views import DamagedRange, DamagedReplica, LogDamage
from sluicegate_operator.planning.status.log_damage import BrokerDamage

RANGES = tuple(DamagedRange(first, first + 1, "a checksum") for first in (10, 20, 30, 40))
TOLD = {
    "b0": LogDamage(0, 0, ()),
    "b1": LogDamage(
        1,
        5,
        (
            DamagedReplica("orders", 0, 1, "no other replica has them", RANGES),
            DamagedReplica("orders", 1, 0, "the repair begins soon", RANGES[:1]),
            DamagedReplica("orders", 2, 2, "its newest records are damaged", ()),
        ),
    ),
}


class Admin:
    """Replaces `AdminClient`."""

    def __init__(self, addresses: Collection[tuple[str, int]], **_: Any) -> None:
        ((self._host, _port),) = addresses

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def describe_log_damage(self) -> LogDamage:
        if self._host not in TOLD:
            raise KafkaAdminError(f"{self._host} does not answer")
        return TOLD[self._host]


async def test_each_damaged_replica_is_a_sentence_and_a_broker_that_does_not_answer_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_damage, "AdminClient", Admin)
    brokers = [BrokerAddress(broker_id, f"b{broker_id}", 9092) for broker_id in (0, 1, 2)]
    sentences = (
        "offsets 10 to 11, 20 to 21, 30 to 31 and 1 more ranges of orders-0 cannot be read; no other replica has them",
        "offsets 10 to 11 of orders-1 cannot be read; the repair begins soon",
        "orders-2: its newest records are damaged",
    )
    assert await log_damage.ask_log_damage(brokers) == {0: BrokerDamage(0, ()), 1: BrokerDamage(5, sentences)}
