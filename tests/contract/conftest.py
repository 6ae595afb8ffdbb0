"""Fixtures of the suites that Apache Kafka and our broker both pass."""

from collections.abc import Iterator

import pytest

from tests.support.processes.single_node import SingleNode, running_node


@pytest.fixture(scope="module", params=[pytest.param("apache", marks=pytest.mark.full), "sluicegate"])
def node(request: pytest.FixtureRequest) -> Iterator[SingleNode]:
    with running_node(request.param) as running:
        yield running
