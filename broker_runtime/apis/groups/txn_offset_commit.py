"""TxnOffsetCommit (28), versions 0 to 5: commits offsets of a group in a producer's transaction (KIP-98, KIP-447).

- The transaction's coordinator confirms first that the group is part of the transaction. From version 5 on, it adds the
  group (KIP-890). Nothing is asked if the transaction already has offsets in the group's partition.
- From version 3 on, the request has the member and the generation of the consumer, so that a zombie is refused.
- An error of the group or of the transaction is the error of all partitions.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Iterable, Sequence
from itertools import chain
from struct import Struct

from broker_runtime.apis.groups.commit_request import CommitRequest, all_refused, answer_parts, read_topics
from broker_runtime.apis.groups.one_by_one import one_by_one
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.apis.request.many_items import Pace, Packed, chunks, emptied, kept
from broker_runtime.apis.request.verification import (
    COMMIT_ADDS_SINCE,
    TransactionOf,
    check_room_for_transaction,
    commit_error,
)
from broker_runtime.coordination.seam import TransactionalProducer
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.group import Committer
from broker_runtime.groups.offsets.commit import OffsetToCommit, commit_in_transaction
from broker_runtime.groups.offsets.delete import CHUNK
from broker_runtime.groups.shards.term import Term
from broker_runtime.metadata.topic_names import GROUPS_TOPIC
from broker_runtime.storage.records.transactions import UNGUARDED, VerificationGuard
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.reply import Reply
from broker_runtime.wire.versions import TXN_OFFSET_COMMIT
from kafka_bytes.batches import NO_SEQUENCE

log = logging.getLogger(__name__)

_LOADING_SINCE = 2
"""The first version whose clients know COORDINATOR_LOAD_IN_PROGRESS."""
_EPOCH_SINCE = 2
_MEMBER_SINCE = 3
_PRODUCER, _GENERATION = Struct(">qh"), Struct(">i")


def handle(reader: RequestReader, call: Call, context: BrokerContext) -> Awaitable[Reply]:
    return _handle(kept(reader, call), call, context)


async def _handle(reader: RequestReader, call: Call, context: BrokerContext) -> Reply:
    pace, codes = Pace(call), deque[Iterable[ErrorCode]]()
    packed = Packed(pace)
    transaction, request = _read_head(reader, call.version)
    refusal = ErrorCode.NONE
    if call.access is not None and not call.access.transactional_id(transaction.transactional_id):
        refusal = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    topics = read_topics(
        reader, call, context.image, request, by_id=False, has_epochs=call.version >= _EPOCH_SINCE, refusal=refusal
    )
    for items in topics:
        await pace.item(items)
    offsets = deque(request.offsets)
    request.offsets.clear()
    if offsets:
        try:
            term, producer = await _verified(transaction, request, call, context)
        except KafkaError as error:
            codes.append(all_refused(offsets, _known_to_client(error, call)))
            await pace.drain(offsets)
        else:
            answers = one_by_one(
                chunks(offsets, CHUNK), lambda some: _commit(request, some, term, producer, call), pace
            )
            codes.extend([each async for each in answers])
    for part in answer_parts(request, chain.from_iterable(emptied(codes)), call, has_throttle=True):
        await packed.add(part)
    return packed.reply(call)


def _read_head(reader: RequestReader, version: int) -> tuple[TransactionOf, CommitRequest]:
    """Read the request without its topics."""
    transactional_id, group_id = reader.string(), reader.string()
    producer_id, epoch = reader.fixed(_PRODUCER)
    committer = Committer(api_version=version)
    if version >= _MEMBER_SINCE:
        (generation,) = reader.fixed(_GENERATION)
        committer = Committer(reader.string(), generation, reader.nullable_string(), version)
    transaction = TransactionOf(transactional_id, producer_id, epoch)
    return transaction, CommitRequest(group_id, committer, -1, deque(), [])


async def _verified(
    transaction: TransactionOf, request: CommitRequest, call: Call, context: BrokerContext
) -> tuple[Term, TransactionalProducer]:
    """Return the coordinator of the group, and the producer whose transaction is verified. Raises KafkaError."""
    transactional_id, producer_id, epoch = transaction
    group_id, version = request.group_id, call.version
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
    if producer_id < 0 or epoch < 0:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"no producer has id {producer_id} and epoch {epoch}")
    term = context.groups.term_of(group_id)
    guard: VerificationGuard | None = None
    if term.log.needs_verification(producer_id, epoch):
        most = context.settings.config.sluicegate_partition_transactions_max
        check_room_for_transaction(term.log, most, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        adds = version >= COMMIT_ADDS_SINCE
        verifier = context.transaction_verifier
        if adds or verifier.is_enabled:
            guard = term.log.verification_guard(producer_id, epoch, NO_SEQUENCE, is_v2=adds)
            place = GROUPS_TOPIC, term.log.partition
            answer = await verifier.verify(transactional_id, producer_id, epoch, (place,), add=adds)
            code = answer.get(place, ErrorCode.UNKNOWN_SERVER_ERROR)
            if code:
                raise commit_error(code, transaction, version)
        else:
            guard = UNGUARDED
    return term, TransactionalProducer(producer_id, epoch, guard)


async def _commit(
    request: CommitRequest, offsets: Sequence[OffsetToCommit], term: Term, producer: TransactionalProducer, call: Call
) -> Sequence[ErrorCode]:
    """Commit a chunk of offsets in the transaction. Returns the error code of each partition."""
    committer, group_id = request.committer, request.group_id
    try:
        return await term.submit(
            lambda state, environment: commit_in_transaction(state, environment, committer, group_id, offsets, producer)
        )
    except KafkaError as error:
        if error.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            log.warning("TxnOffsetCommit of client %.100r was refused: %s", call.client_id, error.message)
        return all_refused(offsets, _known_to_client(error, call))


def _known_to_client(error: KafkaError, call: Call) -> KafkaError:
    """Return the error with a code that clients of this version know."""
    if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and call.version < _LOADING_SINCE:
        return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message or "")
    return error


API = ApiSpec(TXN_OFFSET_COMMIT, "TxnOffsetCommit", (0, 5), handle, reads="frame")
