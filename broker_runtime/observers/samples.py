"""Messages for the tests of observers: structs like those that a broker shows, without a broker."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from uuid import UUID

from broker_runtime.apis.request.call import Call, Completion, Ending
from broker_runtime.apis.table import BROKER_APIS
from broker_runtime.observers.layout import view_of
from broker_runtime.observers.source import MessageSource
from broker_runtime.observers.view import Struct
from broker_runtime.security.principal import ANONYMOUS
from broker_runtime.wire.messages import Fields, encode_request_body, encode_response_body, message_type

_NO_TOPICS: Mapping[UUID, str] = {}
_APIS = {api.key: api for api in BROKER_APIS}


class _Ended:
    def add(self, observer: object) -> None: ...

    def remove(self, observer: object) -> None: ...


class _Connection:
    """A connection of a client that does not exist."""

    id = 1
    listener = "PLAINTEXT"
    peer = ("192.0.2.7", 50_000)
    closed = _Ended()
    has_unread = False

    def __init__(self) -> None:
        self.state: object = None
        self.principal = ANONYMOUS
        self.throttle_s = 0.0
        self.heavy_s = 0.0

    def keep_frame(self, frame: memoryview) -> memoryview:
        return frame

    def release_frame(self, copied_bytes: int = 0) -> None: ...

    def push(self, frame: bytes) -> bool:
        del frame
        return False

    def refuse(self, kind: str, text: str, *, ends: bool = True) -> None: ...


@contextmanager
def sample_request(
    api_key: int, version: int, fields: Fields, *, client_id: str | None = None, topics: Mapping[UUID, str] = _NO_TOPICS
) -> Iterator[Struct]:
    """Yield a request with these fields, by kio's names. The request is valid within the `with` statement.

    `topics` are the names of topics by their IDs.
    """
    body = encode_request_body(api_key, version, fields)
    yield from _shown(_call(api_key, version, client_id, len(body)), "Request", body, topics, ended=False)


@contextmanager
def sample_response(
    api_key: int,
    version: int,
    fields: Fields,
    *,
    client_id: str | None = None,
    duration_s: float = 0.0,
    topics: Mapping[UUID, str] = _NO_TOPICS,
) -> Iterator[Struct]:
    """Yield a response with these fields, like `sample_request`, as if it had taken `duration_s` seconds."""
    body = encode_response_body(api_key, version, fields)
    call = _call(api_key, version, client_id, 0)
    call.fields, call.reply, call.ending = fields, (body,), Ending.ANSWERED
    call.completed_s = duration_s
    yield from _shown(call, "Response", body, topics, ended=True)


def _call(api_key: int, version: int, client_id: str | None, size: int) -> Call:
    call = Call(_APIS[api_key], version, 1, client_id, _Connection(), Completion(lambda: 0.0))
    call.request_bytes = size
    call.received_s = 0.0
    return call


def _shown(call: Call, direction: str, body: bytes, topics: Mapping[UUID, str], *, ended: bool) -> Iterator[Struct]:
    source = MessageSource(body, about=(call, topics.get, ended))
    try:
        yield view_of(message_type(call.api.key, call.version, direction), source, 0)
    finally:
        source.end()
