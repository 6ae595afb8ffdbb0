"""The part of a shard that decisions about transactions use. Pure: an interface."""

from typing import Protocol


class TransactionEnvironment(Protocol):
    """The clock, the transaction version and the producer ids of decisions."""

    @property
    def transaction_version(self) -> int:
        """Return the transaction version of the cluster: the finalized level of the feature."""
        ...

    @property
    def ids_max(self) -> int:
        """Return the number of transactional ids for which a partition of `__transaction_state` has room."""
        ...

    def now_ms(self) -> int:
        """Return the time since 1970 in milliseconds."""
        ...

    def take_producer_id(self) -> int:
        """Return a producer id that is unique in the cluster.

        Raises KafkaError(COORDINATOR_LOAD_IN_PROGRESS) if no id is at hand.
        """
        ...
