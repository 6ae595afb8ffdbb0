"""Envelope (58), version 0 (KIP-590): a client's request with its principal and address, from a broker.

The controller authorizes the client, not the broker. A broker needs CLUSTER_ACTION, because it could name any client.
"""

import asyncio
import ipaddress
from struct import Struct

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, ControllerContext, ControllerRequests
from broker_runtime.errors import ErrorCode, KafkaError, ProtocolError
from broker_runtime.security.principal import Principal
from broker_runtime.wire import versions
from broker_runtime.wire.handler import ConnectionEnd, ServedConnection
from broker_runtime.wire.header import read_header
from broker_runtime.wire.messages import Fields, decode_response, encode_request_body, frame_request
from broker_runtime.wire.reader import RequestReader
from broker_runtime.wire.reply import FileRegion, PendingReply, Reply
from broker_runtime.wire.requests import EnvelopeRequest
from broker_runtime.wire.versions import ENVELOPE
from broker_runtime.wire.writer import string

FORWARDABLE = frozenset(
    {
        versions.CREATE_TOPICS,
        versions.DELETE_TOPICS,
        versions.CREATE_ACLS,
        versions.DELETE_ACLS,
        versions.ALTER_CONFIGS,
        versions.CREATE_PARTITIONS,
        versions.ELECT_LEADERS,
        versions.INCREMENTAL_ALTER_CONFIGS,
        versions.ALTER_PARTITION_REASSIGNMENTS,
        versions.LIST_PARTITION_REASSIGNMENTS,
        versions.ALTER_CLIENT_QUOTAS,
        versions.DESCRIBE_QUORUM,
        versions.UPDATE_FEATURES,
        versions.UNREGISTER_BROKER,
    }
)
_SIZE_BYTES = 4
_CORRELATION_BYTES = 4
_VERSION = Struct(">h")
_NOT_BY_TOKEN = b"\x00"
_NO_TAGS = b"\x00"


async def exchange(call: Call, link: ControllerRequests, body: memoryview) -> memoryview:
    """Send a request of the call's API to the controller in an envelope. Returns the response body.

    Raises KafkaError.
    """
    request = frame_request(call.api.key, call.version, call.correlation_id, body)[_SIZE_BYTES:]
    client = call.connection
    content = {
        "request_data": request,
        "request_principal": principal_bytes(client.principal),
        "client_host_address": ipaddress.ip_address(client.peer[0].partition("%")[0]).packed,
    }
    answer = await link.forward(ENVELOPE, 0, memoryview(encode_request_body(ENVELOPE, 0, content)))
    opened = decode_response(ENVELOPE, 0, answer)
    if opened.error_code or opened.response_data is None:
        raise KafkaError(
            ErrorCode(int(opened.error_code)),
            f"the controller refused the envelope of a {call.api.name} request of {client.principal}; the principal of "
            "the brokers must be in super.users of the controllers, or have CLUSTER_ACTION on the cluster",
        )
    return memoryview(opened.response_data)[_CORRELATION_BYTES + call.flexible :]


def principal_bytes(principal: Principal) -> bytes:
    """Return the principal in Kafka's form (DefaultPrincipalData, version 0)."""
    return b"".join(
        (_VERSION.pack(0), string(principal.kind, True), string(principal.name, True), _NOT_BY_TOKEN, _NO_TAGS)
    )


def read_principal(raw: bytes | None) -> Principal:
    """Parse a principal. Raises ProtocolError."""
    reader = RequestReader(memoryview(raw or b""), 0, True)
    (version,) = reader.fixed(_VERSION)
    if version != 0:
        raise ProtocolError("malformed", f"a principal of version {version} cannot be read")
    return Principal(reader.string(), reader.string())


class ForwardedClient:
    """A client whose request a broker has forwarded; implements ServedConnection."""

    has_unread = False

    def __init__(self, broker: ServedConnection, principal: Principal, host: str) -> None:
        self._broker = broker
        self.id = broker.id
        self.listener = broker.listener
        self.peer = (host, 0)
        self.principal = principal
        self.state: object = None
        self.throttle_s = 0.0
        """Has no effect: a broker throttles its clients itself."""

    @property
    def closed(self) -> ConnectionEnd:
        """End of the broker's connection."""
        return self._broker.closed

    def keep_frame(self, frame: memoryview) -> memoryview:
        """Return the frame itself: the envelope owns its bytes."""
        return frame

    def release_frame(self) -> None:
        """Do nothing: no buffer has to be released."""

    def push(self, frame: bytes) -> bool:
        """Return False: only requests are forwarded."""
        del frame
        return False

    def refuse(self, kind: str, text: str, *, ends: bool = True) -> None:
        self._broker.refuse(kind, text, ends=ends)


async def handle(request: EnvelopeRequest, call: Call, context: ControllerContext) -> Fields:
    """Return the answer to the request in the envelope. Raises ProtocolError if this controller is not active."""
    if not context.controller.active:
        raise ProtocolError("not-controller", "this controller is not the active one; try the next one")
    try:
        client = ForwardedClient(call.connection, read_principal(request.request_principal), _host(request))
    except (ProtocolError, ValueError):
        return {"error_code": ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, "response_data": None}
    frame = memoryview(request.request_data)
    try:
        key = read_header(frame)[0]
    except ProtocolError:
        return {"error_code": ErrorCode.UNSUPPORTED_VERSION, "response_data": None}
    if key not in FORWARDABLE:
        return {"error_code": ErrorCode.INVALID_REQUEST, "response_data": None}
    reply = await _replied(context.dispatch(frame, client))
    whole = b"".join(chunk.read() if isinstance(chunk, FileRegion) else chunk for chunk in reply)
    return {"error_code": ErrorCode.NONE, "response_data": whole[_SIZE_BYTES:]}


def _host(request: EnvelopeRequest) -> str:
    """Return the client's address. Raises ValueError."""
    return str(ipaddress.ip_address(request.client_host_address))


async def _replied(answer: Reply | PendingReply) -> Reply:
    """Wait for the reply. Raises ProtocolError if there is none."""
    if not isinstance(answer, PendingReply):
        return answer
    arrived: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()
    answer.on_complete(lambda reply: None if arrived.done() else arrived.set_result(reply))
    try:
        reply = await arrived
    finally:
        answer.cancel()
    if reply is None:
        raise ProtocolError("not-answered", "the request in an envelope was not answered")
    return reply


API = ApiSpec(ENVELOPE, "Envelope", (0, 0), handle)
