"""CreateAcls (30), versions 1 to 3: this broker has no authorizer, and answers SECURITY_DISABLED for each ACL."""

from struct import Struct

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, NodeContext
from broker_runtime.errors import ErrorCode, ProtocolError
from broker_runtime.wire.messages import check_size
from broker_runtime.wire.reader import RequestReader
from broker_runtime.wire.reply import Reply
from broker_runtime.wire.versions import CREATE_ACLS
from broker_runtime.wire.writer import array_length, nullable_string

_CODE = ErrorCode.SECURITY_DISABLED
_WHY = "No Authorizer is configured."
_ITEM_BYTES_MIN = 8
"""Minimum size of an item of a request: three numbers and empty strings."""
_INT16, _INT32 = Struct(">h"), Struct(">i")


def handle(reader: RequestReader, call: Call, context: NodeContext) -> Reply:
    return refused(reader, call, b"")


def refused(reader: RequestReader, call: Call, matching: bytes) -> Reply:
    """Return the same error for each item of the request, regardless of its content.

    `matching` is the part of each item of the answer that follows its message.
    """
    check_size(call.api.name, reader.left, reader.limits)
    count = reader.array_length()
    if count * _ITEM_BYTES_MIN > reader.left:
        raise ProtocolError("truncated", "the request ends in the middle of its items")
    end = b"\x00" if call.flexible else b""
    item = _INT16.pack(_CODE) + nullable_string(_WHY, call.flexible) + matching + end
    if count:
        call.error = _CODE
    return call.packed(_INT32.pack(call.throttle_ms) + array_length(count, call.flexible) + item * count + end)


API = ApiSpec(CREATE_ACLS, "CreateAcls", (1, 3), handle, reads="frame")
