"""Answers that are packed at the same time share one limit: packing pauses, and each client gets its answer."""

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, cast

import pytest

from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.apis.request.dispatching.dispatch import Dispatcher
from broker_runtime.slicing.slices import Slices
from broker_runtime.wire.encoding.encode import MadeItems
from broker_runtime.wire.limits import RequestLimits
from broker_runtime.wire.messages import decode_response
from broker_runtime.wire.reply import PendingReply, Reply
from broker_runtime.wire.versions import DESCRIBE_CONFIGS
from tests.support.requests.calls import NotedConnection
from tests.support.requests.request_frames import encode_request

CLIENTS = 20
ANSWER_BYTES = 2_000_000
LIMIT = 5_000_000
VALUE = "v" * 20_000
HEADER_BYTES = 9
"""The size, the correlation id and the tagged fields of the header."""


def _entry(_: int) -> Any:
    entry = {
        "name": "k",
        "value": VALUE,
        "read_only": False,
        "config_source": 5,
        "is_sensitive": False,
        "config_type": 2,
        "documentation": None,
    }
    yield
    return {
        "error_code": 0,
        "error_message": None,
        "resource_type": 2,
        "resource_name": "t",
        "configs": [{**entry, "synonyms": []}],
    }


def _answer() -> dict[str, Any]:
    """Return an answer of ANSWER_BYTES, whose items are made when they are packed."""
    return {"results": MadeItems(list(range(ANSWER_BYTES // len(VALUE))), _entry)}


class Clients:
    """Clients that ask at the same time. `most_bytes` is the maximum of memory that their answers had."""

    def __init__(self, *, as_coroutine: bool) -> None:
        async def later() -> Any:
            await asyncio.sleep(0)
            return _answer()

        def handle(*_: object) -> Any:
            return later() if as_coroutine else _answer()

        api: ApiSpec[Any] = ApiSpec(DESCRIBE_CONFIGS, "DescribeConfigs", (4, 4), handle)
        # Each reading of the clock takes a hundredth of a millisecond.
        self.slices = Slices(partial(next, count(0.0, 0.00001)))
        limits = RequestLimits(queued_response_bytes_max=LIMIT)
        self.dispatcher: Dispatcher[Any] = Dispatcher(
            cast("BrokerContext", _Node()), [api], long_requests=(self.slices, limits)
        )
        self.answers = self.dispatcher.completion.answers
        self.most_bytes = 0
        self.most_paused = 0
        self.replies: list[PendingReply] = []

    def ask(self) -> None:
        content = {"resources": [], "include_synonyms": False, "include_documentation": False}
        frame = memoryview(encode_request(DESCRIBE_CONFIGS, 4, 7, content))[4:]
        reply = self.dispatcher.handle(frame, NotedConnection())
        assert isinstance(reply, PendingReply)
        self.replies.append(reply)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Run the event loop until the condition holds, and note the most memory that was in use."""
        async with asyncio.timeout(60):
            for _ in iter(condition, True):
                self.most_bytes = max(self.most_bytes, self.answers.used)
                self.most_paused = max(self.most_paused, self.answers.paused)
                await asyncio.sleep(0)

    async def until_answered(self) -> list[Reply | None]:
        found: dict[int, Reply | None] = {}
        for number, reply in enumerate(self.replies):
            reply.on_complete(partial(found.__setitem__, number))
        await self.until(lambda: all(reply.done for reply in self.replies))
        return [found.get(number) for number in range(len(self.replies))]


class _Node:
    class clock:  # noqa: N801 - an attribute of the context
        monotonic = staticmethod(partial(next, count(0.0, 0.00001)))


@pytest.mark.parametrize("as_coroutine", [False, True], ids=["fields", "a coroutine"])
async def test_all_answers_are_packed_within_the_limit_and_one_answer(as_coroutine: bool) -> None:
    clients = Clients(as_coroutine=as_coroutine)
    for _ in range(CLIENTS):
        clients.ask()
    for reply in await clients.until_answered():
        assert reply is not None
        body = memoryview(b"".join(cast("tuple[bytes, ...]", reply)))[HEADER_BYTES:]
        assert len(decode_response(DESCRIBE_CONFIGS, 4, body).results) == ANSWER_BYTES // len(VALUE)
    assert LIMIT < clients.most_bytes < LIMIT + ANSWER_BYTES
    assert clients.most_paused > CLIENTS / 2
    assert (clients.answers.used, clients.answers.paused, len(clients.slices)) == (0, 0, 0)


@pytest.mark.parametrize("as_coroutine", [False, True], ids=["fields", "a coroutine"])
async def test_the_answers_of_clients_that_have_gone_release_their_memory(as_coroutine: bool) -> None:
    clients = Clients(as_coroutine=as_coroutine)
    for _ in range(CLIENTS):
        clients.ask()
    await clients.until(lambda: clients.answers.paused >= CLIENTS / 2)
    for reply in clients.replies[:-1]:
        reply.cancel()
    assert (await clients.until_answered())[-1] is not None
    await clients.until(lambda: not len(clients.slices))
    assert (clients.answers.used, clients.answers.paused) == (0, 0)
