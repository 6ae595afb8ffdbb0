"""Groups of both protocols in Apache Kafka 4.3.0 and here, under each policy of migration."""

from collections.abc import Iterator

import pytest

from tests.integration.differential.conftest import Pair, running
from tests.integration.differential.scripts.groups.mixed_groups import (
    OF_MIXED_GROUPS,
    PROPERTIES_BY_POLICY,
    WITH_POLICY,
    forbidden,
)
from tests.integration.differential.test_differences import compare

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def migrating_pair() -> Iterator[Pair]:
    with running((), PROPERTIES_BY_POLICY["bidirectional"]) as both:
        yield both


@pytest.mark.parametrize("name", OF_MIXED_GROUPS)
def test_members_are_told_the_same(migrating_pair: Pair, name: str) -> None:
    compare(migrating_pair, name, OF_MIXED_GROUPS[name])


@pytest.mark.parametrize("name", WITH_POLICY)
def test_a_policy_forbids_the_same(name: str) -> None:
    with running((), PROPERTIES_BY_POLICY[WITH_POLICY[name]]) as both:
        compare(both, name, forbidden)
