"""Lets a decision wait until the last transaction of its id is complete, instead of refusing its request. Pure.

The markers of a transaction are written after the answer to EndTxn, so that the next request of a fast producer comes
too early nearly always. A client that is refused repeats its request after 20 ms; the markers take less. Both records,
that of the completed transaction and that of the next one, then share a commit.
"""

from collections.abc import Callable
from typing import TypeVar

from broker_runtime.coordination.seam import Deciding, PostponedError, Postponement
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.transactions.environment import TransactionEnvironment
from broker_runtime.transactions.ids.records import TransactionRecord
from broker_runtime.transactions.ids.state import TransactionsState

T = TypeVar("T")
TransactionDecision = Callable[[TransactionsState, TransactionEnvironment], Deciding[TransactionRecord, T]]


def once_complete(
    decide: TransactionDecision[T],
    transactional_id: str,
    limit_ms: int,
    state: TransactionsState,
    environment: TransactionEnvironment,
) -> Deciding[TransactionRecord, T]:
    """Make the decision, which waits if the last transaction of the id was ended less than `limit_ms` ago.

    If the markers take longer, perhaps because a leader has failed, the decision is refused at once: a request of
    another broker has the questions of many producers, which would all wait. Raises PostponedError and KafkaError.
    """
    try:
        return decide(state, environment)
    except KafkaError as error:
        if error.code is not ErrorCode.CONCURRENT_TRANSACTIONS:
            raise
        age_ms = environment.now_ms() - state.transactions[transactional_id].last_update_ms
        if not 0 <= age_ms < limit_ms:
            raise
        raise PostponedError(Postponement(transactional_id, error.code, error.message or "")) from None
