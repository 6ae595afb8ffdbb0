"""Brokers that answer WriteTxnMarkers with codes that a test sets, over links in memory with real bytes."""

import asyncio
from collections.abc import Collection

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.steps import at_once
from broker_runtime.transactions.markers.requests import PartitionsOfMarker, answer_of, markers_in
from broker_runtime.transactions.seam import TopicPartition
from broker_runtime.wire.messages import decode_request, encode_response_body


class MarkerBrokers:
    """The other brokers of a cluster, as the dispatch of markers sees them."""

    def __init__(self) -> None:
        self.received: list[tuple[int, list[PartitionsOfMarker]]] = []
        """Each request, by the id of its broker."""
        self.codes: dict[TopicPartition, list[int]] = {}
        """The next codes of a partition; without one, its marker is written."""
        self.down: set[int] = set()
        self.silent: set[int] = set()
        self.garbled: set[int] = set()
        self.busy: dict[int, int] = {}
        """Requests under way, by broker."""
        self.busy_most = 0
        """Largest number of requests that were under way to one broker."""
        self.answer_s = 0.01
        self.links_made = 0

    def link_to(self, broker_id: int) -> "MarkerLink":
        self.links_made += 1
        return MarkerLink(self, broker_id)

    def partitions_of(self, broker_id: int) -> list[Collection[TopicPartition]]:
        """Return the partitions of each request that the broker got."""
        return [
            {place for _, places in markers for place in places}
            for asked, markers in self.received
            if asked == broker_id
        ]


class MarkerLink:
    """A link to one of the brokers."""

    def __init__(self, brokers: MarkerBrokers, broker_id: int) -> None:
        self._brokers = brokers
        self._broker_id = broker_id
        self.is_closed = False

    async def exchange(self, api_key: int, version: int, body: bytes | memoryview) -> memoryview:
        brokers, broker_id = self._brokers, self._broker_id
        if broker_id in brokers.down:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id}: connection refused")
        request = decode_request(api_key, version, memoryview(body))
        markers = at_once(markers_in(request, version))
        brokers.received.append((broker_id, markers))
        brokers.busy[broker_id] = brokers.busy.get(broker_id, 0) + 1
        brokers.busy_most = max(brokers.busy_most, brokers.busy[broker_id])
        try:
            await asyncio.sleep(brokers.answer_s)
            if broker_id in brokers.silent:
                await asyncio.get_running_loop().create_future()
        finally:
            brokers.busy[broker_id] -= 1
        if broker_id in brokers.garbled:
            return memoryview(b"\x00\x03garbled")
        results = [{place: self._code(place) for place in places} for _, places in markers]
        return memoryview(encode_response_body(api_key, version, at_once(answer_of(markers, results))))

    def _code(self, place: TopicPartition) -> int:
        waiting = self._brokers.codes.get(place)
        return waiting.pop(0) if waiting else ErrorCode.NONE

    def close(self) -> None:
        self.is_closed = True
