"""The connections between simulated brokers: slow, lossy, and with brokers that are down."""

import asyncio
from random import Random
from typing import Protocol

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.steps import at_once
from broker_runtime.transactions.markers.local_markers import LocalMarkers
from broker_runtime.transactions.markers.requests import PartitionsOfMarker, answer_of, markers_in
from broker_runtime.wire.messages import decode_request, encode_response_body

_V2 = 2


class World(Protocol):
    """The part of the world that connections use."""

    random: Random
    faulty: bool
    down: set[int]
    slow: set[int]
    local: dict[int, LocalMarkers]

    def run_later(self, delay_s: float, markers: list[PartitionsOfMarker], broker_id: int) -> None:
        """Carry out a request whose sender has given up."""
        ...


class SimulatedLink:
    """A connection to one broker, which carries real requests and answers."""

    def __init__(self, world: World, broker_id: int) -> None:
        self._world = world
        self._broker_id = broker_id

    async def exchange(self, api_key: int, version: int, body: bytes | memoryview) -> memoryview:
        world, broker_id = self._world, self._broker_id
        await self._travel()
        if broker_id in world.down:
            raise self._lost("is down")
        markers = at_once(markers_in(decode_request(api_key, version, memoryview(body)), version))
        if self._happens(0.1):
            if all(marker.transaction_version >= _V2 for marker, _ in markers):
                # Before version 2, such a request may hit the next transaction, in Apache Kafka too.
                world.run_later(world.random.uniform(0, 5), markers, broker_id)
            raise self._lost("lost the request")
        results = await world.local[broker_id].write(markers)
        await self._travel()
        if broker_id in world.down or self._happens(0.15):
            raise self._lost("lost the answer")
        return memoryview(encode_response_body(api_key, version, at_once(answer_of(markers, results))))

    def _happens(self, share: float) -> bool:
        return self._world.faulty and self._world.random.random() < share

    async def _travel(self) -> None:
        world = self._world
        await asyncio.sleep(
            world.random.uniform(0.2, 3) if self._broker_id in world.slow else world.random.uniform(0, 0.05)
        )

    def _lost(self, why: str) -> KafkaError:
        return KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {self._broker_id} {why}")

    def close(self) -> None:
        """Keep nothing: requests end by themselves."""
