"""Batches of a produce request whose records another thread checks before they are appended.

These are compressed and long batches, of compacted topics or if sluicegate.record.validation is `all`. The connection
waits for the check, which keeps the order of its requests. A client that disconnects in the meantime cancels no append.
"""

import logging
from asyncio import Future
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple
from uuid import UUID

from broker_runtime.apis.request.context import BrokerContext
from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, KafkaError, detached
from broker_runtime.slicing.steps import Steps
from broker_runtime.storage.records.record_check import check_records
from broker_runtime.storage.records.transactions import VerificationGuard
from broker_runtime.wire.reply import PendingReply

log = logging.getLogger(__name__)


class Unchecked(NamedTuple):
    """A partition's batch, copied from the request, and the place of its result in the reply."""

    place: int
    topic: str
    topic_id: UUID
    """Id of the topic, because the name may belong to another topic when the check has ended."""
    partition: int
    records: bytes
    config: TopicConfig
    guard: VerificationGuard | None = None
    """The guard that a batch presents which opens a transaction."""


def check_in_thread(
    unchecked: Sequence[Unchecked],
    context: BrokerContext,
    reply: PendingReply,
    append: Callable[[Unchecked, KafkaError | None], None],
    finish: Callable[[], None],
) -> Steps[None]:
    """Check each batch in another thread, then call `append` with the batch's fault or None.

    `finish` is called once at the end.
    """
    left = len(unchecked)
    limit = context.settings.config.sluicegate_record_validation_max_bytes

    def finish_one(item: Unchecked, error: KafkaError | None) -> None:
        nonlocal left
        append(item, error)
        left -= 1
        if not left:
            finish()

    def on_checked(item: Unchecked, looked: "Future[KafkaError | None]") -> None:
        if looked.cancelled():
            # The broker stops.
            reply.complete(None)
            return
        reply.guarded(partial(finish_one, item, looked.result()))()

    for item in unchecked:
        try:
            looked = context.offload(partial(_fault, item, limit))
        except KafkaError as error:
            finish_one(item, error)
        else:
            looked.add_done_callback(partial(on_checked, item))
        yield


def _fault(item: Unchecked, unpacked_bytes_max: int) -> KafkaError | None:
    """Return the fault of a batch, or None.

    Its traceback is removed, because its frames refer to the uncompressed batch.
    """
    partition = f"{item.topic}-{item.partition}"
    try:
        check_records(item.records, item.config, unpacked_bytes_max, partition)
    except KafkaError as error:
        return detached(error)
    except Exception:
        log.exception("the records of %s could not be checked", partition)
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the records could not be checked")
    return None
