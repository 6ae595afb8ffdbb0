"""DescribeProducers (KIP-664): each partition once, and a limit on all producers of the response."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker_runtime.apis.produce.describe_producers import handle
from broker_runtime.slicing.steps import at_once
from broker_runtime.storage.records.producers import StoredBatch
from broker_runtime.wire.limits import RequestLimits, ResponseTooLargeError
from broker_runtime.wire.requests import DescribeProducersRequest

PRODUCERS = 1_000


def described(indexes: list[int], response_bytes_max: int = 1_000_000) -> list[Any]:
    newest = [(number, 0, StoredBatch(0, 0, 0, 0, 0)) for number in range(PRODUCERS)]
    log = SimpleNamespace(producers=SimpleNamespace(newest_batches=lambda: newest))
    context: Any = SimpleNamespace(led_log=lambda topic, index: (log, 4))
    limits = RequestLimits(response_bytes_max=response_bytes_max)
    call: Any = SimpleNamespace(access=None, completion=SimpleNamespace(limits=limits))
    asked = SimpleNamespace(name="orders", partition_indexes=indexes)
    request = cast("DescribeProducersRequest", SimpleNamespace(topics=[asked]))
    (topic,) = cast("Any", at_once(handle(request, call, context)))["topics"]
    return cast("list[Any]", topic["partitions"])


def test_a_partition_that_is_named_again_is_described_once() -> None:
    found = described([3, 3, 5, 3])
    assert [partition["partition_index"] for partition in found] == [3, 5]
    assert [len(partition["active_producers"]) for partition in found] == [PRODUCERS, PRODUCERS]


def test_a_response_that_would_be_too_large_ends_at_the_limit() -> None:
    with pytest.raises(ResponseTooLargeError):
        described(list(range(100)), 50_000)
