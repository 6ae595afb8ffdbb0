"""Interfaces between the transaction coordinator, the dispatch of markers and the verification of partitions. Pure."""

from collections.abc import Awaitable, Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from broker_runtime.errors import ErrorCode
from kafka_bytes.control import Marker

TopicPartition = tuple[str, int]
"""The name of a topic and the number of a partition."""


@dataclass(frozen=True, slots=True, eq=False)
class EndedTransaction:
    """A transaction whose Prepare record is durable, and the partitions that have no marker yet.

    Two of them are never equal, so that a late result is not mistaken for one of a later attempt.
    """

    transactional_id: str
    marker: Marker
    """The marker that each partition gets. Its coordinator epoch is that of the coordinator's term."""
    partitions: Collection[TopicPartition]
    coordinator_partition: int
    """The partition of `__transaction_state` that has the transactional id."""


class MarkersListener(Protocol):
    """The part of the coordinator that learns which markers are written."""

    def partition_done(self, ended: EndedTransaction, partition: TopicPartition) -> None:
        """Note that the partition has its marker, has a newer epoch of the producer, or no longer exists.

        Called once for each partition of a transaction.
        """
        ...


class MarkerFigures(NamedTuple):
    """Numbers of markers that are not written yet."""

    transactions: int = 0
    """Number of transactions with partitions that have no marker."""
    waiting: int = 0
    """Number of partitions whose marker waits for a request to their leader."""
    unknown: int = 0
    """Number of partitions whose leader is unknown or not alive."""


class Markers(Protocol):
    """The dispatch of markers to the leaders of partitions."""

    def send(self, ended: EndedTransaction, listener: MarkersListener) -> None:
        """Queue the markers of a transaction. Retried until each partition is done; never blocks, never raises."""
        ...

    def drop(self, coordinator_partition: int) -> None:
        """Forget all queued markers of a partition of `__transaction_state` whose term has ended."""
        ...

    def figures(self) -> MarkerFigures:
        """Return the numbers of markers that wait."""
        ...

    async def close(self) -> None:
        """Stop sending, and close the connections."""
        ...


class Verifying(Protocol):
    """The coordinator's answer to a leader that asks whether partitions belong to a transaction (KIP-890)."""

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        *,
        add: bool,
    ) -> Awaitable[Mapping[TopicPartition, ErrorCode]]:
        """Return a code for each partition; with `add`, add the partitions to the transaction first (version 2).

        Raises no KafkaError: a refusal of the coordinator is the code of each partition.
        """
        ...
