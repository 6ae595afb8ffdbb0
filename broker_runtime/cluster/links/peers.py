"""Connections to other brokers over the inter-broker listener, for replication.

Each connect looks up the address in the metadata.
"""

from broker_runtime.config.declaring.endpoints import SecurityProtocol, ServerAddress
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.network.connection.outgoing.client_connection import ClientConnection, ClientConnector


class BrokerPeers:
    """Finds other brokers in the metadata, by the inter-broker listener, and connects to them."""

    def __init__(self, image: MetadataImage, listener: str, connector: ClientConnector) -> None:
        self._image = image
        self._listener = listener
        self._connector = connector

    def link_to(self, broker_id: int) -> "BrokerLink":
        return BrokerLink(self, broker_id)

    async def connect(self, broker_id: int) -> ClientConnection:
        broker = self._image.brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoint(self._listener)
        if endpoint is None:
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} is not known, or has no listener {self._listener}"
            )
        if endpoint.security_protocol not in list(SecurityProtocol):
            # A newer broker may have protocols that are unknown here.
            text = f"broker {broker_id} has the unknown security protocol {endpoint.security_protocol}"
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, text)
        address = ServerAddress(endpoint.host, endpoint.port, SecurityProtocol(endpoint.security_protocol))
        return await self._connector.connect(address, f"broker {broker_id}")


class BrokerLink:
    """A link to one other broker, which connects on demand and sends one request at a time."""

    def __init__(self, peers: BrokerPeers, broker_id: int) -> None:
        self._peers = peers
        self._broker_id = broker_id
        self._connection: ClientConnection | None = None

    async def exchange(self, api_key: int, version: int, body: bytes | memoryview) -> memoryview:
        connection = self._connection
        if connection is None or connection.lost:
            connection = self._connection = await self._peers.connect(self._broker_id)
        return await connection.exchange(api_key, version, body)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
