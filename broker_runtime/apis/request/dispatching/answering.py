"""Packs a handler's answer into the reply, in steps because it may be long. Pure."""

from collections.abc import Awaitable, Mapping
from functools import partial
from types import GeneratorType

from broker_runtime.apis.request.call import Call, check_response
from broker_runtime.apis.request.context import Handled
from broker_runtime.apis.request.observed import error_in_steps
from broker_runtime.errors import ErrorCode
from broker_runtime.slicing.steps import Steps, let_go
from broker_runtime.wire.encoding.encode import Pieces, encode_in_steps
from broker_runtime.wire.header import response_prefix
from broker_runtime.wire.messages import Fields, message_type
from broker_runtime.wire.refusal import refusal
from broker_runtime.wire.reply import Reply

Settled = Reply | Call | Awaitable[Handled]
"""The result of a handler that has run: a packed reply, the call for a later answer, or an awaitable to run."""

_SHORT_BYTES = 16_384
_PARTS_OF_A_STEP = 128


def settled(call: Call, answer: Handled | None) -> Steps[Settled]:
    """Run the handler's steps, and pack its answer.

    Raises the handler's errors, and ResponseTooLargeError.
    """
    while True:
        if isinstance(answer, GeneratorType):
            answer = yield from answer
        elif isinstance(answer, Mapping):
            return (yield from _packed(call, answer))
        else:
            return answer  # type: ignore[return-value]


def _packed(call: Call, fields: Fields) -> Steps[Reply]:
    if call.throttle_ms:
        fields = {**fields, "throttle_time": call.throttle_ms}
    pieces = Pieces(partial(check_response, call))
    yield from encode_in_steps(message_type(call.api.key, call.version, "Response"), fields, pieces)
    parts = pieces.all()
    head = response_prefix(call.api.key, call.version, call.correlation_id, pieces.size)
    if pieces.size <= _SHORT_BYTES:
        call.fields = fields
        return (b"".join((head, *parts)),)
    call.fields = yield from _noted(call, fields)
    yield from _let_go(fields)
    return (head, *parts)


def _noted(call: Call, fields: Fields) -> Steps[Fields]:
    """Return the fields of a long answer that an observer may read: its own error code, and one from its items."""
    noted: dict[str, object] = {"error_code": fields.get("error_code", ErrorCode.NONE)}
    if call.completion.requests is not None:
        noted["items"] = [{"error_code": (yield from error_in_steps(fields))}]
    return noted


def _let_go(fields: Fields) -> Steps[None]:
    """Free a long answer in steps, because freeing it at once would take long."""
    for items in fields.values():
        if isinstance(items, list):
            yield from let_go(items)


def joined(parts: list[bytes], call: Call) -> Steps[Reply]:
    """Return the response whose body consists of these parts, joined in steps. The list is empty afterwards."""
    pieces = Pieces(partial(check_response, call))
    parts.reverse()
    while parts:
        some = parts[: -_PARTS_OF_A_STEP - 1 : -1]
        del parts[-_PARTS_OF_A_STEP:]
        pieces.add(b"".join(some))
        yield
    return call.packed_of(pieces.all())


def refused(call: Call, why: str) -> Reply | None:
    """Return the answer to a request that exceeds the limits.

    None if the API's answer has no field for an error of the whole request, as that of Produce.
    """
    body = refusal(call.api.key, call.version, ErrorCode.INVALID_REQUEST, why)
    if body is None:
        return None
    call.error = ErrorCode.INVALID_REQUEST
    return (response_prefix(call.api.key, call.version, call.correlation_id, len(body)) + body,)
