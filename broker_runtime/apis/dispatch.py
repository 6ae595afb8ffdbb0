"""From a frame to its reply: header, version check, handler, encoding.

One dispatcher serves one kind of listener (clients', or the controller's). Produce and Fetch have their own short way;
every other API goes through kio's messages. A request that only the active controller can serve is forwarded there as
it came, once it has been read here: what is no such request must not reach the link that all clients share. A request
that cannot be served ends its connection, as in Kafka: by ProtocolError, or by `refuse` when it was answered later.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from broker_runtime.apis import fetch, produce
from broker_runtime.apis.api_versions import ApiVersionsAnswers
from broker_runtime.apis.context import ApiSpec, Node, RequestContext
from broker_runtime.errors import KafkaError, ProtocolError
from broker_runtime.wire.header import RequestHeader, read_header, response_prefix
from broker_runtime.wire.messages import Fields, decode_request, encode_response
from broker_runtime.wire.reply import PendingReply, Reply
from broker_runtime.wire.versions import API_VERSIONS, FETCH, PRODUCE

log = logging.getLogger(__name__)

HotHandler = Callable[[memoryview, RequestHeader, Node], Reply | PendingReply]
_TRACE_INTERVAL_S = 10.0
_HOT: Mapping[int, HotHandler] = {PRODUCE: produce.handle, FETCH: fetch.handle}


class Peer(Protocol):
    """What a handler may know of the connection that a frame came on."""

    @property
    def listener(self) -> str: ...

    @property
    def peer(self) -> tuple[str, int]: ...


@runtime_checkable
class RefusingPeer(Protocol):
    """A peer at the other end of a socket; the controller's own broker has none and just gets no reply."""

    def refuse(self, kind: str, text: str) -> None:
        """End the connection, counted by `kind` and logged now and then."""
        ...


class Forwarder(Protocol):
    async def forward(self, api_key: int, version: int, body: memoryview) -> memoryview:
        """The controller's response body to a request body; raises KafkaError when it cannot be had."""
        ...


class RequestCount(NamedTuple):
    """`failed` of `total` ended their connection instead of being answered."""

    request: str
    total: int
    failed: int


@dataclass(frozen=True, slots=True)
class _Refusal:
    kind: str
    text: str


class Dispatcher:
    def __init__(
        self,
        node: Node,
        served: Iterable[ApiSpec],
        forwarder: Forwarder | None,
        slow_forwarder: Forwarder | None = None,
    ) -> None:
        """Without forwarders requests to the controller are served here; slow ones go the common way by default."""
        self._node = node
        self._forwarder = forwarder
        self._slow_forwarder = slow_forwarder or forwarder
        self._served = {api.key: api for api in served}
        self._api_versions = ApiVersionsAnswers(self._served.values())
        self._tasks: set[asyncio.Task[Reply | _Refusal]] = set()
        keys = max(self._served) + 1
        self._total, self._failed = [0] * keys, [0] * keys
        self._traced_s: dict[int, float] = {}

    def collect(self) -> Iterator[RequestCount]:
        """Requests so far of every API that is served here."""
        for key, api in self._served.items():
            yield RequestCount(api.name, self._total[key], self._failed[key])

    def handle(self, frame: memoryview, connection: Peer) -> Reply | PendingReply:
        """`frame` excludes its size field and is valid only during the call."""
        header = read_header(frame)
        key = header.api_key
        api = self._served.get(key)
        if api is None:
            raise ProtocolError("unknown_api", f"API key {key} is not served on this listener")
        self._total[key] += 1
        try:
            return self._reply(api, frame, header, connection)
        except Exception:
            self._failed[key] += 1
            raise

    def _reply(self, api: ApiSpec, frame: memoryview, header: RequestHeader, peer: Peer) -> Reply | PendingReply:
        if header.api_key == API_VERSIONS:
            return self._api_versions.answer(frame, header)
        low, high = api.versions
        if not low <= header.version <= high:
            raise ProtocolError("unsupported_version", f"{api.name} v{header.version} is not served ({low} to {high})")
        hot = _HOT.get(header.api_key)
        if hot is not None:
            return hot(frame, header, self._node)
        request = decode_request(header.api_key, header.version, frame[header.body :])
        forwarder = self._slow_forwarder if api.slow(request) else self._forwarder
        if api.runs_on == "controller" and forwarder is not None:
            body = bytes(frame[header.body :])
            return self._later(api, self._forwarded(header, memoryview(body), forwarder), peer)
        ctx = RequestContext(header.api_key, header.version, header.client_id, peer.listener, peer.peer[0])
        answer = api.handle(request, ctx, self._node)
        if isinstance(answer, Mapping):
            return (encode_response(header.api_key, header.version, header.correlation_id, answer),)
        return self._later(api, self._awaited(header, answer), peer)

    async def _awaited(self, header: RequestHeader, answer: Awaitable[Fields]) -> Reply:
        return (encode_response(header.api_key, header.version, header.correlation_id, await answer),)

    async def _forwarded(self, header: RequestHeader, body: memoryview, forwarder: Forwarder) -> Reply:
        answer = await forwarder.forward(header.api_key, header.version, body)
        return (response_prefix(header.api_key, header.version, header.correlation_id, len(answer)), answer)

    def _later(self, api: ApiSpec, work: Awaitable[Reply], peer: Peer) -> PendingReply:
        """Run `work` as a task; the connection is muted until it is done, so there is one task per connection."""
        task = asyncio.ensure_future(self._finish(api, work))
        self._tasks.add(task)
        pending = PendingReply(on_cancel=lambda: _cancel(task))

        def done(finished: asyncio.Task[Reply | _Refusal]) -> None:
            self._tasks.discard(finished)
            result = None if finished.cancelled() else finished.result()
            if isinstance(result, _Refusal):
                self._failed[api.key] += 1
                # Who has hung up meanwhile hears nothing, and a reply of None ends what cannot be refused.
                if not pending.done and isinstance(peer, RefusingPeer):
                    peer.refuse(result.kind, result.text)
                result = None
            pending.complete(result)

        task.add_done_callback(done)
        return pending

    async def _finish(self, api: ApiSpec, work: Awaitable[Reply]) -> Reply | _Refusal:
        try:
            return await work
        except ProtocolError as error:
            return _Refusal(error.kind, str(error))
        except KafkaError as error:
            return _Refusal("not-answered", f"{api.name}: {error}")
        except Exception as error:  # noqa: BLE001 - shown by _trace; the other connections go on
            self._trace(api)
            return _Refusal("handler-failed", f"{api.name}: {error!r}")

    def _trace(self, api: ApiSpec) -> None:
        """A mistake of ours is shown with where it happened, but not for each request that meets it."""
        now_s = self._node.clock.monotonic()
        if now_s - self._traced_s.get(api.key, -_TRACE_INTERVAL_S) >= _TRACE_INTERVAL_S:
            self._traced_s[api.key] = now_s
            log.exception("the handler of %s failed, its connection is closed", api.name)

    async def close(self) -> None:
        """Cancel what is still being answered."""
        # As in `_cancel`.
        await asyncio.sleep(0)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _cancel(task: asyncio.Task[Reply | _Refusal]) -> None:
    # Not before it has begun: what it was to await would never be awaited.
    task.get_loop().call_soon(task.cancel)
