"""The terms of a simulated coordinator, and the durable state that they share."""

import asyncio
from dataclasses import dataclass, field

from broker_runtime.transactions.markers.dispatch import MarkerDispatch
from broker_runtime.transactions.seam import EndedTransaction, TopicPartition
from kafka_bytes.control import Marker

PARTITION = 0
"""The partition of `__transaction_state` that the coordinator leads."""


@dataclass(slots=True)
class Decided:
    """A transaction whose Prepare record is durable."""

    name: tuple[str, int]
    """The transactional id, and the number of the transaction."""
    marker: Marker
    """The marker, with the coordinator epoch of the first term that sent it."""
    partitions: frozenset[TopicPartition]
    complete: asyncio.Event = field(default_factory=asyncio.Event)


class Term:
    """One leader epoch of the coordinator, on one broker. Implements `transactions.seam.MarkersListener`."""

    def __init__(self, broker_id: int, epoch: int, dispatch: MarkerDispatch) -> None:
        self.broker_id = broker_id
        self.epoch = epoch
        self.dispatch = dispatch
        self.is_latest = True
        self._left: dict[EndedTransaction, tuple[Decided, set[TopicPartition]]] = {}

    def send(self, decided: Decided) -> None:
        """Send the markers of a transaction with the epoch of this term."""
        marker = decided.marker._replace(coordinator_epoch=self.epoch)
        ended = EndedTransaction(decided.name[0], marker, decided.partitions, PARTITION)
        self._left[ended] = decided, set(decided.partitions)
        self.dispatch.send(ended, self)

    def partition_done(self, ended: EndedTransaction, partition: TopicPartition) -> None:
        decided, left = self._left[ended]
        left.remove(partition)
        if not left:
            del self._left[ended]
            # A deposed coordinator cannot write the Complete record.
            if self.is_latest:
                decided.complete.set()
