"""The state that remains after a term of leadership."""

import asyncio
from typing import Never

import pytest

from sluicegate_operator.handlers.process.telemetry import REGISTRY
from sluicegate_operator.handlers.term import lead
from sluicegate_operator.settings import read_settings
from tests.support.fakes.kube.memory_kube import MemoryKube

pytestmark = pytest.mark.virtual_time


class _Cache:
    async def subscribe(self, subscriber: object) -> None:
        """Do nothing: there are no events."""

    def unsubscribe(self, subscriber: object) -> None:
        """Do nothing."""


class _Kube(MemoryKube):
    cache = _Cache()  # type: ignore[assignment]


def _never(cache: object) -> Never:
    raise AssertionError("no quota selects pods")


async def test_the_figures_of_the_queues_end_with_the_term() -> None:
    stop = asyncio.Event()
    settings = read_settings({}, None, None, None)
    term = asyncio.create_task(lead(_Kube(), settings, stop, lambda: True, _never))  # type: ignore[arg-type]
    await asyncio.sleep(1)
    assert "quotas" in _queues_shown()
    stop.set()
    await term
    assert _queues_shown() == set()


def _queues_shown() -> set[str]:
    figures = [family for family in REGISTRY.collect() if family.name.startswith("sluicegate_queue_")]
    return {sample.labels["queue"] for family in figures for sample in family.samples}
