"""The address at which a broker dials another one: from the metadata, with the security protocol that it registered."""

from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pytest

from broker_runtime.cluster.links.peers import BrokerPeers
from broker_runtime.config import SecurityProtocol, ServerAddress
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.brokers import BrokerEndpoint, BrokerInfo
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.network.connection.outgoing.client_connection import ClientConnector
from broker_runtime.network.settings import ClientLimits
from broker_runtime.network.sockets.transport import Transport
from broker_runtime.wire.versions import FETCH
from tests.support.fakes.noted_poller import NotedPoller

pytestmark = pytest.mark.virtual_time

ENDPOINTS = (BrokerEndpoint("OPEN", "leader", 9092), BrokerEndpoint("SECURE", "leader", 9093, 1))
FUTURE = BrokerEndpoint("FUTURE", "leader", 9094, 99)


class NotedDialler:
    """Refuses, and remembers the addresses that it was asked for."""

    def __init__(self) -> None:
        self.poller = NotedPoller()
        self.dialled: list[ServerAddress] = []

    async def dial(self, address: ServerAddress) -> Transport:
        self.dialled.append(address)
        raise ConnectionRefusedError("refused")


def image() -> MetadataImage:
    leader = BrokerInfo(1, 5, UUID(int=1), (*ENDPOINTS, FUTURE), None, fenced=False)
    return cast("MetadataImage", SimpleNamespace(brokers={1: leader}))


@pytest.mark.parametrize(
    ("listener", "wanted"),
    [
        ("OPEN", ServerAddress("leader", 9092, SecurityProtocol.PLAINTEXT)),
        ("SECURE", ServerAddress("leader", 9093, SecurityProtocol.SSL)),
    ],
)
async def test_a_broker_is_dialled_by_its_registered_security_protocol(listener: str, wanted: ServerAddress) -> None:
    dialler = NotedDialler()
    peers = BrokerPeers(image(), listener, ClientConnector(dialler, ClientLimits(1_000, 1, 3.0)))
    with pytest.raises(KafkaError, match="broker 1 at leader:"):
        await peers.link_to(1).exchange(FETCH, 12, b"")
    assert dialler.dialled == [wanted]


@pytest.mark.parametrize(
    ("broker_id", "listener", "why"),
    [(2, "OPEN", "broker 2 is not known"), (1, "OTHER", "no listener OTHER"), (1, "FUTURE", "security protocol 99")],
)
async def test_the_error_for_an_unreachable_peer_has_the_reason(broker_id: int, listener: str, why: str) -> None:
    dialler = NotedDialler()
    peers = BrokerPeers(image(), listener, ClientConnector(dialler, ClientLimits(1_000, 1, 3.0)))
    with pytest.raises(KafkaError, match=why) as error:
        await peers.link_to(broker_id).exchange(FETCH, 12, b"")
    assert error.value.code == ErrorCode.BROKER_NOT_AVAILABLE
    assert not dialler.dialled
