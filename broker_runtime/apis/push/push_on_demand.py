"""Imports the push protocol at its first frame, because a broker may have no consumers of it (decision 45)."""

from importlib import import_module
from typing import TYPE_CHECKING

from broker_runtime.apis.request.call import Completion
from broker_runtime.apis.request.context import BrokerContext
from broker_runtime.apis.request.dispatching.on_demand import FirstRequests
from broker_runtime.wire.handler import FrameHandler, ServedConnection
from broker_runtime.wire.reply import PendingReply, Reply
from kafka_bytes.own_keys import type_of

if TYPE_CHECKING:
    from broker_runtime.apis.push.push import PushFrames

PUSH = "broker_runtime.apis.push.push"


class PushOnDemand:
    """The handler of push frames, created at the push protocol's first frame.

    Frames of other protocols are passed to `others`.
    """

    def __init__(
        self, context: BrokerContext, others: FrameHandler, completion: Completion, first_requests: FirstRequests
    ) -> None:
        self._context = context
        self._others = others
        self._completion = completion
        self._first_requests = first_requests
        self._frames: PushFrames | None = None

    def handle(self, frame: memoryview, connection: ServedConnection) -> Reply | PendingReply:
        """Handle a frame of the push protocol, see `wire.handler.FrameHandler`."""
        if type_of(frame) is None:
            return self._others(frame, connection)
        if self._frames is None:
            return self._first_requests.handle(PUSH, self._handle, frame, connection)
        return self._frames.handle(frame, connection)

    def _handle(self, frame: memoryview, connection: ServedConnection) -> Reply | PendingReply:
        if self._frames is None:
            self._frames = import_module(PUSH).PushFrames(self._context, self._others, self._completion)
        return self._frames.handle(frame, connection)
