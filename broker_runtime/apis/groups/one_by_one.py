"""Sends the parts of a very large request to coordinators, some of them in each slice."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from itertools import islice
from typing import TypeVar

from broker_runtime.apis.request.many_items import Pace

T = TypeVar("T")
R = TypeVar("R")

_AT_ONCE = 20
"""Parts in progress at the same time. Each is a task that waits for its coordinator; this many fit into a slice."""


async def one_by_one(parts: Iterable[T], ask: Callable[[T], Awaitable[R]], pace: Pace) -> AsyncIterator[R]:
    """Yield the answers of `ask` for the parts, in order. The caller need not keep all answers."""
    rest = iter(parts)
    while some := list(islice(rest, _AT_ONCE)):
        if len(some) == 1:
            yield await ask(some[0])
        else:
            await pace.next_slice()
            for answer in await asyncio.gather(*map(ask, some)):
                yield answer
