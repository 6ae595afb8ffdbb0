"""Objects of steps that end early are freed some at a time."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from broker_runtime.errors import ProtocolError
from broker_runtime.slicing.letting_go import freed
from broker_runtime.slicing.slices import Slices
from broker_runtime.slicing.steps import Steps
from tests.support.fakes.manual_clock import ManualClock
from tests.support.requests.step_sizes import objects_of_a_step

OBJECTS = 2_000
FREED_S = 1e-5
"""Time that each object takes to be freed."""
LONGEST_S = 0.002


class Held:
    left = 0

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        Held.left += 1

    def __del__(self) -> None:
        Held.left -= 1
        self._clock.advance(FREED_S)


class Loop:
    """Measures the longest time between two iterations of the event loop."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.slices = Slices(self.clock.monotonic, slice_s=0.001)

    def items(self) -> list[dict[str, list[Held]]]:
        return [{"items": [Held(self.clock)]} for _ in range(OBJECTS)]

    async def longest_s(self) -> float:
        longest_s = 0.0
        for _ in range(OBJECTS):
            if not Held.left:
                break
            before_s = self.clock.monotonic()
            await asyncio.sleep(0)
            longest_s = max(longest_s, self.clock.monotonic() - before_s)
        assert Held.left == 0
        return longest_s

    def inner(self, error: Exception | None) -> Steps[int]:
        items = self.items()
        yield
        if error is not None:
            raise error
        while True:
            yield
        return len(items)

    def steps(self, error: Exception | None = None) -> Steps[int]:
        kept = {"a tuple": tuple(self.items())}
        count = yield from self.inner(error)
        return count + len(kept)


@pytest.fixture
def loop() -> Loop:
    Held.left = 0
    return Loop()


async def test_objects_of_cancelled_steps_are_freed_in_slices(loop: Loop) -> None:
    work = loop.slices.add(loop.steps())
    await asyncio.sleep(0)
    assert Held.left == 2 * OBJECTS
    work.cancel()
    assert await loop.longest_s() <= LONGEST_S
    assert len(loop.slices) == 0


async def test_objects_of_failed_steps_are_freed_in_slices(loop: Loop) -> None:
    work = loop.slices.add(loop.steps(ProtocolError("malformed", "the last item is cut")))
    await asyncio.sleep(0)
    assert await loop.longest_s() <= LONGEST_S
    assert isinstance(work.exception(), ProtocolError)


async def test_objects_with_other_references_are_unchanged(loop: Loop) -> None:
    shared: list[Any] = [{"a": [1, 2]}, (3, [4])]

    def steps() -> Steps[int]:
        same = shared
        yield
        while True:
            yield
        return len(same)

    loop.slices.add(steps()).cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert shared == [{"a": [1, 2]}, (3, [4])]


@pytest.mark.parametrize("kind", [dict, set, list, deque])
def test_a_large_container_is_emptied_in_steps(kind: Callable[[Any], Any]) -> None:
    texts = [f"number {number}" for number in range(OBJECTS)]
    content = dict.fromkeys(texts) if kind is dict else texts
    held = [kind(content)]
    del content, texts
    assert objects_of_a_step(freed(held)) < OBJECTS / 1.5
    assert not held
