"""Produce with a transactional id: each transaction is verified before its first append in a partition (KIP-890).

Problem. A batch that arrives after its transaction has ended would open a transaction that no marker ends. Consumers
of committed records would wait for it forever.

Idea. A batch of an open transaction is appended at once. Before the first batch of a transaction in a partition, the
leader takes a guard from the log, and asks the coordinator whether the partition is part of the transaction. From
version 12 on, the coordinator adds the partition. The append presents the guard, which a marker in between invalidates.

- The partitions of a request are asked for together, up to a limit. The connection handles no other request meanwhile,
  so that the batches of a partition stay in their order. If the client disconnects before the answer, nothing is
  appended.
- From version 12 on, CONCURRENT_TRANSACTIONS is retried for a short time: the coordinator is still ending the last
  transaction of the producer.
- The transactional batches of a request have one producer id and epoch, or all of its partitions are refused.

Tests: tests/unit/broker_runtime/apis/produce/test_transactional.py.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from struct import Struct
from typing import NamedTuple
from uuid import UUID

from broker_runtime.apis.produce.appending import (
    FLAGS_AT,
    WhenChecked,
    append_in_steps,
    takes_long,
)
from broker_runtime.apis.produce.produce_request import ProduceRequest
from broker_runtime.apis.produce.record_checks import Unchecked
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import BrokerContext
from broker_runtime.apis.request.verification import (
    PRODUCE_ADDS_SINCE,
    TransactionOf,
    check_room_for_transaction,
    produce_error,
)
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.slicing.steps import Steps, at_once, pages
from broker_runtime.storage.records.transactions import UNGUARDED
from broker_runtime.wire.reply import Reply
from kafka_bytes.batches import HEADER_BYTES, TRANSACTIONAL

_PRODUCER = Struct(">qhi")
_PRODUCER_AT = 43
"""Position in a batch of producer id, epoch and base sequence."""
_AT_ONCE_MAX = 50
"""Maximum number of partitions whose verified batches are appended without steps."""
_ASKED_MAX = 1_000
"""Maximum number of partitions that the coordinator is asked about at a time."""
_BATCHES_OF_A_STEP = 64
_Codes = Mapping[tuple[str, int], ErrorCode]


class _Producer(NamedTuple):
    """The producer of a transactional batch, and the sequence number of the batch's first record."""

    producer_id: int
    epoch: int
    sequence: int


def _producer_of(records: memoryview | None) -> _Producer | None:
    """Return the producer of a transactional batch; None for any other batch."""
    if records is None or len(records) < HEADER_BYTES or not records[FLAGS_AT] & TRANSACTIONAL:
        return None
    return _Producer(*_PRODUCER.unpack_from(records, _PRODUCER_AT))


def produce_in_transaction(
    request: ProduceRequest,
    refusal: KafkaError | None,
    call: Call,
    context: BrokerContext,
    admits: Callable[[memoryview], bool] | None = None,
) -> Steps[Reply | Call]:
    """Handle a Produce request with a transactional id; the arguments are those of `append_in_steps`."""
    transaction, mixed = yield from _transaction(request[0] or "", (records for *_, records in request[3]))
    opened = None if transaction is None else _Opened(transaction, call, context)
    return (yield from append_in_steps(request, refusal or mixed, call, context, opened, admits))


def _transaction(
    transactional_id: str, batches: Iterable[memoryview | None]
) -> Steps[tuple[TransactionOf | None, KafkaError | None]]:
    """Return the transaction of the request, if it has transactional batches, and the error of the whole request."""
    found: TransactionOf | None = None
    for some in pages(batches, _BATCHES_OF_A_STEP):
        for producer in filter(None, map(_producer_of, some)):
            if found is None:
                found = TransactionOf(transactional_id, producer.producer_id, producer.epoch)
            elif found[1:] != producer[:2]:
                text = (
                    f"the request has batches of producer {found.producer_id} with epoch {found.epoch} and of producer "
                    f"{producer.producer_id} with epoch {producer.epoch}; send transactional batches of one producer"
                )
                return None, KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, text)
        yield
    return found, None


