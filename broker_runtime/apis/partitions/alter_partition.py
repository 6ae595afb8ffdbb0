"""AlterPartition (56), versions 2 to 3 (KIP-497; KIP-903: version 3 has the members' broker epochs).

Each partition succeeds or fails on its own. Its result contains the controller's current state.
"""

from collections.abc import Sequence
from typing import cast
from uuid import UUID

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ZERO_UUID, ApiSpec, ControllerContext
from broker_runtime.controller.partitions.partition_changes import (
    EPOCH_UNKNOWN,
    RECOVERED,
    IsrChange,
    IsrChanged,
    change_isr,
)
from broker_runtime.controller.registration import registered
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.slicing.steps import Steps
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import AlterPartitionRequest, PartitionData, PartitionDataV2
from broker_runtime.wire.versions import ALTER_PARTITION

_EPOCHS_SINCE = 3


async def handle(request: AlterPartitionRequest, call: Call, context: ControllerContext) -> Fields:
    try:
        topics = await context.controller.submit(lambda image: _alter_all(request, call, image))
    except KafkaError as error:
        return {"error_code": error.code, "topics": ()}
    return {"error_code": ErrorCode.NONE, "topics": topics}


def _alter_all(
    request: AlterPartitionRequest, call: Call, image: MetadataImage
) -> Steps[tuple[Sequence[MetadataRecord], Sequence[Fields]]]:
    registered(request.broker_id, request.broker_epoch, image)
    records: list[MetadataRecord] = []
    answers: list[Fields] = []
    seen: set[tuple[UUID | None, int]] = set()
    for topic in request.topics:
        partitions = []
        for asked in topic.partitions:
            yield
            try:
                if (topic.topic_id, asked.partition_index) in seen:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "the partition occurs twice in the request")
                seen.add((topic.topic_id, asked.partition_index))
                changed = change_isr(request.broker_id, _change(topic.topic_id or ZERO_UUID, asked, call), image)
            except KafkaError as error:
                partitions.append(_refused(asked.partition_index, error.code))
                continue
            records += changed.records
            partitions.append(_answer(asked.partition_index, changed))
        answers.append({"topic_id": topic.topic_id, "partitions": partitions})
        yield
    return records, answers


def _change(topic_id: UUID, asked: PartitionData, call: Call) -> IsrChange:
    if call.version >= _EPOCHS_SINCE:
        isr = [(int(member.broker_id), int(member.broker_epoch)) for member in asked.new_isr_with_epochs]
    else:
        isr = [(broker_id, EPOCH_UNKNOWN) for broker_id in cast("PartitionDataV2", asked).new_isr]
    return IsrChange(
        topic_id, asked.partition_index, asked.leader_epoch, asked.partition_epoch, isr, asked.leader_recovery_state
    )


def _answer(index: int, changed: IsrChanged) -> Fields:
    if changed.code != ErrorCode.NONE:
        return _refused(index, changed.code)
    part = changed.partition
    return {
        "partition_index": index,
        "error_code": ErrorCode.NONE,
        "leader_id": part.leader,
        "leader_epoch": part.leader_epoch,
        "isr": part.isr,
        "leader_recovery_state": RECOVERED,
        "partition_epoch": part.partition_epoch,
    }


def _refused(index: int, code: ErrorCode) -> Fields:
    """Return the result with an error. The state has no meaning, so it is zeros, as in Kafka."""
    return {
        "partition_index": index,
        "error_code": code,
        "leader_id": 0,
        "leader_epoch": 0,
        "isr": (),
        "leader_recovery_state": RECOVERED,
        "partition_epoch": 0,
    }


API = ApiSpec(key=ALTER_PARTITION, name="AlterPartition", versions=(2, 3), handle=handle, on_standby=True)
