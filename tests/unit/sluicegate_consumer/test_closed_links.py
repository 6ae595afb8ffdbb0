"""Connections to brokers that are closed while they are opened."""

import asyncio
from typing import Self

import pytest

from kafka_bytes.push.messages import Broker
from sluicegate_consumer.brokers import BrokerLink, Brokers
from sluicegate_consumer.config import Settings
from sluicegate_consumer.connections.closing import ClosingConnections
from sluicegate_consumer.connections.connection import RequestConnection
from sluicegate_consumer.wire.fields import INT16, INT32
from sluicegate_consumer.wire.kafka import FETCH, Request

pytestmark = pytest.mark.virtual_time

VERSIONS = INT16.pack(0) + INT32.pack(1) + INT16.pack(FETCH) + INT16.pack(4) + INT16.pack(11)


class _Slow(RequestConnection):
    """Takes a second for each answer."""

    def __init__(self) -> None:
        self.ended = False
        self._asked = {}

    @classmethod
    async def open(cls, host: str, port: int, settings: Settings, closing: ClosingConnections | None = None) -> Self:
        opened.append(cls())
        return opened[-1]  # type: ignore[return-value]

    async def ask(self, request: Request, timeout_s: float) -> memoryview:
        await asyncio.sleep(1.0)
        return memoryview(VERSIONS)

    def close(self) -> None:
        self.ended = True


opened: list[_Slow] = []


async def test_a_connection_opened_during_the_close_is_closed_and_no_other_is_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sluicegate_consumer.brokers.RequestConnection", _Slow)
    brokers = Brokers([("k1", 9092)], Settings())
    brokers.learn([Broker(1, "k1", 9092)])
    link = brokers.link(1)
    assert isinstance(link, BrokerLink)
    dialling = asyncio.create_task(link.ready())
    await asyncio.sleep(0.5)
    brokers.learn([Broker(1, "elsewhere", 9092)])
    with pytest.raises(ConnectionResetError):
        await dialling
    with pytest.raises(ConnectionResetError):
        await link.ready()
    assert [each.ended for each in opened] == [True]
