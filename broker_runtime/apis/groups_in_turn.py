"""Requests that ask about many groups: some of them at a time, whatever one request names."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

_AT_ONCE = 100
"""Each is a task that waits for its coordinator: so many begin within a millisecond or two."""


async def in_turn(groups: Sequence[T], ask: Callable[[T], Awaitable[R]]) -> list[R]:
    """What `ask` answers for each, in their order."""
    answers: list[R] = []
    for begin in range(0, len(groups), _AT_ONCE):
        answers += await asyncio.gather(*map(ask, groups[begin : begin + _AT_ONCE]))
    return answers
