"""The refusals that several requests share. Pure."""

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.transactions.ids.metadata import Transaction


def of_producer(found: Transaction | None, producer_id: int) -> Transaction:
    """Return the transaction that was found for a transactional id.

    Raises KafkaError(INVALID_PRODUCER_ID_MAPPING) if the id is unknown or has another producer id.
    """
    if found is None:
        why = "this transactional id is not known, or has expired; call initTransactions again"
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, why)
    if found.producer_id != producer_id:
        why = f"this transactional id has another producer id than {producer_id}"
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, why)
    return found


def fenced() -> KafkaError:
    """Return the error for a producer that a newer one with the same transactional id has replaced."""
    why = "a newer producer uses this transactional id, or the coordinator has aborted the transaction"
    return KafkaError(ErrorCode.PRODUCER_FENCED, why)


def concurrent() -> KafkaError:
    """Return the error for a request that arrives while markers of the last transaction are being written."""
    why = "the last transaction of this transactional id is not complete yet; try again"
    return KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, why)
