"""A complete node in memory, and the processor time for which a request blocks its event loop, without other delays.

with measured_node({}) as node:
    taken = node.ask("broker", key, version, body)

The node is the real one, over the simulated disk and network, with the garbage collector of a real process. Its time is
virtual, and advances by the time that callbacks take. Work in the threads of its disk is not counted.
"""

import asyncio
import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from broker_runtime.apis.request.dispatching.dispatch import Dispatcher
from broker_runtime.cluster import reactions
from broker_runtime.cluster.reactions import Reactions
from broker_runtime.errors import ProtocolError
from broker_runtime.node.process.garbage import GarbageCollector
from broker_runtime.wire.messages import encode_request_body, frame_request
from broker_runtime.wire.reply import PendingReply, Reply, parts_of
from broker_runtime.wire.versions import CREATE_TOPICS
from tests.simulation.cluster.machine.loop import VirtualLoop
from tests.simulation.cluster.machine.network import Network
from tests.simulation.cluster.machine.process import Process, Surroundings, replaced_operating_system
from tests.support.requests.calls import NotedConnection
from tools.request_arrays import Role

TOPIC, PARTITIONS = "wide", 1_000
"""An existing topic and its partitions."""
_CLUSTER_ID = "measured-cluster"
_KEYS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "cluster.id": _CLUSTER_ID,
    "listeners": "PLAINTEXT://10.0.0.1:9092,CONTROLLER://10.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "10.0.0.1:9093",
    "log.dirs": "/data",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "1",
}
_SIZE_BYTES = 4
_ANSWER_S = 600.0


@dataclass(frozen=True, slots=True)
class Taken:
    """The cost of a request, in seconds of processor time.

    `longest_s` is the longest callback of the event loop, without the garbage collections in it. `longest_collection_s`
    is the longest of those. `longest_iteration_s` is the longest iteration of the loop with all of its callbacks,
    without garbage collections.
    """

    longest_s: float
    longest_collection_s: float
    longest_iteration_s: float
    total_s: float
    answer: bytes | None = None
    """The frame of the answer; None without a request, or if the connection was closed."""
    refusals: tuple[str, ...] = ()
    """Kinds of the broker's refusals."""


