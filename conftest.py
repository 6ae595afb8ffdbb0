"""What holds for every test run: it has the same outcome each time, and it ends.

Time limits of single tests are in pyproject.toml.
"""

import asyncio
import faulthandler
from collections.abc import Callable, Mapping

import pytest
from hypothesis import HealthCheck, settings

from tests.support.manual_clock import ManualClock
from tests.support.virtual_time import VirtualTimeLoop

settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("explore", settings.get_profile("steady"), derandomize=False, max_examples=1_000)
settings.load_profile("steady")
"""The same examples in every run, and no limit of time on a single one: a busy machine is no mistake of the code.
`pytest --hypothesis-profile=explore` looks for new ones."""

STDERR_FD = 2
END_S = 120.0
"""For threads and processes that are still stopping."""


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]] | None:
    if item.get_closest_marker("virtual_time") is None:
        return None
    return {"virtual time": lambda: VirtualTimeLoop(ManualClock())}


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """Python waits for threads that nobody has stopped, for ever."""
    faulthandler.dump_traceback_later(END_S, exit=True, file=STDERR_FD)
