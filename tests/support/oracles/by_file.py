"""The assignment of tests to workers of pytest-xdist: whole files, and one worker for all that share the Spark session.

The tests of a file share processes that are costly to start; a second Spark session would be a second JVM. `--dist
loadgroup` should do that from marks, but with this pytest it distributes single tests: it renames the items, and pytest
no longer asks for that name.
"""

from functools import cache
from pathlib import Path
from typing import Final

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

SPARK: Final = "spark"
_TAKES_THE_SESSION: Final = "spark: SparkSession"


class ByFileScheduling(LoadScopeScheduling):
    """Groups are files, in the order in which they were collected; those with the Spark session are one group."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        self._root = config.rootpath

    def _split_scope(self, nodeid: str) -> str:
        return group_of(self._root / nodeid.partition("::")[0])


@cache
def group_of(file: Path) -> str:
    """The group of all tests of this file. Raises OSError."""
    return SPARK if _TAKES_THE_SESSION in file.read_text() else str(file)
