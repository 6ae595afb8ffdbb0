"""Groups of KIP-848 in Apache Kafka 4.3.0 and in this project: the same scripts, with separate offsets topics."""

from collections.abc import Iterator

import pytest

from tests.integration.differential.conftest import Pair, running
from tests.integration.differential.script import OF_CONSUMER_GROUPS
from tests.integration.differential.scripts.groups.consumer_groups import PROPERTIES
from tests.integration.differential.test_differences import compare

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def grouped_pair() -> Iterator[Pair]:
    with running((), PROPERTIES) as both:
        yield both


@pytest.mark.parametrize("name", OF_CONSUMER_GROUPS)
def test_members_are_told_the_same(grouped_pair: Pair, name: str) -> None:
    compare(grouped_pair, name, OF_CONSUMER_GROUPS[name])
