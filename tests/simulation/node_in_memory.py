"""A complete node in memory, a broker and the controller, whose handlers get frames without sockets."""

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from broker_runtime.apis.request.call import Api, Call, Ending
from broker_runtime.apis.request.observed import error_code
from broker_runtime.apis.table import CONTROLLER_APIS, COUNTED_APIS
from broker_runtime.errors import ErrorCode, ProtocolError
from broker_runtime.wire.handler import FrameHandler
from broker_runtime.wire.reply import PendingReply
from broker_runtime.wire.versions import CREATE_TOPICS
from tests.simulation.cluster import check
from tests.simulation.cluster.cluster import CLUSTER_ID, Cluster, _end
from tests.simulation.cluster.machine.loop import VirtualLoop
from tests.simulation.cluster.machine.process import Process, replaced_operating_system
from tests.simulation.cluster.machine.server import SimulatedServer
from tests.simulation.cluster.shape import Shape
from tests.simulation.cluster.trace import Trace
from tests.support.requests.calls import NotedConnection
from tests.support.requests.request_frames import encode_request

SEED = 20_261_123
NODE_ID = "7"
"""A number that random requests never contain, as they could otherwise unregister the node."""
VIRTUAL_S = 1e9
TOPICS = ("orders", "compacted")
SETTLING_S = 0.05


class Frame(bytearray):
    """The bytes of a request, as a separate type, so that they can be counted."""


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
        self.run(self.make_topics())

    def run(self, work: Awaitable[Any]) -> Any:
        return self.loop.run_until_complete(work)

    def handler(self, api: Api) -> FrameHandler:
        broker = self.process.broker
        assert broker is not None
        node = broker.controller if api in CONTROLLER_APIS else broker.broker
        assert node is not None
        (server,) = (found for found in vars(node).values() if isinstance(found, SimulatedServer))
        return server._shared.handler

    async def make_topics(self) -> None:
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

    async def all_asked(self, handler: FrameHandler, frames: Iterable[bytes]) -> None:
        for frame in frames:
            await self.ask(handler, frame)
        self.connection.end()
        self.connection = NotedConnection()
        await asyncio.sleep(SETTLING_S)


@contextmanager
def node_in_memory() -> Iterator[Node]:
    """A running node with TOPICS; its log is silent meanwhile."""
    logging.disable(logging.CRITICAL)
    found = Node()
    asyncio.set_event_loop(found.loop)
    try:
        with replaced_operating_system(found.cluster.around, CLUSTER_ID, SEED):
            found.start()
            yield found
            _end(found.cluster, found.loop)
            found.trace.end()
    finally:
        logging.disable(logging.NOTSET)
        asyncio.set_event_loop(None)
        found.loop.close()
