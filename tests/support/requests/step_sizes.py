"""The sizes of steps, in objects: unlike times, they are the same on a busy machine."""

import gc
import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from broker_runtime.slicing.steps import Steps


def objects_of_a_step(steps: Steps[Any]) -> int:
    """Run all steps. Return how many objects a step has made, or freed, at most."""

    def counts() -> Iterator[int]:
        yield sys.getallocatedblocks()
        for _ in steps:
            yield sys.getallocatedblocks()
        yield sys.getallocatedblocks()

    gc.disable()
    try:
        return max(abs(after - before) for before, after in pairwise(list(counts())))
    finally:
        gc.enable()
