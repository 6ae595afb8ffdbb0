"""A broker's link to the controller in its own process: directly into its dispatcher, with the same frames."""

import asyncio

from broker_runtime.apis.request.context import ControllerContext
from broker_runtime.apis.request.dispatching.dispatch import Dispatcher
from broker_runtime.config.declaring.endpoints import ServerAddress
from broker_runtime.errors import ErrorCode, KafkaError, ProtocolError
from broker_runtime.network.sockets.closed_observers import ClosedObservers
from broker_runtime.security.principal import THIS_NODE
from broker_runtime.wire.header import response_prefix
from broker_runtime.wire.messages import frame_request
from broker_runtime.wire.reply import Parts, PendingReply, Reply, parts_of, section

_SIZE_BYTES = 4
_OBSERVERS_MAX = 100
"""Observers of the end of a link: there are only a few."""


class LoopbackLink:
    """A ControllerLink inside one process, which the dispatcher sees as a connection."""

    id = 0
    """The id of this connection. Ids of client connections begin at 1."""
    listener = "CONTROLLER"
    peer = ("127.0.0.1", 0)
    choices = 1
    server = None
    has_unread = False

    def __init__(self, dispatcher: Dispatcher[ControllerContext]) -> None:
        self._dispatcher = dispatcher
        self.state: object = None
        self.principal = THIS_NODE
        self.throttle_s = 0.0
        """Has no effect: a process does not throttle itself."""
        self.heavy_s = 0.0
        self.closed = ClosedObservers(_OBSERVERS_MAX)

    def refuse(self, kind: str, text: str, *, ends: bool = True) -> None:
        """Do nothing: there is no connection to end, and the caller gets the error of its request."""

    def keep_frame(self, frame: memoryview) -> memoryview:
        """Return the frame itself: each request has its own buffer."""
        return frame

    def release_frame(self, copied_bytes: int = 0) -> None:
        """Do nothing: no buffer has to be released."""

    def push(self, frame: bytes) -> bool:
        """Return False: frames that answer no request have no receiver in the same process."""
        del frame
        return False

    async def exchange(self, api_key: int, version: int, body: bytes | memoryview) -> Parts:
        frame = memoryview(frame_request(api_key, version, 0, body))[_SIZE_BYTES:]
        try:
            answer = self._dispatcher.handle(frame, self)
        except ProtocolError as error:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"the controller refused the request: {error}") from error
        if isinstance(answer, PendingReply):
            arrived: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()
            answer.on_complete(lambda reply: None if arrived.done() else arrived.set_result(reply))
            try:
                reply = await arrived
            finally:
                answer.cancel()
        else:
            reply = answer
        if reply is None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "the controller could not answer")
        parts = parts_of(reply)
        return section(parts, len(response_prefix(api_key, version, 0, 0)), sum(map(len, parts)))

    def move_on(self) -> None:
        """Do nothing: there is only one controller."""

    def turn_to(self, server: ServerAddress) -> None:
        """Do nothing: there is only one controller."""

    def close(self) -> None:
        for observer in self.closed.taken():
            observer()
