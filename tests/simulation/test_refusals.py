"""No refusal keeps its request, its error or its frames: a complete node in memory, and every API that it serves.

The list of APIs is the one of `apis/table.py`: an API that is added there is tested here. Random fields, changed bytes
and truncations cause as many kinds of refusals as they find. The garbage collector is off meanwhile, so that objects in
reference cycles stay and are counted.
"""

import asyncio
import gc
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Iterator, Sequence
from itertools import chain, cycle, islice
from types import TracebackType
from typing import Any

import pytest

from broker_runtime.apis.push.push_apis import PushApi
from broker_runtime.apis.request.call import Api, Call, Ending
from broker_runtime.apis.request.context import ApiSpec
from broker_runtime.apis.request.observed import error_code
from broker_runtime.apis.request.on_demand import ApiOnDemand
from broker_runtime.apis.table import CONTROLLER_APIS, COUNTED_APIS
from broker_runtime.errors import ErrorCode, KafkaError, ProtocolError
from broker_runtime.wire.handler import FrameHandler
from broker_runtime.wire.reader import RequestReader
from broker_runtime.wire.reply import PendingReply
from broker_runtime.wire.versions import CREATE_TOPICS, PRODUCE
from kafka_bytes.batches import encode_batch
from kafka_bytes.compression import GZIP, LZ4, SNAPPY, ZSTD
from tests.simulation.cluster import check
from tests.simulation.cluster.cluster import CLUSTER_ID, Cluster, _end
from tests.simulation.cluster.machine.loop import VirtualLoop
from tests.simulation.cluster.machine.process import Process, replaced_operating_system
from tests.simulation.cluster.machine.server import SimulatedServer
from tests.simulation.cluster.shape import Shape
from tests.simulation.cluster.trace import Trace
from tests.support.logs.packed_batches import packed
from tests.support.requests.calls import NotedConnection
from tests.support.requests.hostile_requests import hostile, well_formed
from tests.support.requests.request_frames import encode_request

SOME, MANY = 500, 10_000
"""Refused requests of each API. A cycle for each of them shows with any number; the larger number takes a minute."""
KEPT_MAX = SOME // 10
"""Limit for each type. A coordinator keeps its last answer until the next, the simulated loop the last tasks."""
IN_CIRCLES_MAX = SOME // 2
"""Limit of objects in cycles. The first message of each kind makes some, when its decoder is built."""
ROUNDS = 15
"""Random requests from which the refused ones are taken, the same number for each version."""
SEED = 20_261_123
NODE_ID = "7"
"""A number that random requests never contain, as they could otherwise unregister the node."""
VIRTUAL_S = 1e9
TOPICS = ("orders", "compacted")
TEXTS = (*TOPICS, "__consumer_offsets", "nobody", "", "ö" * 40)
SETTLING_S = 0.05


class Frame(bytearray):
    """The bytes of a request, as a separate type, so that they can be counted."""


OF_A_REQUEST = (Frame, Call, RequestReader, KafkaError, ProtocolError, TracebackType)


class Node:
    """One process in memory, a broker and the controller. `ends` are those of the calls since it was cleared."""

    def __init__(self) -> None:
        self.trace = trace = Trace()
        self.loop = VirtualLoop(SEED, VIRTUAL_S)
        trace.begin(self.loop)
        shape = Shape(brokers=1, combined=True, replication_factor=1, min_insync_replicas=1)
        self.cluster = Cluster(SEED, shape, self.loop, trace)
        like = self.cluster.brokers[0]
        self.process = Process(self.cluster.around, "node", like.host, like.properties | {"node.id": NODE_ID})
        self.cluster.controllers = self.cluster.brokers = (self.process,)
        self.connection = NotedConnection()
        self.refused = 0
        self.mistakes: list[str] = []
        self.loop.set_exception_handler(lambda _, context: self.mistakes.append(repr(context)))

    def start(self) -> None:
        self.process.start()
        self.run(self.cluster.until("the node starts", lambda: check.everybody_serves(self.cluster), 60))
        broker = self.process.broker
        assert broker is not None
        assert broker.broker is not None
        assert broker.controller is not None
        for dispatcher in (broker.broker.dispatcher, broker.controller.dispatcher):
            dispatcher.completion.observer = self._ended
        self.run(self._make_topics())

    def run(self, work: Awaitable[Any]) -> Any:
        return self.loop.run_until_complete(work)

    def handler(self, api: Api) -> FrameHandler:
        broker = self.process.broker
        assert broker is not None
        node = broker.controller if api in CONTROLLER_APIS else broker.broker
        assert node is not None
        (server,) = (found for found in vars(node).values() if isinstance(found, SimulatedServer))
        return server._shared.handler

    async def _make_topics(self) -> None:
        common = {"num_partitions": 1, "replication_factor": 1, "assignments": ()}
        compact = {"name": "cleanup.policy", "value": "compact"}
        topics = [
            {"name": "orders", "configs": (), **common},
            {"name": "compacted", "configs": [compact], **common},
        ]
        content = {"topics": topics, "timeout": 30_000, "validate_only": False}
        (create,) = (api for api in COUNTED_APIS if api.key == CREATE_TOPICS)
        await self.ask(self.handler(create), encode_request(CREATE_TOPICS, 7, 1, content)[4:])
        await asyncio.sleep(1)

    def _ended(self, call: Call) -> None:
        self.refused += call.ending is Ending.REFUSED or error_code(call) != ErrorCode.NONE

    async def ask(self, handler: FrameHandler, frame: bytes) -> None:
        """Send a frame and wait until it is answered, or its connection is to end."""
        try:
            reply = handler(memoryview(Frame(frame)), self.connection)
        except ProtocolError:
            self.refused += 1
            return
        if isinstance(reply, PendingReply) and not reply.done:
            answered: asyncio.Future[object] = self.loop.create_future()
            reply.on_complete(answered.set_result)
            await answered

    async def is_refused(self, handler: FrameHandler, frame: bytes) -> bool:
        self.refused = 0
        await self.ask(handler, frame)
        return self.refused > 0

    async def all_asked(self, handler: FrameHandler, frames: Iterator[bytes]) -> None:
        for frame in frames:
            await self.ask(handler, frame)
        self.connection.end()
        self.connection = NotedConnection()
        await asyncio.sleep(SETTLING_S)


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    logging.disable(logging.CRITICAL)
    found = Node()
    asyncio.set_event_loop(found.loop)
    try:
        with replaced_operating_system(found.cluster.around, CLUSTER_ID, SEED):
            found.start()
            # Collections then scan only what the tests make: a quarter of a second less for each.
            gc.collect()
            gc.freeze()
            yield found
            gc.unfreeze()
            _end(found.cluster, found.loop)
            found.trace.end()
    finally:
        logging.disable(logging.NOTSET)
        asyncio.set_event_loop(None)
        found.loop.close()


