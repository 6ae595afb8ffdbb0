"""BrokerMetadata against a scripted peer, in the bytes of docs/reference/broker-metadata.md."""

import struct

import pytest

from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.kafka_admin.errors import AdminConnectionError, AdminProtocolError, UnsupportedApiError
from sluicegate_operator.kafka_admin.views import BrokerDescription
from tests.support.fakes.scripted_peer import PeerRequest, ScriptedPeer, framed

pytestmark = pytest.mark.virtual_time

BROKER_METADATA = 30_000


def text(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()


BROKER = (
    struct.pack(">i", 3)
    + text("höst")
    + struct.pack(">iiii", 9092, 1, 2, 2)
    + text("broker.id")
    + text("3")
    + text("rack")
    + text("r8a9")
)


def answering(body: bytes) -> ScriptedPeer:
    peer = ScriptedPeer()
    peer.script(BROKER_METADATA, lambda request: framed(request.correlation_id, body))
    return peer


async def described(peer: ScriptedPeer, *ids: int) -> tuple[BrokerDescription, ...]:
    async with AdminClient([("b1", 9092)], connect=peer.connect) as admin:
        return await admin.describe_brokers(ids)


async def test_brokers_describe_themselves_though_api_versions_does_not_list_the_api() -> None:
    peer = answering(struct.pack(">i", 1) + BROKER)
    tags = {"broker.id": "3", "rack": "r8a9"}
    assert await described(peer, -1, 3) == (BrokerDescription(3, "höst", 9092, 1, 2, tags),)
    request = peer.requests[-1]
    assert (request.api_key, request.version) == (BROKER_METADATA, 0)
    (name_size,) = struct.unpack_from(">h", request.frame, 8)
    assert request.frame[10 + name_size :] == struct.pack(">iii", 2, -1, 3)


async def test_without_ids_all_are_asked_about() -> None:
    peer = answering(bytes(4))
    assert await described(peer) == ()
    assert peer.requests[-1].frame.endswith(struct.pack(">i", 0))


async def test_an_empty_reply_is_a_broker_that_does_not_serve_it() -> None:
    with pytest.raises(UnsupportedApiError, match="BrokerMetadata version 0 is needed, but the broker does not serve"):
        await described(answering(b""))


async def test_a_broker_that_hangs_up_is_an_error_of_the_connection() -> None:
    peer = ScriptedPeer()

    def hang_up(_: PeerRequest) -> None:
        peer.connections[-1].hang_up()

    peer.script(BROKER_METADATA, hang_up)
    with pytest.raises(AdminConnectionError):
        await described(peer)


@pytest.mark.parametrize(
    "body", [struct.pack(">i", 2**31 - 1), struct.pack(">i", 1) + BROKER[:-1], struct.pack(">i", 1) + BROKER + b"x"]
)
async def test_bytes_that_are_no_such_answer_end_the_connection(body: bytes) -> None:
    with pytest.raises(AdminProtocolError, match="BrokerMetadataResponse v0"):
        await described(answering(body))
