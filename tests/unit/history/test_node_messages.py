"""The bytes of the messages that nodes of this project send each other beyond Kafka's: two releases meet in a roll.

A line is never changed: another form is a further version of the message.
"""

from io import BytesIO
from typing import Any
from uuid import UUID

import pytest
from kio.schema.broker_registration.v4 import request as kafkas
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32, i64

from broker_runtime.wire.broker_registration import BrokerRegistrationRequest, RegisteredTag
from kafka_bytes.messages import connection_shares, log_damage
from kafka_bytes.messages.connection_shares import (
    ConnectionSharesRequest,
    ConnectionSharesResponse,
    GrantedShare,
    ReportedLimit,
)
from kafka_bytes.messages.log_damage import (
    AcceptLogLossRequest,
    AcceptLogLossResponse,
    DescribeLogDamageRequest,
    DescribeLogDamageResponse,
    ReplicaDamage,
    ReplicaRangeRequest,
    ReplicaRangeResponse,
    UnreadableRange,
)

HISTORY: list[tuple[Any, str]] = [
    (
        ConnectionSharesRequest(
            broker_id=i32(1),
            broker_epoch=i64(7),
            sequence=i32(3),
            answered=i32(2),
            is_full=True,
            limits=(ReportedLimit(name="broker", rate=i64(100), share=i64(40), demand=i64(55)),),
        ),
        (
            "00000001000000000000000700000003000000020100000001000662726f6b65720000000000000064000000000000002800"
            "00000000000037"
        ),
    ),
    (
        ConnectionSharesResponse(
            error_code=ErrorCode.none,
            verdict=1,
            controller_epoch=i32(4),
            lease_ms=i32(3000),
            brokers=i32(3),
            more_soon=True,
            shares=(GrantedShare(name="broker", rate=i64(100), share=i64(40)),),
        ),
        "0000010000000400000bb8000000030100000001000662726f6b657200000000000000640000000000000028",
    ),
    (
        ReplicaRangeRequest(
            topic_id=UUID(int=5),
            partition=i32(1),
            leader_epoch=i32(2),
            offset=i64(10),
            next_offset=i64(20),
            max_bytes=i32(4096),
        ),
        "000000000000000000000000000000050000000100000002000000000000000a000000000000001400001000",
    ),
    (
        ReplicaRangeResponse(
            error_code=ErrorCode.none,
            log_start_offset=i64(3),
            covered_to=i64(20),
            may_have_gaps=True,
            records=b"records",
        ),
        "0000ffff0000000000000003000000000000001401000000077265636f726473",
    ),
    (DescribeLogDamageRequest(), ""),
    (
        DescribeLogDamageResponse(
            broker_id=i32(1),
            ranges_total=i32(1),
            partitions=(
                ReplicaDamage(
                    topic="orders",
                    partition=i32(1),
                    leader_id=i32(2),
                    repair="asked",
                    ranges=(UnreadableRange(first_offset=i64(4), next_offset=i64(6), reason="checksum"),),
                ),
            ),
        ),
        (
            "00000001000000010000000100066f72646572730000000100000002000561736b6564000000010000000000000004000000"
            "00000000060008636865636b73756d"
        ),
    ),
    (
        AcceptLogLossRequest(topic="orders", partition=i32(1), first_offset=i64(4), next_offset=i64(6)),
        "00066f72646572730000000100000000000000040000000000000006",
    ),
    (AcceptLogLossResponse(error_code=ErrorCode.none, error_message="note"), "000000046e6f7465"),
    (
        BrokerRegistrationRequest(
            broker_id=BrokerId(1),
            cluster_id="cluster",
            incarnation_id=UUID(int=9),
            listeners=(
                kafkas.Listener(name="INTERNAL", host="broker-0", port=9092, security_protocol=i16(0)),  # type: ignore[arg-type]
            ),
            features=(
                kafkas.Feature(name="metadata.version", min_supported_version=i16(1), max_supported_version=i16(20)),
            ),
            rack="rack-1",
            protocol_version_min=i32(1),
            protocol_version_max=i32(7),
            broker_tags=(RegisteredTag(key="zone", value="a"),),
        ),
        (
            "0000000108636c7573746572000000000000000000000000000000090209494e5445524e414c0962726f6b65722d30238400"
            "000002116d657461646174612e76657273696f6e0001001400077261636b2d310001ffffffffffffffff03904e0400000001"
            "914e0400000007924e0902057a6f6e65026100"
        ),
    ),
]


def written(entity: Any) -> bytes:
    buffer = BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


@pytest.mark.parametrize(("message", "content"), HISTORY)
def test_a_message_has_its_bytes_and_is_read_from_them(message: Any, content: str) -> None:
    assert written(message).hex() == content
    found, size = entity_reader(type(message))(bytes.fromhex(content), 0)
    assert (found, size) == (message, len(content) // 2)


def test_every_message_has_a_history() -> None:
    ends = ("Request", "Response")
    kinds = {name for module in (connection_shares, log_damage) for name in vars(module) if name.endswith(ends)}
    assert {type(message).__name__ for message, _ in HISTORY} == {*kinds, "BrokerRegistrationRequest"}
