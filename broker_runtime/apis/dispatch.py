"""From a frame to its reply: header, version check, handler, encoding.

One dispatcher serves one kind of listener (clients', or the controller's). Produce and Fetch have their own short way;
every other API goes through kio's messages. A request that only the active controller can serve is forwarded there as
it came. A frame that cannot be served raises ProtocolError, which ends the connection, as in Kafka.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Protocol

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
_HOT: Mapping[int, HotHandler] = {PRODUCE: produce.handle, FETCH: fetch.handle}


class Peer(Protocol):
    """What a handler may know of the connection that a frame came on."""

    @property
    def listener(self) -> str: ...

    @property
    def peer(self) -> tuple[str, int]: ...


class Forwarder(Protocol):
    async def forward(self, api_key: int, version: int, body: memoryview) -> memoryview:
        """The controller's response body to a request body; raises KafkaError when it cannot be had."""
        ...


class Dispatcher:
    def __init__(self, node: Node, served: Iterable[ApiSpec], forwarder: Forwarder | None) -> None:
        self._node = node
        self._forwarder = forwarder
        self._served = {api.key: api for api in served}
        self._api_versions = ApiVersionsAnswers(self._served.values())
        self._tasks: set[asyncio.Task[Reply | None]] = set()

    def handle(self, frame: memoryview, connection: Peer) -> Reply | PendingReply:
        """`frame` excludes its size field and is valid only during the call."""
        header = read_header(frame)
        api = self._served.get(header.api_key)
        if api is None:
            raise ProtocolError("unknown_api", f"API key {header.api_key} is not served on this listener")
        if header.api_key == API_VERSIONS:
            return self._api_versions.answer(frame, header)
        low, high = api.versions
        if not low <= header.version <= high:
            raise ProtocolError("unsupported_version", f"{api.name} v{header.version} is not served ({low} to {high})")
        hot = _HOT.get(header.api_key)
        if hot is not None:
            return hot(frame, header, self._node)
        if api.runs_on == "controller" and self._forwarder is not None:
            body = bytes(frame[header.body :])
            return self._later(self._forwarded(header, memoryview(body), self._forwarder))
        return self._handled(api, frame, header, connection)

    def _handled(self, api: ApiSpec, frame: memoryview, header: RequestHeader, peer: Peer) -> Reply | PendingReply:
        request = decode_request(header.api_key, header.version, frame[header.body :])
        host = peer.peer[0]
        ctx = RequestContext(header.api_key, header.version, header.client_id, peer.listener, host)
        answer = api.handle(request, ctx, self._node)
        if isinstance(answer, Mapping):
            return (encode_response(header.api_key, header.version, header.correlation_id, answer),)
        return self._later(self._awaited(header, answer))

    async def _awaited(self, header: RequestHeader, answer: Awaitable[Fields]) -> Reply:
        return (encode_response(header.api_key, header.version, header.correlation_id, await answer),)

    async def _forwarded(self, header: RequestHeader, body: memoryview, forwarder: Forwarder) -> Reply:
        answer = await forwarder.forward(header.api_key, header.version, body)
        return (response_prefix(header.api_key, header.version, header.correlation_id, len(answer)), answer)

    def _later(self, work: Awaitable[Reply]) -> PendingReply:
        """Run `work` as a task; the connection is muted until it is done, so there is one task per connection."""
        task = asyncio.ensure_future(self._finish(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        pending = PendingReply(on_cancel=lambda: _cancel(task))
        task.add_done_callback(lambda done: pending.complete(None if done.cancelled() else done.result()))
        return pending

    async def _finish(self, work: Awaitable[Reply]) -> Reply | None:
        try:
            return await work
        except (KafkaError, ProtocolError) as error:
            log.warning("a request could not be answered, its connection is closed: %s", error)
            return None
        except Exception:
            log.exception("a request handler failed, its connection is closed")
            return None

    async def close(self) -> None:
        """Cancel what is still being answered."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _cancel(task: asyncio.Task[Reply | None]) -> None:
    task.cancel()
