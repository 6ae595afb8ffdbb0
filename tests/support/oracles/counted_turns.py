"""Count of the turns that other tasks had on the event loop while something ran.

with counted_turns() as turns:
    await something()
assert turns.count >= 20
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Turns:
    """Number of turns so far."""

    count = 0


@contextmanager
def counted_turns() -> Iterator[Turns]:
    loop, turns = asyncio.get_running_loop(), Turns()
    ended = False

    def tick() -> None:
        if not ended:
            turns.count += 1
            loop.call_soon(tick)

    loop.call_soon(tick)
    try:
        yield turns
    finally:
        ended = True
