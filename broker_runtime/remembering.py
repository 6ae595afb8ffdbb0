"""Caches results of functions whose arguments clients choose, so that the caches stay small in bytes, too. Pure.

`functools.lru_cache` limits the number of entries only: a thousand names of 64 KiB, of four bytes for each character,
would take 256 MB for as long as the process runs. So results for long arguments are not cached.
"""

from collections.abc import Callable, Hashable
from functools import lru_cache, wraps
from typing import TypeVar, cast

F = TypeVar("F", bound=Callable[..., object])

CHARACTERS_MAX = 300
"""Default limit of the characters of all arguments together: names of topics and usual names of groups are shorter."""


class _TooLongError(Exception):
    """Passes a result on that is not cached, because lru_cache does not cache exceptions."""

    def __init__(self, result: object) -> None:
        self.result = result


def remembered(entries: int, characters: int = CHARACTERS_MAX) -> Callable[[F], F]:
    """Return a decorator that caches the last `entries` results of calls whose arguments have few characters.

    Arguments are positional; texts and bytes count, also inside tuples. A cached result costs one lookup: arguments are
    measured only if they are not in the cache.
    """

    def decorate(function: F) -> F:
        @lru_cache(entries)
        def cached(*arguments: Hashable) -> object:
            result = function(*arguments)
            if sum(_length(each, characters) for each in arguments) > characters:
                raise _TooLongError(result)
            return result

        @wraps(function)
        def call(*arguments: Hashable) -> object:
            try:
                return cached(*arguments)
            except _TooLongError as uncached:
                return uncached.result

        return cast("F", call)

    return decorate


def _length(value: object, most: int) -> int:
    """Return the number of characters of a value, or any number above `most` if it has more."""
    if isinstance(value, str | bytes):
        return len(value)
    if not isinstance(value, tuple):
        return 0
    found = len(value)
    for each in value:
        if found > most:
            break
        found += _length(each, most)
    return found
