"""What holds for every test run: it has the same outcome each time, and it ends.

Time limits of single tests are in pyproject.toml.
"""

import faulthandler

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.support.spark_session", "tests.support.two_days"]

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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Workers of xdist (`--dist loadgroup`) take a file as a whole, for what its tests share, and one of them takes all
    that share the Spark session."""
    for item in items:
        shares_spark = "spark" in getattr(item, "fixturenames", ())
        item.add_marker(pytest.mark.xdist_group("spark" if shares_spark else item.nodeid.partition("::")[0]))


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Python waits for threads that nobody has stopped, for ever.

    A worker of xdist that has no more tests waits for the others; the process that began it ends it.
    """
    if hasattr(config, "workerinput"):
        return
    faulthandler.dump_traceback_later(END_S, exit=True, file=STDERR_FD)
