"""DescribeLogDamage and AcceptLogLoss: the operator's messages are the broker's, byte for byte."""

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from broker_runtime.errors import ErrorCode
from broker_runtime.wire.messages import decode_request, encode_response_body
from broker_runtime.wire.protocol_versions import HISTORY
from kafka_bytes.own_keys import ACCEPT_LOG_LOSS, DESCRIBE_LOG_DAMAGE
from sluicegate_operator.kafka_admin import log_damage
from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.kafka_admin.errors import KafkaApiError, UnsupportedApiError
from sluicegate_operator.kafka_admin.views import DamagedRange, DamagedReplica, LogDamage
from tests.support.fakes.scripted_peer import ScriptedPeer, framed

pytestmark = pytest.mark.virtual_time


def answering(api_key: int, body: bytes) -> ScriptedPeer:
    peer = ScriptedPeer()
    peer.script(api_key, lambda request: framed(request.correlation_id, body))
    return peer


def body_of(peer: ScriptedPeer) -> memoryview:
    frame = peer.requests[-1].frame
    return memoryview(frame)[10 + int.from_bytes(frame[8:10], "big") :]


@pytest.mark.parametrize(("leader_id", "leader"), [(1, 1), (-1, None)])
async def test_a_broker_describes_its_damage(leader_id: int, leader: int | None) -> None:
    ranges = [{"first_offset": 15, "next_offset": 17, "reason": "a checksum"}]
    repair = "the repair begins soon"
    part = {"topic": "orders", "partition": 3, "leader_id": leader_id, "repair": repair, "ranges": ranges}
    content = {"broker_id": 1, "ranges_total": 7, "partitions": [part]}
    peer = answering(DESCRIBE_LOG_DAMAGE, encode_response_body(DESCRIBE_LOG_DAMAGE, 0, content))
    async with AdminClient([("b1", 9092)], connect=peer.connect) as admin:
        told = await admin.describe_log_damage()
    replica = DamagedReplica("orders", 3, leader, "the repair begins soon", (DamagedRange(15, 16, "a checksum"),))
    assert told == LogDamage(1, 7, (replica,))
    assert decode_request(DESCRIBE_LOG_DAMAGE, 0, body_of(peer)) is not None


async def test_a_loss_is_accepted_by_its_first_and_last_offset() -> None:
    peer = answering(ACCEPT_LOG_LOSS, encode_response_body(ACCEPT_LOG_LOSS, 0, {"error_code": ErrorCode.NONE}))
    async with AdminClient([("b1", 9092)], connect=peer.connect) as admin:
        await admin.accept_log_loss("orders", 3, 15, 16)
    asked = decode_request(ACCEPT_LOG_LOSS, 0, body_of(peer))
    assert (asked.topic, asked.partition, asked.first_offset, asked.next_offset) == ("orders", 3, 15, 17)


async def test_a_refusal_has_the_brokers_words() -> None:
    refused = {"error_code": ErrorCode.INVALID_REQUEST, "error_message": "that is 15 to 16"}
    peer = answering(ACCEPT_LOG_LOSS, encode_response_body(ACCEPT_LOG_LOSS, 0, refused))
    async with AdminClient([("b1", 9092)], connect=peer.connect) as admin:
        with pytest.raises(KafkaApiError, match="that is 15 to 16") as told:
            await admin.accept_log_loss("orders", 3, 15, 15)
    assert told.value.code == KioErrorCode.invalid_request


async def test_a_broker_of_an_older_release_does_not_serve_it() -> None:
    peer = answering(DESCRIBE_LOG_DAMAGE, b"")
    async with AdminClient([("b1", 9092)], connect=peer.connect) as admin:
        with pytest.raises(UnsupportedApiError, match="DescribeLogDamage"):
            await admin.describe_log_damage()


def test_what_changes_something_is_not_sent_twice() -> None:
    assert not log_damage.describe().alters
    accepting = log_damage.accept("orders", 0, 1, 2)
    assert accepting.alters
    assert not accepting.repeatable


def test_brokers_serve_it_since_the_protocol_version_that_is_noted() -> None:
    (step,) = [step for step in HISTORY if DESCRIBE_LOG_DAMAGE in step.added]
    assert step.number == log_damage.SINCE_PROTOCOL
