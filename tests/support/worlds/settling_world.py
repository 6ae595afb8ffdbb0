"""A world that is planned again until nothing is left to do, for tests of the convergence of planning."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

from hypothesis import strategies as st

from sluicegate_operator.api import BrokerCluster, parse_resource
from tests.support.manifests.bad_manifests import cluster

NOW = datetime(2026, 1, 2, tzinfo=UTC)
LOOKS_MAX = 4
"""Enough while nothing else changes the world."""
T = TypeVar("T")


def settles(look: Callable[[], bool]) -> None:
    """Call `look` until it has nothing to do. `look` plans and acts, and returns whether there was anything to do."""
    for _ in range(LOOKS_MAX):
        if not look():
            return
    raise AssertionError(f"there is still something to do after {LOOKS_MAX} looks")


def some(keys: list[T], values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[T, Any]]:
    return st.dictionaries(st.sampled_from(keys), values, max_size=len(keys))


def shop(**spec: Any) -> BrokerCluster:
    made = {"uid": "6264ce5a-f913-40b0-85d0-94474e8cc1d2", "creationTimestamp": NOW.isoformat(), "generation": 1}
    document = cluster(**spec)
    found = parse_resource(document | {"metadata": document["metadata"] | made})
    assert isinstance(found, BrokerCluster)
    return found
