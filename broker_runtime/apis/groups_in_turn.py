"""Requests of very many parts that coordinators are asked about: some of them in each slice."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from itertools import islice
from typing import TypeVar

from broker_runtime.apis.many_items import Pace

T = TypeVar("T")
R = TypeVar("R")

_AT_ONCE = 20
"""Each is a task that waits for its coordinator: so many begin, and later end, within a slice."""


async def in_turn(parts: Iterable[T], ask: Callable[[T], Awaitable[R]], pace: Pace) -> AsyncIterator[R]:
    """What `ask` answers for each, in their order. The caller need not keep all answers."""
    rest = iter(parts)
    while some := list(islice(rest, _AT_ONCE)):
        if len(some) == 1:
            yield await ask(some[0])
        else:
            await pace.turn()
            for answer in await asyncio.gather(*map(ask, some)):
                yield answer