class _WorkingLoop(VirtualLoop):
    """A loop whose time advances while callbacks run, by the processor time that they take."""

    def __init__(self) -> None:
        self._began_s: float | None = None
        self._collection_began_s = self._collected_s = self._in_threads_s = 0.0
        super().__init__(0, float("inf"))
        self.begin()

    def begin(self) -> None:
        """Start a measurement."""
        self.longest_s = self.longest_collection_s = self.longest_iteration_s = self.total_s = 0.0

    def taken(self, answer: bytes | None = None, refusals: tuple[str, ...] = ()) -> Taken:
        """Return the measurement since its start."""
        longest = self.longest_s, self.longest_collection_s, self.longest_iteration_s
        return Taken(*longest, self.total_s, answer, refusals)

    def on_collection(self, phase: str, _: dict[str, int]) -> None:
        """Measure a collection, as a callback of the garbage collector."""
        now_s = time.thread_time()
        if phase == "start":
            self._collection_began_s = now_s
            return
        taken_s = now_s - self._collection_began_s
        self._collected_s += taken_s
        self.longest_collection_s = max(self.longest_collection_s, taken_s)

    def time(self) -> float:
        passed_s = 0.0 if self._began_s is None else time.thread_time() - self._began_s
        return super().time() + passed_s

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:  # type: ignore[override]
        return super().call_soon(partial(self._measured, callback), *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:  # type: ignore[override]
        return super().call_at(when, partial(self._measured, callback), *args, context=context)

    def _measured(self, callback: Callable[..., object], *args: object) -> None:
        self._began_s, collected_s = time.thread_time(), self._collected_s
        try:
            callback(*args)
        finally:
            taken_s = time.thread_time() - self._began_s
            self._began_s = None
            self._now_s += taken_s
            self.total_s += taken_s
            self.longest_s = max(self.longest_s, taken_s - (self._collected_s - collected_s))

    def _execute(self, done: "asyncio.Future[Any]", func: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """Run a function without counting its time: a thread of the disk would do it."""
        before_s = time.thread_time()
        super()._execute(done, func, args)
        taken_s = time.thread_time() - before_s
        assert self._began_s is not None
        self._began_s += taken_s
        self._in_threads_s += taken_s

    def _run_once(self) -> None:
        began_s = self._working_s()
        super()._run_once()  # type: ignore[misc]
        self.longest_iteration_s = max(self.longest_iteration_s, self._working_s() - began_s)

    def _working_s(self) -> float:
        """Return the processor time so far, without garbage collections and the work of other threads."""
        return time.thread_time() - self._collected_s - self._in_threads_s


class MeasuredNode:
    def __init__(self, loop: _WorkingLoop, process: Process) -> None:
        self._loop = loop
        self._process = process

    def dispatcher(self, role: Role) -> Dispatcher[Any]:
        node = self._process.broker
        assert node is not None
        part = node.broker if role == "broker" else node.controller
        assert part is not None
        return part.dispatcher

    def ask(self, role: Role, key: int, version: int, body: bytes) -> Taken:
        """Send this request on a separate connection, and wait for the answer and the work after it."""
        return self.send(role, frame_request(key, version, 1, body))

    def send(self, role: Role, request: bytes) -> Taken:
        """Send the frame of a request as `ask` does."""
        frame = memoryview(bytearray(request))[_SIZE_BYTES:]
        return self._loop.run_until_complete(self._ask(self.dispatcher(role), frame))

    async def _ask(self, dispatcher: Dispatcher[Any], frame: memoryview) -> Taken:
        loop, connection = self._loop, NotedConnection()
        await asyncio.sleep(0.1)
        answered: asyncio.Future[Reply | None] = loop.create_future()
        assert self._process.owner is not None
        loop.begin()
        loop.call_soon(_handle, dispatcher, frame, connection, answered, context=self._process.owner.context)
        async with asyncio.timeout(_ANSWER_S):
            reply = await answered
        await asyncio.sleep(0.1)
        refusals = (*connection.refusals, *connection.noted)
        answer = None if reply is None else b"".join(parts_of(reply))
        return loop.taken(answer, tuple(kind for kind, _ in refusals))

    def wall_ms(self) -> int:
        """Return the time of the node in milliseconds since 1970."""
        return self._process.clock.wall_ms()

    def rest(self, seconds: float) -> Taken:
        """Let so many seconds of virtual time pass without a request, and return what they cost."""
        self._loop.begin()
        self._loop.run_until_complete(asyncio.sleep(seconds))
        return self._loop.taken()

    async def begin(self) -> None:
        """Start the node; return once it serves, with a topic of PARTITIONS partitions."""
        self._process.start()
        while (node := self._process.broker) is None or node.broker is None or not node.broker.open:  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.1)


def _handle(
    dispatcher: Dispatcher[Any],
    frame: memoryview,
    connection: NotedConnection,
    answered: "asyncio.Future[Reply | None]",
) -> None:
    try:
        reply = dispatcher.handle(frame, connection)
    except ProtocolError as error:
        connection.refuse(error.kind, str(error))
        answered.set_result(None)
        return
    if isinstance(reply, PendingReply):
        reply.on_complete(answered.set_result)
    else:
        answered.set_result(reply)


@contextmanager
def measured_node(properties: dict[str, str]) -> Iterator[MeasuredNode]:
    """A node with these properties, broker and controller in one."""
    loop = _WorkingLoop()
    asyncio.set_event_loop(loop)
    network = loop.connector = Network(loop, 0, 1.0)
    around = Surroundings(loop, network, lambda _: None)
    process = Process(around, "node", "10.0.0.1", _KEYS | properties)
    slice_s, schedule = reactions.SLICE_S, Reactions._schedule
    garbage = GarbageCollector(time.monotonic)
    with replaced_operating_system(around, _CLUSTER_ID, 0):
        reactions.SLICE_S, Reactions._schedule = slice_s, schedule  # type: ignore[method-assign]
        node = MeasuredNode(loop, process)
        try:
            loop.run_until_complete(node.begin())
            garbage.start()
            gc.callbacks.append(loop.on_collection)
            content = {
                "topics": [
                    {
                        "name": TOPIC,
                        "num_partitions": PARTITIONS,
                        "replication_factor": 1,
                        "assignments": (),
                        "configs": (),
                    }
                ],
                "timeout": 60_000,
                "validate_only": False,
            }
            made = node.ask("broker", CREATE_TOPICS, 7, encode_request_body(CREATE_TOPICS, 7, content))
            assert not made.refusals
            yield node
        finally:
            gc.callbacks.remove(loop.on_collection)
            garbage.stop()
            loop.run_until_complete(_end(loop, process))
            asyncio.set_event_loop(None)
            loop.close()
    assert not around.mistakes


async def _end(loop: _WorkingLoop, process: Process) -> None:
    process.stop()
    while process.alive:  # noqa: ASYNC110 - virtual time
        await asyncio.sleep(0.1)
