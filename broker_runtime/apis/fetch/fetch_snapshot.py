"""FetchSnapshot (59), version 0 (KIP-630): the newest snapshot of the metadata, piece by piece.

In Kafka the answer to a fetch contains the snapshot's id. Here a fetch of offsets that the log does not have gets
OFFSET_OUT_OF_RANGE. The broker then requests end offset -1, "the newest". The answer contains the snapshot's id, which
the broker uses to request the other pieces.
"""

from typing import Any

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, ControllerContext
from broker_runtime.controller.journal.seam import Snapshot
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.topic_names import METADATA_TOPIC
from broker_runtime.slicing.steps import Steps
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import FetchSnapshotRequest, PartitionSnapshot
from broker_runtime.wire.versions import FETCH_SNAPSHOT

NEWEST = -1
PIECE_BYTES_MAX = 8 * 1024 * 1024


def handle(request: FetchSnapshotRequest, call: Call, context: ControllerContext) -> Steps[Fields]:
    if request.cluster_id not in (None, context.cluster_id):
        return {"error_code": ErrorCode.INCONSISTENT_CLUSTER_ID, "topics": []}
    left = min(request.max_bytes, PIECE_BYTES_MAX)
    topics = []
    for topic in request.topics:
        partitions = []
        for part in topic.partitions:
            piece = _piece(topic.name, part, left, context)
            left -= len(piece["unaligned_records"])
            partitions.append(piece)
            yield
        topics.append({"name": topic.name, "partitions": partitions})
        yield
    return {"error_code": ErrorCode.NONE, "topics": topics}


def _piece(topic: str, asked: PartitionSnapshot, max_bytes: int, context: ControllerContext) -> dict[str, Any]:
    try:
        snapshot = _snapshot(topic, asked, context)
    except KafkaError as error:
        return _answer(asked, asked.snapshot_id.end_offset, asked.snapshot_id.epoch, error.code)
    answer = _answer(asked, snapshot.end_offset, snapshot.epoch, ErrorCode.NONE)
    piece = snapshot.payload[asked.position : asked.position + max_bytes]
    return {**answer, "size": len(snapshot.payload), "unaligned_records": piece}


def _snapshot(topic: str, asked: PartitionSnapshot, context: ControllerContext) -> Snapshot:
    controller = context.controller
    if topic != METADATA_TOPIC or asked.partition != 0:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not controller.active:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    snapshot = controller.history.snapshot
    wanted = asked.snapshot_id
    if snapshot is None or wanted.end_offset not in (NEWEST, snapshot.end_offset):
        raise KafkaError(ErrorCode.SNAPSHOT_NOT_FOUND)
    if wanted.end_offset != NEWEST and wanted.epoch != snapshot.epoch:
        raise KafkaError(ErrorCode.SNAPSHOT_NOT_FOUND)
    if not 0 <= asked.position <= len(snapshot.payload):
        raise KafkaError(ErrorCode.POSITION_OUT_OF_RANGE)
    return snapshot


def _answer(asked: PartitionSnapshot, end_offset: int, epoch: int, code: ErrorCode) -> dict[str, Any]:
    return {
        "index": asked.partition,
        "error_code": code,
        "snapshot_id": {"end_offset": end_offset, "epoch": epoch},
        "current_leader": {"leader_id": -1, "leader_epoch": -1},
        "size": 0,
        "position": asked.position,
        "unaligned_records": b"",
    }


API = ApiSpec(key=FETCH_SNAPSHOT, name="FetchSnapshot", versions=(0, 0), handle=handle, on_standby=True)
