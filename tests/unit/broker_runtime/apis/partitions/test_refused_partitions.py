"""Refusals of requests that name very many partitions of one topic: no step answers all of them."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from broker_runtime.apis.partitions.alter_partition_reassignments import refused_topics
from broker_runtime.apis.topics.elect_leaders import refused_election
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.steps import Steps
from tests.support.requests.step_sizes import objects_of_a_step

PARTITIONS = 4_000
DENIED = KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
# Kept here, because steps do not free the request.
TOPIC: Any = SimpleNamespace(name="t", partitions=[SimpleNamespace(partition_index=n) for n in range(PARTITIONS)])
ELECTION: Any = SimpleNamespace(topic_partitions=[SimpleNamespace(topic="t", partitions=tuple(range(PARTITIONS)))])
Refused = Callable[[], Steps[Any]]


def _reassignments() -> Steps[Any]:
    return refused_topics([TOPIC], DENIED)


def _elections() -> Steps[Any]:
    return refused_election(ELECTION, DENIED)


@pytest.mark.parametrize("refused", [_reassignments, _elections], ids=["reassignments", "elections"])
def test_no_step_answers_all_partitions_of_a_topic_or_frees_them(refused: Refused) -> None:
    def answered() -> Steps[None]:
        kept.append((yield from refused()))

    kept: list[Any] = []
    assert objects_of_a_step(answered()) < PARTITIONS / 4
    assert kept
