"""Work that can be interrupted: a generator that may be paused at each of its `yield`s. Pure.

`broker_runtime.slicing.slices` gives such work its share of the event loop.
"""

from collections import Counter, deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
A = TypeVar("A")
K = TypeVar("K", bound=Hashable)

Steps = Generator[None, None, T]
"""A generator that returns its result at the end.

The code between two of its `yield`s takes some tens of microseconds.
"""


class UnderWay(Protocol):
    """Steps that are running. `cancel` ends the steps before the next one."""

    def cancel(self) -> bool: ...


_ITEMS_OF_A_STEP = 8
"""Number of items that take a few microseconds each."""
_QUICK_ITEMS_OF_A_STEP = 128
"""Number of items that take a fraction of a microsecond each."""
_SORTED_IN_A_STEP = 500
_ITEMS_DRAINED_IN_A_STEP = 64


def at_once(steps: Steps[T]) -> T:
    """Run all steps without a break, and return their result: for little work, and for tests."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            result: T = ended.value
            return result


def in_steps_if(many: bool, steps: Steps[T]) -> T | Steps[T]:
    """Return the steps if `many` is set, otherwise their result, computed at once."""
    return steps if many else at_once(steps)


def let_go(items: list[Any]) -> Steps[None]:
    """Empty the list in steps, and long lists of mappings within its mappings.

    Freeing all at once would be one long step.
    """
    while items:
        last = items[-1]
        if isinstance(last, dict):
            for value in last.values():
                if isinstance(value, list) and len(value) > _ITEMS_OF_A_STEP and isinstance(value[0], dict):
                    yield from let_go(value)
        del last, items[-_ITEMS_OF_A_STEP:]
        yield


def drain(items: set[Any] | deque[Any] | dict[Any, Any]) -> Steps[None]:
    """Empty a set, a deque or a dictionary in steps. Its items must be small."""
    pop = items.popitem if isinstance(items, dict) else items.pop
    while items:
        for _ in range(min(len(items), _ITEMS_DRAINED_IN_A_STEP)):
            pop()
        yield


# The caller passes a copy, `list(topics)`, of a collection that may change between two steps.


def pages(items: Iterable[A], size: int) -> Iterator[list[A]]:
    """Yield all items in order, at most `size` at a time."""
    rest = iter(items)
    while page := list(islice(rest, size)):
        yield page


def each(items: Iterable[A], make: Callable[[A], T]) -> Steps[list[T]]:
    """Return `make(item)` for each item, in steps."""
    found: list[T] = []
    for some in pages(items, _ITEMS_OF_A_STEP):
        found += map(make, some)
        yield
    return found


def chosen(items: Iterable[A], test: Callable[[A], object]) -> Steps[list[A]]:
    """Return the items that pass the test, in steps."""
    found: list[A] = []
    for some in pages(items, _QUICK_ITEMS_OF_A_STEP):
        found += filter(test, some)
        yield
    return found


def listed(items: Iterable[A]) -> Steps[list[A]]:
    """Return the items of an iterable that produces each of them quickly."""
    found: list[A] = []
    for some in pages(items, _QUICK_ITEMS_OF_A_STEP):
        found += some
        yield
    return found


def flattened(groups: Iterable[Iterable[A]]) -> Steps[list[A]]:
    """Return the items of all groups, in steps: groups without items take time, too.

    Each group is used before the next one is made.
    """
    found: list[A] = []
    for number, group in enumerate(groups, 1):
        found += yield from listed(group)
        if number % _QUICK_ITEMS_OF_A_STEP == 0:
            yield
    return found


def counted(items: Iterable[K]) -> Steps[Counter[K]]:
    """Count how often each item occurs, in steps."""
    found: Counter[K] = Counter()
    for some in pages(items, _QUICK_ITEMS_OF_A_STEP):
        found.update(some)
        yield
    return found


def distinct(items: Iterable[K]) -> Steps[list[K]]:
    """Return each item once, in steps, in the order of the first occurrences."""
    found: dict[K, None] = {}
    for some in pages(items, _QUICK_ITEMS_OF_A_STEP):
        found.update(dict.fromkeys(some))
        yield
    return list(found)


def gathered(items: Iterable[K]) -> Steps[set[K]]:
    """Return the set of the items, made in steps."""
    found: set[K] = set()
    for some in pages(items, _QUICK_ITEMS_OF_A_STEP):
        found.update(some)
        yield
    return found


def in_order(items: Iterable[A], key: Callable[[A], Any] | None = None) -> Steps[list[A]]:
    """Return the items sorted, in steps: sort parts of them, then merge these."""
    parts: list[list[A]] = []
    for some in pages(items, _SORTED_IN_A_STEP):
        some.sort(key=key)
        parts.append(some)
        yield
    if len(parts) <= 1:
        return parts[0] if parts else []
    return (yield from listed(merge(*parts, key=key)))  # type: ignore[arg-type]
