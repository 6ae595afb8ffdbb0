"""The interface of another node for replication. It does not define how connections are made."""

from typing import Protocol

from broker_runtime.wire.messages import Entity, Fields


class PeerLink(Protocol):
    """A connection to one broker; requests are answered in order."""

    async def exchange(self, api_key: int, version: int, body: bytes | memoryview) -> memoryview:
        """Return the body of the response.

        Raises KafkaError(BROKER_NOT_AVAILABLE) when the broker cannot be reached.
        """
        ...

    def close(self) -> None: ...


class Peers(Protocol):
    """The other brokers."""

    def link_to(self, broker_id: int) -> PeerLink:
        """Return a link that connects at its first use, and again after the connection was lost."""
        ...


class Controller(Protocol):
    """The active controller."""

    async def request(self, api_key: int, version: int, content: Fields) -> Entity:
        """Return the active controller's response; raises KafkaError if there is none."""
        ...
