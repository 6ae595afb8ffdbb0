"""Apache Kafka 4.3.0 and this project's broker coordinate the same scripted members of classic groups.

The scripts mostly wait, so several are played at a time, each with a separate group.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.integration.differential.comparing import Difference
from tests.integration.differential.conftest import Pair, running
from tests.integration.differential.scripts.groups.classic_groups import PROPERTIES, SEQUENCES, ready
from tests.integration.differential.test_differences import compare, play
from tests.integration.differential.wanted import unexplained

pytestmark = pytest.mark.full

AT_A_TIME = 4


@pytest.fixture(scope="module")
def coordinators() -> Iterator[Pair]:
    with running((), PROPERTIES) as pair:
        pair.play(ready)
        yield pair


@pytest.fixture(scope="module")
def played(coordinators: Pair) -> Iterator[Mapping[str, Future[list[Difference]]]]:
    with ThreadPoolExecutor(AT_A_TIME) as threads:
        yield {name: threads.submit(play, coordinators, sequence) for name, sequence in SEQUENCES.items()}


@pytest.mark.parametrize("name", SEQUENCES)
def test_members_are_told_the_same(
    coordinators: Pair, played: Mapping[str, Future[list[Difference]]], name: str
) -> None:
    """A sequence with differences is repeated alone, because times vary on a loaded machine."""
    if unexplained(name, played[name].result()):
        compare(coordinators, name, SEQUENCES[name])
