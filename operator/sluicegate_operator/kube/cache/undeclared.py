"""Statuses under CRDs that are older than the operator.

The API server refuses a whole apply for one field that it does not know. The fields that it names are left out, and the
rest of the status is written.
"""

import re
import time
from collections.abc import Callable, Mapping
from typing import Any

KNOWN_FOR_S = 300.0
"""Seconds after which undeclared fields are written again, because a newer CRD may have been applied."""
_NAMED = re.compile(r"\.status((?:\.\w+)+): field not declared in schema")


def undeclared_fields(refusal: str) -> tuple[str, ...]:
    """Return the paths below status that the API server's refusal names, such as `storage.size`.

    A refusal names no fields inside lists.
    """
    return tuple(dict.fromkeys(path.removeprefix(".") for path in _NAMED.findall(refusal)))


def without_fields(status: Mapping[str, Any], paths: tuple[str, ...]) -> dict[str, Any]:
    told = dict(status)
    for path in paths:
        name, _, rest = path.partition(".")
        if not rest:
            told.pop(name, None)
        elif isinstance(told.get(name), Mapping):
            told[name] = without_fields(told[name], (rest,))
    return told


class UndeclaredFields:
    """The fields of statuses that CRDs do not declare, by the name of the CRD, as the API server has named them.

    A status that differs from the object's status only in such fields needs no write. `now_s` returns seconds.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._known: dict[str, dict[str, float]] = {}
        """Paths below status, with the time when the API server last named them."""

    def note(self, crd: str, paths: tuple[str, ...]) -> bool:
        """Record that the API server has refused these fields; return whether any is refused for the first time."""
        known = self._known.setdefault(crd, {})
        is_first = not known.keys() >= set(paths)
        known.update(dict.fromkeys(paths, self._now_s()))
        return is_first

    def of(self, crd: str) -> tuple[str, ...]:
        """Return the paths below status that the CRD did not declare when a status was last written."""
        oldest_s = self._now_s() - KNOWN_FOR_S
        return tuple(path for path, at_s in self._known.get(crd, {}).items() if at_s > oldest_s)
