"""Decides which transactions take too long, and which transactional ids have expired. Pure."""

from broker_runtime.slicing.steps import Steps
from broker_runtime.transactions.environment import TransactionEnvironment
from broker_runtime.transactions.ids.metadata import Transaction, aborted_by_coordinator
from broker_runtime.transactions.ids.records import TransactionRecord
from broker_runtime.transactions.ids.state import TransactionsState
from broker_runtime.transactions.ids.states import IDLE, TransactionState

EXPIRED_MAX = 2_000
"""Most transactional ids that one decision removes."""
_IDS_OF_A_STEP = 128


def has_timed_out(transaction: Transaction, now_ms: int) -> bool:
    """Return whether the transaction is ongoing and older than its timeout."""
    return transaction.state is TransactionState.ONGOING and transaction.has_timed_out_at_ms < now_ms


def abort_if_timed_out(
    state: TransactionsState, environment: TransactionEnvironment, transactional_id: str
) -> tuple[list[TransactionRecord], None]:
    """Fence the producer of a transaction that takes too long, and prepare its abort.

    Raises KafkaError if an exhausted producer id has to be replaced and none is at hand.
    """
    before, now_ms = state.transactions.get(transactional_id), environment.now_ms()
    if before is None or not has_timed_out(before, now_ms):
        return [], None
    version, take_producer_id = environment.transaction_version, environment.take_producer_id
    after = aborted_by_coordinator(before, now_ms, version=version, take_producer_id=take_producer_id)
    return [TransactionRecord(transactional_id, after)], None


def timed_out(state: TransactionsState, now_ms: int) -> Steps[list[str]]:
    """Return the transactional ids whose transaction takes too long."""
    transactions, found = state.transactions, []
    for number, transactional_id in enumerate(state.ongoing):
        if has_timed_out(transactions[transactional_id], now_ms):
            found.append(transactional_id)
        if number % _IDS_OF_A_STEP == 0:
            yield
    return found


def expired(state: TransactionsState, used_until_ms: int) -> Steps[list[TransactionRecord]]:
    """Return the tombstones of transactional ids without a transaction that were last used until `used_until_ms`.

    If there are more than EXPIRED_MAX, return those that were used longest ago.
    """
    found: list[TransactionRecord] = []
    for number, (transactional_id, transaction) in enumerate(state.transactions.items()):
        if transaction.last_update_ms <= used_until_ms and transaction.state in IDLE:
            found.append(TransactionRecord(transactional_id, None))
        if len(found) == EXPIRED_MAX:
            break
        if number % _IDS_OF_A_STEP == 0:
            yield
    return found
