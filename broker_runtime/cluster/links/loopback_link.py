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
from broker_runtime.wire.reply import FileRegion, PendingReply, Reply

_SIZE_BYTES = 4
_OBSERVERS_MAX = 100
"""Observers of the end of a link: there are only a few."""


class LoopbackLink:
    """A ControllerLink that the dispatcher sees as a connection."""

    id = 0
    """Ids of client connections begin at 1."""
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
        self.closed = ClosedObservers(_OBSERVERS_MAX)

    def refuse(self, kind: str, text: str, *, ends: bool = True) -> None:
        """Do nothing: there is no connection to end, and the caller gets the error of its request."""

    def keep_frame(self, frame: memoryview) -> memoryview:
        """Return the frame itself: each request has a buffer of its own."""
        return frame

    def release_frame(self) -> None:
        """Do nothing: no buffer has to be released."""

    def push(self, frame: bytes) -> bool:
        """Return False: unsolicited frames have no receiver here."""
        del frame
        return False

    async def exchange(self, api_key: int, version: int, body: bytes | memoryview) -> memoryview:
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
        whole = b"".join(chunk.read() if isinstance(chunk, FileRegion) else chunk for chunk in reply)
        return memoryview(whole)[len(response_prefix(api_key, version, 0, 0)) :]

    def move_on(self) -> None:
        """Do nothing: there is only one controller."""

    def turn_to(self, server: ServerAddress) -> None:
        """Do nothing: there is only one controller."""

    def close(self) -> None:
        for observer in self.closed.taken():
            observer()
