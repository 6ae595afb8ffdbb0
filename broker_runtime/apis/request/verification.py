"""The verification of a transaction by its coordinator, before the transaction's first records are appended (KIP-890).

A leader asks the coordinator of the transactional id whether the partition is part of the producer's transaction. With
version 2 of the transaction protocol, the coordinator adds the partition instead. Here are the interface of the
component that asks, and the error codes that clients receive for the coordinator's codes.
"""

from collections.abc import Awaitable, Collection, Mapping
from typing import NamedTuple, Protocol

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.log.log import Log

PRODUCE_ADDS_SINCE = 12
"""The first version of Produce whose clients do not add partitions to transactions themselves."""
COMMIT_ADDS_SINCE = 5
"""The first version of TxnOffsetCommit whose clients do not add the group to transactions themselves."""
_PRODUCE_ABORTABLE_SINCE, _COMMIT_ABORTABLE_SINCE = 11, 4
_RETRIED_PRODUCE = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
_SAME = {
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ErrorCode.INVALID_TXN_STATE,
}
"""Codes of the coordinator, and those of Produce and of TxnOffsetCommit in their place."""


class TransactionOf(NamedTuple):
    """The transaction in which a client writes: the transactional id, the producer id and its epoch."""

    transactional_id: str
    producer_id: int
    epoch: int


class VerifiesTransactions(Protocol):
    """Asks coordinators about transactions, and batches the questions to each of them."""

    @property
    def is_enabled(self) -> bool:
        """Return the value in force of transaction.partition.verification.enable.

        It does not matter to clients whose partitions the coordinator adds.
        """
        ...

    @property
    def retry_backoff_s(self) -> float:
        """Return the pause before a Produce asks again after CONCURRENT_TRANSACTIONS.

        That is add.partitions.to.txn.retry.backoff.ms, in seconds.
        """
        ...

    @property
    def retry_backoff_max_s(self) -> float:
        """Return the time for which a Produce asks again (add.partitions.to.txn.retry.backoff.max.ms), in seconds."""
        ...

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Collection[tuple[str, int]],
        *,
        add: bool,
    ) -> Awaitable[Mapping[tuple[str, int], ErrorCode]]:
        """Return an error code for each partition; NONE if it is part of the transaction now.

        `add`: the coordinator adds the partitions that are not. A KafkaError is the error of all partitions.
        """
        ...


def check_room_for_transaction(log: Log, most: int, code: ErrorCode) -> None:
    """Raise KafkaError with this code if the partition has no room for another open transaction.

    A reader of committed records gets a list of the open ones that are aborted later, so their number is limited.
    """
    if len(log.transactions) >= most:
        raise KafkaError(
            code,
            f"{len(log.transactions)} transactions are open in {log.place}, and sluicegate.partition.transactions.max "
            f"allows {most}; try again when some have ended",
        )


def produce_error(code: ErrorCode, transaction: TransactionOf, version: int) -> KafkaError:
    """Return the error of a partition in the answer to Produce, for a code of the coordinator.

    NOT_ENOUGH_REPLICAS makes clients try again without asking for the metadata.
    """
    sent = _SAME.get(code, code)
    if code in _RETRIED_PRODUCE or (code is ErrorCode.CONCURRENT_TRANSACTIONS and version < PRODUCE_ADDS_SINCE):
        sent = ErrorCode.NOT_ENOUGH_REPLICAS
    elif code is ErrorCode.TRANSACTION_ABORTABLE and version < _PRODUCE_ABORTABLE_SINCE:
        sent = ErrorCode.INVALID_TXN_STATE
    return _error(sent, code, transaction)


def commit_error(code: ErrorCode, transaction: TransactionOf, version: int) -> KafkaError:
    """Return the error of all partitions in the answer to TxnOffsetCommit, for a code of the coordinator."""
    sent = _SAME.get(code, code)
    if code is ErrorCode.NETWORK_EXCEPTION:
        sent = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    elif code is ErrorCode.TRANSACTION_ABORTABLE and version < _COMMIT_ABORTABLE_SINCE:
        sent = ErrorCode.INVALID_TXN_STATE
    return _error(sent, code, transaction)


def _error(sent: ErrorCode, code: ErrorCode, transaction: TransactionOf) -> KafkaError:
    transactional_id, producer_id, epoch = transaction
    return KafkaError(
        sent,
        f"the transaction of {transactional_id[:100]!r}, producer {producer_id}, epoch {epoch}, is not verified: "
        f"{code.name}",
    )
