"""The coordinator of one partition of `__transaction_state`: loading, markers, timeouts and expiry."""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from broker_runtime.coordination.replay import Applied, replay
from broker_runtime.coordination.replicated_log import LedPartition
from broker_runtime.coordination.seam import Deciding, Decision, Refusal
from broker_runtime.coordination.term import refused
from broker_runtime.errors import KafkaError
from broker_runtime.slicing.steps import Steps, pages
from broker_runtime.storage.records.batch import Record
from broker_runtime.storage.records.batching import KeyValue
from broker_runtime.transactions.decisions.ending import complete
from broker_runtime.transactions.ids.codec import decoding, encoding
from broker_runtime.transactions.ids.metadata import Transaction, ended
from broker_runtime.transactions.ids.paced import paced
from broker_runtime.transactions.ids.records import TransactionRecord
from broker_runtime.transactions.ids.state import TransactionsState
from broker_runtime.transactions.ids.states import COMPLETED, PREPARED, TransactionState
from broker_runtime.transactions.seam import EndedTransaction, TopicPartition
from broker_runtime.transactions.shard_environment import TransactionDependencies, TransactionShardEnvironment
from broker_runtime.transactions.timeouts import EXPIRED_MAX, abort_if_timed_out, expired, timed_out

log = logging.getLogger(__name__)

_TIMEOUTS, _EXPIRY, _ABORT, _COMPLETE, _SEND = "timeouts", "expiry of ids", "abort", "completion", "sending of markers"
_SENT_IN_A_STEP = 16
"""Transactions whose markers are queued together."""
_MS = 1000


@dataclass(slots=True)
class _Ending:
    """A prepared transaction whose markers are under way."""

    transaction: Transaction
    ended: EndedTransaction
    left: int
    """Number of the partitions whose marker is not written yet."""


