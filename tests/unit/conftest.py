"""Async tests with the marker `virtual_time` run in virtual time."""

import asyncio
from collections.abc import Callable, Mapping

import pytest

from tests.support.fakes.manual_clock import ManualClock
from tests.support.fakes.virtual_time import VirtualTimeLoop


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.get_closest_marker("virtual_time") is None:
        return {"real time": asyncio.new_event_loop}
    return {"virtual time": lambda: VirtualTimeLoop(ManualClock())}
