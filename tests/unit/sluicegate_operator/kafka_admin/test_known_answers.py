"""An answer equal to the previous one is not decoded again; any other one is, from every broker."""

import asyncio
from collections.abc import Mapping

import pytest
from kio.schema.describe_client_quotas.v1.response import (
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from kio.schema.errors import ErrorCode
from kio.static.primitive import f64

from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.kafka_admin.connecting.known_answers import KEPT_MAX_BYTES, KnownAnswers
from sluicegate_operator.kafka_admin.errors import KafkaApiError
from sluicegate_operator.kafka_admin.quotas import describe_all
from sluicegate_operator.planning.limits.limits import IP, QuotaKey, ip_rates
from tests.support.fakes.scripted_peer import NO_THROTTLE, ScriptedPeer

pytestmark = pytest.mark.virtual_time


def told(rates: Mapping[str, float], code: ErrorCode = ErrorCode.none) -> DescribeClientQuotasResponse:
    entries = tuple(
        EntryData(
            entity=(EntityData(entity_type=IP, entity_name=address),),
            values=(ValueData(key="connection_creation_rate", value=f64(rate)),),
        )
        for address, rate in rates.items()
    )
    return DescribeClientQuotasResponse(throttle_time=NO_THROTTLE, error_code=code, error_message=None, entries=entries)


async def test_the_same_answer_of_any_broker_is_read_once_and_another_one_is_read() -> None:
    peer = ScriptedPeer()
    peer.answer(told({"10.0.0.1": 5.0, "10.0.0.2": 6.0}))
    async with AdminClient([("b1", 9092), ("b2", 9092)], connect=peer.connect) as admin:
        first = await admin.broker("b1", 9092).describe_quotas(IP)
        assert first == ip_rates({"10.0.0.1": 5.0, "10.0.0.2": 6.0})
        assert await admin.broker("b2", 9092).describe_quotas(IP) is first
        assert await admin.broker("b1", 9092).describe_quotas(IP, strict=False) is not first, "it was asked otherwise"
        peer.answer(told({"10.0.0.1": 5.0, "10.0.0.2": 7.0}))
        assert await admin.broker("b1", 9092).describe_quotas(IP) == ip_rates({"10.0.0.1": 5.0, "10.0.0.2": 7.0})
        assert first == ip_rates({"10.0.0.1": 5.0, "10.0.0.2": 6.0}), "what was given is not changed"


async def test_simultaneous_equal_answers_are_decoded_once() -> None:
    known, exchange, reads = KnownAnswers(), describe_all(IP, strict=True), 0

    async def read(_: object, frame: bytes) -> Mapping[QuotaKey, float]:
        nonlocal reads
        reads += 1
        await asyncio.sleep(0.1)
        return {}

    frames = [number.to_bytes(4, "big") + b"the same answer" for number in range(100)]
    answers = await asyncio.gather(*(known.read(exchange, frame, read) for frame in frames))
    assert all(answer is answers[0] for answer in answers)
    assert reads == 1
    long = frames[0] + bytes(KEPT_MAX_BYTES)
    for _ in range(2):
        await known.read(exchange, long, read)
    assert reads == 3, "what is too long is not kept"


async def test_a_refusal_is_one_each_time_and_takes_nothing_away() -> None:
    peer = ScriptedPeer()
    async with AdminClient([("b1", 9092)], connect=peer.connect) as admin:
        asked: list[Mapping[QuotaKey, float]] = []
        for _ in range(2):
            peer.answer(told({"10.0.0.1": 5.0}))
            asked.append(await admin.broker("b1", 9092).describe_quotas(IP))
            peer.answer(told({}, ErrorCode.cluster_authorization_failed))
            with pytest.raises(KafkaApiError):
                await admin.broker("b1", 9092).describe_quotas(IP)
        assert asked[0] is asked[1]
