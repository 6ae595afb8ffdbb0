"""Blocks of producer ids (KIP-730): persisted before they are handed out, never handed out twice. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from broker_runtime.controller.registration import registered
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.producers import ProducerIdsRecord
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord

BLOCK_SIZE = 1_000
_LAST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """A block of `size` producer ids from `start` on, which one broker assigns."""

    start: int
    size: int


def allocate(
    broker_id: int, broker_epoch: int, image: MetadataImage
) -> tuple[Sequence[MetadataRecord], ProducerIdBlock]:
    registered(broker_id, broker_epoch, image)
    start = image.producers.next_id
    if start > _LAST - BLOCK_SIZE:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "all producer ids are used up")
    return [ProducerIdsRecord(broker_id, broker_epoch, start + BLOCK_SIZE)], ProducerIdBlock(start, BLOCK_SIZE)
