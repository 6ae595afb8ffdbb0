"""Count of the turns that other tasks had on the event loop while something ran.

with counted_iterations() as iterations:
    await something()
assert iterations.count >= 20
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Iterations:
    """Number of iterations so far."""

    count = 0


@contextmanager
def counted_iterations() -> Iterator[Iterations]:
    loop, iterations = asyncio.get_running_loop(), Iterations()
    ended = False

    def tick() -> None:
        if not ended:
            iterations.count += 1
            loop.call_soon(tick)

    loop.call_soon(tick)
    try:
        yield iterations
    finally:
        ended = True