APIS: Sequence[Api] = (*COUNTED_APIS, *CONTROLLER_APIS)


def name_of(api: Api) -> str:
    return f"{'controller' if api in CONTROLLER_APIS else 'broker'}-{api.name}"


@pytest.mark.parametrize("api", APIS, ids=name_of)
def test_no_refusal_keeps_its_request(node: Node, api: Api) -> None:
    refuse(node, api, SOME)


@pytest.mark.full
@pytest.mark.parametrize("api", APIS, ids=name_of)
def test_ten_thousand_refusals_keep_no_request(node: Node, api: Api) -> None:
    refuse(node, api, MANY)


def refuse(node: Node, api: Api, count: int) -> None:
    rng = random.Random(f"{SEED}/{name_of(api)}")
    handler = node.handler(api)
    node.run(node._make_topics())
    refused = [frame for frame in candidates(api, rng) if node.run(node.is_refused(handler, frame))]
    assert refused, "each API refuses something, and be it a frame that is cut short"
    gc.collect()
    gc.disable()
    try:
        before = of_requests()
        node.run(node.all_asked(handler, islice(cycle(refused), count)))
        kept = of_requests() - before
        in_circles = gc.collect()
    finally:
        gc.enable()
    assert {kind: number for kind, number in kept.items() if number > KEPT_MAX} == {}
    assert in_circles < IN_CIRCLES_MAX
    assert node.mistakes == []


def of_requests() -> Counter[str]:
    """Number of live requests, errors and tracebacks, by type."""
    return Counter(type(alive).__name__ for alive in gc.get_objects() if isinstance(alive, OF_A_REQUEST))


def candidates(api: Api, rng: random.Random) -> Iterator[bytes]:
    """Requests without their size fields, some of which are refused."""
    if isinstance(api, PushApi):
        head = api.key.to_bytes(2, "big")
        return (head + rng.randbytes(rng.randrange(40)) for _ in range(ROUNDS))
    spec = api.spec() if isinstance(api, ApiOnDemand) else api
    assert isinstance(spec, ApiSpec)
    return chain(of_kafka(spec, rng), keyless() if api.key == PRODUCE else ())


def of_kafka(api: ApiSpec[Any], rng: random.Random) -> Iterator[bytes]:
    low, high = api.versions
    for _ in range(ROUNDS):
        version = rng.randint(low, high)
        yield well_formed(api, version, rng, TEXTS)[4:]
        yield next(hostile(api, version, rng))[4:]
        cut = well_formed(api, version, rng)[4:]
        yield cut[: rng.randrange(10, len(cut))]


def keyless() -> Iterator[bytes]:
    """Records that a compacted topic refuses once another thread has checked them, or at once."""
    for count, codec in ((2, 0), (200, 0), (2_000, 0), (200, GZIP), (200, SNAPPY), (200, LZ4), (200, ZSTD)):
        batch = encode_batch([(None, b"value")] * count, 1_700_000_000_000)
        for acks in (-1, 1):
            parts = [{"index": 0, "records": packed(codec, batch) if codec else batch}]
            topic = [{"name": "compacted", "partition_data": parts}]
            content = {"transactional_id": None, "acks": acks, "timeout": 1_000, "topic_data": topic}
            yield encode_request(PRODUCE, 9, 1, content)[4:]
