"""Requests of very many parts that coordinators are asked about: some of them at a time, whatever one request names."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

_AT_ONCE = 100
"""Each is a task that waits for its coordinator: so many begin within a millisecond or two."""


async def in_turn(parts: Iterable[T], ask: Callable[[T], Awaitable[R]]) -> AsyncIterator[R]:
    """What `ask` answers for each, in their order. Whoever takes the answers need not keep them all."""
    rest = iter(parts)
    while some := list(islice(rest, _AT_ONCE)):
        if len(some) == 1:
            yield await ask(some[0])
        else:
            for answer in await asyncio.gather(*map(ask, some)):
                yield answer
