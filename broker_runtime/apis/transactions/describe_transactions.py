"""DescribeTransactions (65), version 0 (KIP-664): the state of transactional ids that this broker coordinates."""

import asyncio

from broker_runtime.apis.request.access import Access
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.security.acls.model import AclOperation
from broker_runtime.slicing.steps import Steps, distinct, in_order, listed, pages
from broker_runtime.transactions.ids.partition_set import PartitionSet, indexes
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import DescribeTransactionsRequest
from broker_runtime.wire.versions import DESCRIBE_TRANSACTIONS

_OF_A_TURN = 64
_TOPICS_OF_A_STEP = 32


async def handle(request: DescribeTransactionsRequest, call: Call, context: BrokerContext) -> Fields:
    # Apache Kafka's clients name an id once; one that is named again would be described again.
    wanted = await call.completion.slices.finish(distinct(request.transactional_ids))
    described: list[Fields] = []
    for some in pages(wanted, _OF_A_TURN):
        described += [await _described(each, call, context) for each in some]
        await asyncio.sleep(0)
    return {"transaction_states": described}


async def _described(transactional_id: str, call: Call, context: BrokerContext) -> Fields:
    described: dict[str, object] = {
        "error_code": ErrorCode.NONE,
        "transactional_id": transactional_id,
        "transaction_state": "",
        "transaction_timeout": 0,
        "transaction_start_time": 0,
        "producer_id": 0,
        "producer_epoch": 0,
        "topics": (),
    }
    access = call.access
    if access is not None and not access.transactional_id(transactional_id):
        return described | {"error_code": ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
    try:
        found = await context.transactions.describe(transactional_id)
    except KafkaError as error:
        return described | {"error_code": error.code}
    topics = await call.completion.slices.finish(_topics(found.partitions, access))
    return described | {
        "transaction_state": found.state.shown,
        "transaction_timeout": found.timeout_ms,
        "transaction_start_time": found.started_ms,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "topics": topics,
    }


def _topics(partitions: PartitionSet, access: Access | None) -> Steps[list[Fields]]:
    found: list[Fields] = []
    for topics in pages((yield from in_order(partitions.masks)), _TOPICS_OF_A_STEP):
        for topic in topics:
            if access is None or access.topic(topic, AclOperation.DESCRIBE, hides=True):
                found.append({"topic": topic, "partitions": (yield from listed(indexes(partitions.masks[topic])))})
        yield
    return found


API = ApiSpec(key=DESCRIBE_TRANSACTIONS, name="DescribeTransactions", versions=(0, 0), handle=handle)
