"""Free the objects of steps that end early: the client has disconnected, or a step has failed. Pure.

A step that is not the last one may have hundreds of thousands of objects in its local variables. Ending the steps would
free all of them at once, which blocks the event loop for 10 ms. So a reference to each variable is taken first, and the
objects are freed in steps afterwards.
"""

import sys
from collections import deque
from dataclasses import is_dataclass
from gc import get_referents
from inspect import CO_GENERATOR
from types import GeneratorType
from typing import Any

from broker_runtime.slicing.steps import Steps

_FREED_IN_A_STEP = 32
_ONLY_HERE = 2
"""References to an object that is in a local variable only: that, and the argument of `getrefcount`."""


def held_by(steps: Steps[Any]) -> list[Any]:
    """Return the local variables of paused steps, and of the steps that these run."""
    held: list[Any] = []
    inner: object = steps
    while isinstance(inner, GeneratorType) and inner.gi_frame is not None:
        held += inner.gi_frame.f_locals.values()
        inner = inner.gi_yieldfrom
    return held


def held_by_failed(error: BaseException) -> list[Any]:
    """Return the local variables of the steps that have raised this error."""
    held: list[Any] = []
    traceback = error.__traceback__
    while traceback is not None:
        frame = traceback.tb_frame
        if frame.f_code.co_flags & CO_GENERATOR:
            held += frame.f_locals.values()
        traceback = traceback.tb_next
    return held


def _some_of(each: list[Any] | set[Any] | deque[Any] | dict[Any, Any]) -> list[Any]:
    """Remove some items, and return them: freeing a large container takes long even if its items stay."""
    if isinstance(each, dict):
        return [part for _ in range(_FREED_IN_A_STEP) for part in each.popitem()]
    return [each.pop() for _ in range(_FREED_IN_A_STEP)]


def freed(held: list[Any]) -> Steps[None]:
    """Empty the list, and free the objects that nothing else refers to, some of them in each step.

    No object to which other code refers is changed.
    """
    while held:
        for _ in range(min(len(held), _FREED_IN_A_STEP)):
            each = held.pop()
            if sys.getrefcount(each) > _ONLY_HERE:
                continue
            if isinstance(each, list | set | deque | dict) and len(each) > _FREED_IN_A_STEP:
                held.append(each)
                held += _some_of(each)
            elif isinstance(each, list | tuple | set | deque):
                held += each
            elif isinstance(each, dict):
                held += each.values()
            elif is_dataclass(each):
                held += get_referents(each)
        yield
