"""What the suites share that Apache Kafka and our broker both pass."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.support.apache_kafka import KafkaUnavailable
from tests.support.single_node import IMPLEMENTATIONS, SingleNode, running_node


@pytest.fixture(scope="module", params=IMPLEMENTATIONS)
def node(request: pytest.FixtureRequest) -> Iterator[SingleNode]:
    with ExitStack() as stop:
        try:
            running = stop.enter_context(running_node(request.param))
        except KafkaUnavailable as error:
            pytest.skip(str(error))
        yield running
