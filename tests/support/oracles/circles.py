"""A check that code leaves no reference cycles, which only the garbage collector frees."""

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_circles() -> Iterator[None]:
    """Fail if the code within leaves reference cycles. It must leave no local variable that refers to what it made.

    Objects that exist before do not count: threads of earlier tests may release some of them meanwhile.
    """
    gc.collect()
    gc.disable()
    gc.freeze()
    try:
        yield
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = Counter(type(each).__qualname__ for each in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.unfreeze()
        gc.enable()
    assert not left, f"left to the garbage collector: {dict(left.most_common(10))}"
