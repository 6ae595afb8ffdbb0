"""Rules for every test run: it has the same outcome each time, and it ends.

Time limits of single tests are in pyproject.toml.
"""

import faulthandler
import gc

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer

from tests.support.oracles.by_file import ByFileScheduling

settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("explore", settings.get_profile("steady"), derandomize=False, max_examples=1_000)
settings.load_profile("steady")
"""The same examples in every run, and no time limit for a single one: a loaded machine is not an error of the code.

`pytest --hypothesis-profile=explore` looks for new ones.
"""

STDERR_FD = 2
END_S = 120.0
"""Time for threads and processes that are still stopping."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFileScheduling | None:
    """Return the scheduler of `--dist loadfile`; None lets xdist use its own."""
    return ByFileScheduling(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture(autouse=True, scope="module")
def collected_modules_are_frozen() -> None:
    """Exempt the modules and tests that pytest has collected from garbage collections.

    Otherwise each full collection reads millions of objects, and simulations take twice their processor time. Tests of
    the garbage collector unfreeze all objects, so each file freezes them again.
    """
    if not gc.get_freeze_count():
        gc.collect()
        gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """End the process after END_S, because Python waits for running threads for ever.

    A worker of xdist without further tests waits for the others; the process that started it ends it. Libraries of C++
    report objects that are still frozen as leaks.
    """
    gc.unfreeze()
    if hasattr(config, "workerinput"):
        return
    faulthandler.dump_traceback_later(END_S, exit=True, file=STDERR_FD)