class _Opened:
    """The transaction that a request may open in partitions: implements `appending.OpenedTransaction`."""

    def __init__(self, transaction: TransactionOf, call: Call, context: BrokerContext) -> None:
        self._transaction, self._call, self._context = transaction, call, context

    def first_batch(self, place: int, topic: str | UUID, index: int, records: memoryview | None) -> Unchecked | None:
        producer = _producer_of(records)
        if producer is None or records is None or not isinstance(topic, str) or producer.producer_id < 0:
            return None
        leader = self._context.led(topic, index)
        log = leader.log
        if not log.needs_verification(producer.producer_id, producer.epoch):
            return None
        most = self._context.settings.config.sluicegate_partition_transactions_max
        check_room_for_transaction(log, most, ErrorCode.NOT_ENOUGH_REPLICAS)
        adds = self._call.version >= PRODUCE_ADDS_SINCE
        guard = UNGUARDED
        if adds or self._context.transaction_verifier.is_enabled:
            guard = log.verification_guard(*producer, is_v2=adds)
        return Unchecked(place, topic, leader.topic_id, index, bytes(records), log.config, guard)

    def verify(self, first: Sequence[Unchecked], unchecked: list[Unchecked], checked: WhenChecked) -> None:
        _WhenVerified(self._transaction, first, unchecked, checked, self._context).ask()


class _WhenVerified:
    """Appends the batches whose transaction the coordinator has confirmed, and answers the request."""

    def __init__(
        self,
        transaction: TransactionOf,
        unverified: Sequence[Unchecked],
        unchecked: list[Unchecked],
        checked: WhenChecked,
        context: BrokerContext,
    ) -> None:
        """`unchecked` are batches of open transactions whose records another thread checks."""
        self._transaction, self._context = transaction, context
        self._checked, self._unchecked = checked, unchecked
        self._later = deque(pages(unverified, _ASKED_MAX))
        """The batches whose partitions the coordinator is asked about later."""
        self._items: Sequence[Unchecked] = self._later.popleft()
        self._call = checked.call
        self._adds = self._call.version >= PRODUCE_ADDS_SINCE
        self._stop_s = context.clock.monotonic() + context.transaction_verifier.retry_backoff_max_s

    def ask(self) -> None:
        """Ask the coordinator about the partitions of the batches that are left."""
        asked = {(each.topic, each.partition) for each in self._items if each.guard is not UNGUARDED}
        if not asked:
            self._take({})
            return
        verify = self._context.transaction_verifier.verify
        answer = asyncio.ensure_future(verify(*self._transaction, asked, add=self._adds))
        self._call.later(partial(_drop, answer))
        answer.add_done_callback(self._answered)

    def _answered(self, answer: "asyncio.Future[_Codes]") -> None:
        if answer.cancelled():
            # The client has disconnected, or the broker stops.
            self._call.complete(None)
        else:
            self._call.guarded(partial(self._take_answer, answer))()

    def _take_answer(self, answer: "asyncio.Future[_Codes]") -> None:
        try:
            codes = answer.result()
        except KafkaError as error:
            codes = {(each.topic, each.partition): error.code for each in self._items}
        self._take(codes)

    def _take(self, codes: _Codes) -> None:
        self._call.later(None)
        if len(self._items) <= _AT_ONCE_MAX:
            at_once(self._append_all(codes))
        else:
            self._call.do(self._append_all(codes))

    def _append_all(self, codes: _Codes) -> Steps[None]:
        """Append the batches that are verified, refuse the others, and retry those that a short wait may help."""
        again: list[Unchecked] = []
        verifier, now_s = self._context.transaction_verifier, self._context.clock.monotonic()
        may_retry = self._adds and now_s + verifier.retry_backoff_s <= self._stop_s
        for item in self._items:
            code = codes.get((item.topic, item.partition), ErrorCode.UNKNOWN_SERVER_ERROR)
            if item.guard is UNGUARDED:
                code = ErrorCode.NONE
            if code is ErrorCode.CONCURRENT_TRANSACTIONS and may_retry:
                again.append(item)
            elif code:
                self._checked.refuse(item, produce_error(code, self._transaction, self._call.version))
            else:
                self._append(item)
            yield
        self._items = again
        if again:
            timer = self._context.call_later(verifier.retry_backoff_s, self._call.guarded(self.ask))
            self._call.later(timer.cancel)
        elif self._later:
            self._items = self._later.popleft()
            self.ask()
        elif self._unchecked:
            yield from self._checked.start_checks(self._unchecked)
        else:
            self._checked.finish()

    def _append(self, item: Unchecked) -> None:
        """Append the batch, unless another thread must check its records first."""
        try:
            leader: LeaderReplica = self._context.led(item.topic, item.partition)
            if leader.log.config.checks_records and takes_long(memoryview(item.records), leader, self._context):
                self._unchecked.append(item)
                return
        except KafkaError as error:
            self._checked.refuse(item, error)
            return
        self._checked.append(item, None)


def _drop(answer: "asyncio.Future[_Codes]") -> None:
    answer.cancel()