class TransactionShard:
    """The transaction coordinator of one partition of `__transaction_state` in one leader epoch.

    Implements `coordination.term.HostedShard` over TransactionsState and TransactionRecord, and
    `seam.MarkersListener`.
    """

    def __init__(self, dependencies: TransactionDependencies, leader: LedPartition) -> None:
        self.environment = TransactionShardEnvironment(dependencies)
        self._dependencies = dependencies
        self._leader = leader
        self._epoch = leader.leader_epoch
        self._prepared: list[tuple[str, Transaction]] = []
        """Prepared transactions whose records are not known to be durable. Their markers wait for that."""
        self._endings: dict[str, _Ending] = {}
        """Transactions whose markers are under way, by transactional id."""
        self._ended: list[Any] = []
        """The transactions of the ended term whose markers were under way."""
        self._closed = False

    async def load(self) -> TransactionsState:
        """Read the state of the shard's transactional ids from the log.

        Raises KafkaError if the log cannot be read, ValueError if its records are invalid.
        """
        state, durable = TransactionsState(), self._leader.log
        async with self._dependencies.loads:
            end = durable.log_end_offset
            unknown: Counter[int] = Counter()
            await replay(
                durable, durable.log_start_offset, end, lambda item: _take_over(state, item, unknown), cleaned=True
            )
        if unknown:
            told = ", ".join(f"{count} of type {number}" for number, count in sorted(unknown.items()))
            log.warning("%s has records of a newer version; they are kept and not used: %s", durable.place, told)
        state.next_offset = end
        return state

    def opening(self, state: TransactionsState) -> Sequence[Decision[TransactionsState, TransactionRecord, None]]:
        return ()

    def loaded(self, state: TransactionsState) -> None:
        """Send the markers of all prepared transactions again, with this term's epoch, and begin the checks."""
        self._send_all((each, state.transactions[each]) for each in state.prepared.copy())
        self._check_timeouts_later()
        self._expire_later()

    def close(self, state: TransactionsState) -> None:
        """End this broker's term as the coordinator of these transactional ids, and drop their queued markers.

        A second call does nothing: by then the queued markers may be those of the next term.
        """
        del state
        if self._closed:
            return
        self._closed = True
        self.environment.timers.clear()
        self._ended = [self._prepared, self._endings]
        self._prepared, self._endings = [], {}
        self._dependencies.markers.drop(self._leader.index)

    def released(self, state: TransactionsState) -> list[Any]:
        ended, self._ended = self._ended, []
        return [*state.take_apart(), *ended]

    def encode(self, record: TransactionRecord) -> KeyValue | Steps[KeyValue]:
        return encoding(record, flexible=self.environment.transaction_version >= 1)

    def applied(self, record: TransactionRecord, state: TransactionsState) -> None:
        transaction, tally = record.transaction, self._dependencies.tally
        if transaction is None:
            tally.expirations += 1
        elif transaction.state in COMPLETED:
            self.environment.postponed.release(record.transactional_id)
        elif transaction.state in PREPARED:
            tally.commits += transaction.state is TransactionState.PREPARE_COMMIT
            tally.aborts += transaction.state is TransactionState.PREPARE_ABORT
            if transaction.partitions:
                self._prepared.append((record.transactional_id, transaction))

    def consequences(
        self, records: Sequence[TransactionRecord], state: TransactionsState
    ) -> Steps[Sequence[TransactionRecord]] | None:
        return None

    def committed(self, state: TransactionsState) -> None:
        """Send the markers of the transactions whose Prepare records are durable now."""
        if self._prepared:
            prepared, self._prepared = self._prepared, []
            if len(prepared) <= _SENT_IN_A_STEP:
                for transactional_id, transaction in prepared:
                    self._send(transactional_id, transaction)
            else:
                self._send_all(iter(prepared))

    def refuse(self, why: Refusal) -> KafkaError:
        return refused(why, "transactional id")

    def _send_all(self, prepared: Iterator[tuple[str, Transaction]]) -> None:
        """Send the markers of many prepared transactions in steps, as a decision that writes no records.

        No other decision changes these transactions: only the markers complete them.
        """

        def decide(_: TransactionsState) -> Steps[tuple[Sequence[TransactionRecord], None]]:
            for some in pages(prepared, _SENT_IN_A_STEP):
                for transactional_id, transaction in some:
                    self._send(transactional_id, transaction)
                yield
            return (), None

        self.environment.timers.on_due(_SEND, decide)

    def _send(self, transactional_id: str, transaction: Transaction) -> None:
        found = ended(transactional_id, transaction, self._leader.index, self._epoch)
        self._endings[transactional_id] = _Ending(transaction, found, len(transaction.partitions))
        if found.partitions:
            self._dependencies.markers.send(found, self)
        else:
            self._complete(transactional_id)

    def partition_done(self, ended: EndedTransaction, partition: TopicPartition) -> None:
        """Note that the partition needs no marker any more. After the last one, complete the transaction.

        Does nothing for a transaction of an earlier attempt, or after the end of the term.
        """
        ending = self._endings.get(ended.transactional_id)
        if ending is None or ending.ended is not ended:
            return
        ending.left -= 1
        if not ending.left:
            self._complete(ended.transactional_id)

    def _complete(self, transactional_id: str) -> None:
        """Write the Complete record, again and again if the log refuses it for a time."""
        expected = self._endings.pop(transactional_id).transaction

        def decide(state: TransactionsState) -> tuple[Sequence[TransactionRecord], None]:
            return complete(state, self.environment, transactional_id, expected)

        self.environment.timers.on_due((_COMPLETE, transactional_id), decide)

    def _check_timeouts_later(self) -> None:
        environment = self.environment

        def check(state: TransactionsState) -> Steps[tuple[Sequence[TransactionRecord], None]]:
            found = yield from timed_out(state, environment.now_ms())
            if found:
                text = "%d transactions took too long and are aborted, such as that of transactional id %.100r"
                log.info(text, len(found), found[0])
            for transactional_id in found:
                environment.timers.on_due((_ABORT, transactional_id), partial(self._abort, transactional_id))
                yield
            self._check_timeouts_later()
            return (), None

        interval_ms = environment.config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        environment.timers.schedule(_TIMEOUTS, interval_ms / _MS, check)

    def _abort(self, transactional_id: str, state: TransactionsState) -> Deciding[TransactionRecord, None]:
        decided = abort_if_timed_out(state, self.environment, transactional_id)
        if decided[0]:
            self._dependencies.tally.timeouts += 1
        return paced(decided)

    def _expire_later(self, *, is_more: bool = False) -> None:
        """Remove expired ids after the interval, or after the next requests if there are more of them."""
        environment = self.environment

        def expire(state: TransactionsState) -> Steps[tuple[Sequence[TransactionRecord], None]]:
            records = yield from expired(
                state, environment.now_ms() - environment.config.transactional_id_expiration_ms
            )
            self._expire_later(is_more=len(records) == EXPIRED_MAX)
            return records, None

        interval_ms = environment.config.transaction_remove_expired_transaction_cleanup_interval_ms
        environment.timers.schedule(_EXPIRY, 0 if is_more else interval_ms / _MS, expire)


def _take_over(state: TransactionsState, item: Record, unknown: Counter[int]) -> Applied:
    """Apply a record of the log. `unknown` counts records of newer versions, by the version of their key."""
    record = decoding(item.key, item.value)
    if record is None or isinstance(record, TransactionRecord):
        _apply(state, item, unknown, record)
        return None
    return _apply_long(state, item, unknown, record)


def _apply_long(
    state: TransactionsState, item: Record, unknown: Counter[int], steps: Steps[TransactionRecord | None]
) -> Steps[None]:
    _apply(state, item, unknown, (yield from steps))


def _apply(state: TransactionsState, item: Record, unknown: Counter[int], record: TransactionRecord | None) -> None:
    if record is None:
        unknown[int.from_bytes((item.key or b"")[:2])] += 1
        state.next_offset = item.offset + 1
    else:
        state.apply(record, item.offset)
