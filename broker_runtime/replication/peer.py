"""What replication needs of other nodes; who connects, and how, is not its business."""

from typing import Protocol

from broker_runtime.wire.messages import Entity, Fields


class PeerLink(Protocol):
    """A way to one broker; requests are answered in order."""

    async def exchange(self, api_key: int, version: int, body: bytes | memoryview) -> memoryview:
        """The response body; raises KafkaError(BROKER_NOT_AVAILABLE) when the broker cannot be reached."""
        ...

    def close(self) -> None: ...


class Peers(Protocol):
    """The other brokers."""

    def link_to(self, broker_id: int) -> PeerLink:
        """Connects when it is first used, and again after it was lost."""
        ...


class Controller(Protocol):
    """The active controller."""

    async def request(self, api_key: int, version: int, content: Fields) -> Entity:
        """The active controller's answer; raises KafkaError when it cannot be had."""
        ...
