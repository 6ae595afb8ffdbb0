"""Batches of a produce request whose records are looked at in another thread before they are appended.

Compressed ones and long ones, of compacted topics and where sluicegate.record.validation asks for it. The connection
waits meanwhile, so the order of its requests is kept; what its client does meanwhile does not undo what it has asked.
"""

import logging
from asyncio import Future
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple
from uuid import UUID

from broker_runtime.apis.context import BrokerContext
from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.record_check import check_records
from broker_runtime.wire.reply import PendingReply

log = logging.getLogger(__name__)


class Unchecked(NamedTuple):
    """A partition's batch, copied out of the request, and where its result goes in the reply."""

    place: int
    topic: str
    topic_id: UUID
    """The name may be another topic's when the records have been looked at."""
    partition: int
    records: bytes
    config: TopicConfig


def look_aside(
    unchecked: Sequence[Unchecked],
    context: BrokerContext,
    reply: PendingReply,
    append: Callable[[Unchecked, KafkaError | None], None],
    finish: Callable[[], None],
) -> None:
    """Calls `append` for each batch when it was looked at, with what is wrong with it, and `finish` after the last."""
    left = len(unchecked)
    limit = context.settings.config.sluicegate_record_validation_max_bytes

    def tell(item: Unchecked, error: KafkaError | None) -> None:
        nonlocal left
        append(item, error)
        left -= 1
        if not left:
            finish()

    def looked_at(item: Unchecked, looked: "Future[None]") -> None:
        if looked.cancelled():
            # The broker stops.
            reply.complete(None)
            return
        error = looked.exception()
        if error is not None and not isinstance(error, KafkaError):
            log.error("the records of %s-%d could not be checked", item.topic, item.partition, exc_info=error)
            error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the records could not be checked")
        reply.guarded(partial(tell, item, error))()

    for item in unchecked:
        partition = f"{item.topic}-{item.partition}"
        try:
            looked = context.run_aside(partial(check_records, item.records, item.config, limit, partition))
        except KafkaError as error:
            tell(item, error)
        else:
            looked.add_done_callback(partial(looked_at, item))
