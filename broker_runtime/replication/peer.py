"""The interface of another node for replication. It does not define how connections are made."""

from typing import Protocol

from broker_runtime.wire.messages import Entity, Fields


class PeerLink(Protocol):
    """A connection to one broker, which answers requests in order."""

    async def exchange(self, api_key: int, version: int, body: bytes | memoryview) -> memoryview:
        """Send a request to another broker, and return the body of the response.

        Raises KafkaError(BROKER_NOT_AVAILABLE) when the broker cannot be reached.
        """
        ...

    def close(self) -> None: ...


class Peers(Protocol):
    """The other brokers of the cluster, as links to them."""

    def link_to(self, broker_id: int) -> PeerLink:
        """Return a link that connects at its first use, and reconnects after a lost connection."""
        ...


class Controller(Protocol):
    """Sends requests of a replica manager to the active controller."""

    async def request(self, api_key: int, version: int, content: Fields) -> Entity:
        """Send a request to the active controller, and return its response.

        Raises KafkaError if no controller is active.
        """
        ...
