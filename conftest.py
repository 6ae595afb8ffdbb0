"""Every test run ends: one that hangs after its last test says where, and is ended.

The rest is in pyproject.toml: a test has a time limit, and one that this cannot interrupt ends the run with all stacks.
"""

import faulthandler

import pytest

STDERR_FD = 2
END_S = 120.0
"""For threads and processes that are still stopping."""


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """Python waits for threads that nobody has stopped, for ever."""
    faulthandler.dump_traceback_later(END_S, exit=True, file=STDERR_FD)
