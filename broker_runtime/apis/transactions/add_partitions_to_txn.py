"""AddPartitionsToTxn (24), versions 0 to 5: partitions that a producer is about to write in its transaction.

Producers send versions 0 to 3, each for one transaction. Leaders send versions 4 and 5 (KIP-890), for many transactions
at once: they ask whether partitions belong to a transaction, or add them for a client of transaction version 2.

As in Apache Kafka, one partition that cannot be written refuses all others of its transaction.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.apis.transactions.older_codes import code_in
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.topic_names import INTERNAL_TOPICS
from broker_runtime.slicing.steps import Steps, distinct, each, flattened, pages
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import AddPartitionsToTxnRequest
from broker_runtime.wire.versions import ADD_PARTITIONS_TO_TXN

_BY_LEADERS_SINCE = 4
_Partition = tuple[str, int]
_CodeOf = Callable[[_Partition], ErrorCode]
_OF_A_STEP = 32
_AT_ONCE = 64
"""Transactions of one request that are decided together."""


async def handle(request: AddPartitionsToTxnRequest, call: Call, context: BrokerContext) -> Fields:
    finish = call.completion.slices.finish
    if call.version >= _BY_LEADERS_SINCE:
        return await _of_leader(request, call, context)
    # Only versions before 4 have these fields.
    asked: Any = request
    producer = asked.v3_and_below_transactional_id, asked.v3_and_below_producer_id, asked.v3_and_below_producer_epoch
    partitions = await finish(_named(asked.v3_and_below_topics))
    access = call.access
    if access is not None and not access.transactional_id(producer[0]):
        codes: _CodeOf = partial(_same, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    else:
        refused = await finish(_not_writable(partitions, call, context))
        codes = refused.__getitem__ if refused else partial(_same, await _added(producer, partitions, call, context))
    return {"results_by_topic_v3_and_below": await finish(_results(partitions, codes))}


async def _added(
    producer: tuple[str, int, int], partitions: Sequence[_Partition], call: Call, context: BrokerContext
) -> ErrorCode:
    try:
        await context.transactions.add_partitions(*producer, partitions)
    except KafkaError as error:
        return code_in(error.code, call.version)
    return ErrorCode.NONE


async def _of_leader(request: AddPartitionsToTxnRequest, call: Call, context: BrokerContext) -> Fields:
    access = call.access
    if access is not None and not access.cluster():
        return {"error_code": ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "results_by_transaction": ()}
    results: list[Fields] = []
    for some in pages(request.transactions, _AT_ONCE):
        results += await asyncio.gather(*[_of_transaction(each, call, context) for each in some])
        await asyncio.sleep(0)
    return {"error_code": ErrorCode.NONE, "results_by_transaction": results}


async def _of_transaction(asked: Any, call: Call, context: BrokerContext) -> Fields:
    finish = call.completion.slices.finish
    partitions = await finish(_named(asked.topics))
    codes: Mapping[_Partition, ErrorCode] = await finish(_unknown(partitions, context))
    if not codes:
        producer = asked.transactional_id, asked.producer_id, asked.producer_epoch
        codes = await context.transactions.verify(*producer, partitions, add=not asked.verify_only)
    results = await finish(_results(partitions, codes.__getitem__))
    return {"transactional_id": asked.transactional_id, "topic_results": results}


def _same(code: ErrorCode, _: _Partition) -> ErrorCode:
    return code


def _named(topics: Iterable[Any]) -> Steps[list[_Partition]]:
    """Return the partitions of a request, each once, in the order in which it names them."""
    named = yield from flattened(((topic.name, index) for index in topic.partitions) for topic in topics)
    return (yield from distinct(named))


def _not_writable(
    partitions: Sequence[_Partition], call: Call, context: BrokerContext
) -> Steps[Mapping[_Partition, ErrorCode]]:
    """Return a code for each partition if a topic may not be written, or a partition does not exist; else nothing."""
    access, allowed, denied = call.access, dict[str, bool](), set[_Partition]()
    for some in pages(partitions, _OF_A_STEP):
        for place in some:
            topic = place[0]
            if topic not in allowed:
                allowed[topic] = topic not in INTERNAL_TOPICS and (access is None or access.topic(topic))
            if not allowed[topic]:
                denied.add(place)
        yield
    codes = dict((yield from _unknown(partitions, context)))
    for some in pages(partitions if denied else (), _OF_A_STEP):
        for place in some:
            if place in denied:
                codes[place] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif codes.get(place) is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                codes[place] = ErrorCode.OPERATION_NOT_ATTEMPTED
        yield
    return codes


def _unknown(partitions: Sequence[_Partition], context: BrokerContext) -> Steps[Mapping[_Partition, ErrorCode]]:
    """Return a code for each partition if one of them does not exist; else nothing."""
    image, codes, are_known = context.image, dict[_Partition, ErrorCode](), True
    for some in pages(partitions, _OF_A_STEP):
        for place in some:
            is_known = place[1] in image.partitions_of(place[0])
            are_known &= is_known
            codes[place] = ErrorCode.OPERATION_NOT_ATTEMPTED if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        yield
    return {} if are_known else codes


def _results(partitions: Sequence[_Partition], code_of: _CodeOf) -> Steps[list[Fields]]:
    by_topic: dict[str, list[Fields]] = {}
    for some in pages(partitions, _OF_A_STEP):
        for place in some:
            result = {"partition_index": place[1], "partition_error_code": code_of(place)}
            by_topic.setdefault(place[0], []).append(result)
        yield
    return (yield from each(by_topic.items(), _topic_results))


def _topic_results(found: tuple[str, list[Fields]]) -> Fields:
    return {"name": found[0], "results_by_partition": found[1]}


API = ApiSpec(key=ADD_PARTITIONS_TO_TXN, name="AddPartitionsToTxn", versions=(0, 5), handle=handle)
