"""Envelope (58), version 0 (KIP-590): serves a client's request that a broker has forwarded, under the client's name.

The request may be any that brokers forward. Its answer, or the end of its connection, is that of the same request
without an envelope.
"""

from struct import Struct

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, ControllerContext
from broker_runtime.errors import ErrorCode
from broker_runtime.security.principal import Principal
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.envelope import Envelope, pack_enveloped, read_envelope
from broker_runtime.wire.handler import ConnectionEnd, ServedConnection
from broker_runtime.wire.reply import PendingReply, Reply, parts_of, section
from broker_runtime.wire.versions import ENVELOPE, FORWARDED

_KEY = Struct(">h")
_SIZE_BYTES = 4


class ForwardedConnection:
    """The client of a forwarded request, as a handler on the controller sees it.

    Its connection is the link to the broker.
    """

    has_unread = False

    def __init__(self, link: ServedConnection, envelope: Envelope) -> None:
        self._link = link
        self.state: object = None
        self.principal: Principal = envelope.principal
        self.throttle_s = 0.0
        """Has no effect here: the broker mutes its client."""
        self.heavy_s = 0.0
        self.peer = (envelope.address, 0)

    @property
    def id(self) -> int:
        return self._link.id

    @property
    def listener(self) -> str:
        return self._link.listener

    @property
    def closed(self) -> ConnectionEnd:
        return self._link.closed

    def keep_frame(self, frame: memoryview) -> memoryview:
        """Return the frame itself: each request has its own buffer."""
        return frame

    def release_frame(self, copied_bytes: int = 0) -> None:
        """Do nothing: no buffer has to be released."""

    def push(self, frame: bytes) -> bool:
        """Return False: an unsolicited frame cannot be sent to a client that is connected to another broker."""
        del frame
        return False

    def refuse(self, kind: str, text: str, *, ends: bool = True) -> None:
        self._link.refuse(kind, text, ends=ends)


def handle(reader: RequestReader, call: Call, context: ControllerContext) -> Reply | Call:
    envelope = read_envelope(reader.kept(call.connection.keep_frame))
    (key,) = _KEY.unpack_from(envelope.frame)
    if key not in FORWARDED:
        call.error = ErrorCode.INVALID_REQUEST
        return call.packed_of(pack_enveloped(None, ErrorCode.INVALID_REQUEST))
    inner = context.serve(envelope.frame, ForwardedConnection(call.connection, envelope))
    if not isinstance(inner, PendingReply):
        return _packed(call, inner)
    later = call.later(inner.cancel)
    inner.on_complete(lambda reply: later.complete(None if reply is None else _packed(call, reply)))
    return later


def _packed(call: Call, answer: Reply) -> Reply:
    parts = parts_of(answer)
    frame = section(parts, _SIZE_BYTES, sum(map(len, parts)))
    return call.packed_of(pack_enveloped(frame, ErrorCode.NONE))


API = ApiSpec(key=ENVELOPE, name="Envelope", versions=(0, 0), handle=handle, reads="frame", counts_itself=True)
