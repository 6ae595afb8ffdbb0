"""A coordinator that records what it learns about the markers of its transactions."""

from collections.abc import Iterable

from broker_runtime.transactions.seam import EndedTransaction, TopicPartition
from kafka_bytes.control import Marker


class RecordingListener:
    """Records the reports about transactions. Implements `transactions.seam.MarkersListener`."""

    def __init__(self) -> None:
        self.done: list[tuple[str, TopicPartition]] = []

    def partition_done(self, ended: EndedTransaction, partition: TopicPartition) -> None:
        self.done.append((ended.transactional_id, partition))


def ended(
    name: str,
    partitions: Iterable[TopicPartition],
    producer_id: int = 7,
    epoch: int = 1,
    *,
    is_commit: bool = True,
    coordinator_epoch: int = 3,
    coordinator_partition: int = 0,
    version: int = 2,
) -> EndedTransaction:
    """Return a transaction whose Prepare record is durable."""
    marker = Marker(producer_id, epoch, is_commit, coordinator_epoch, version)
    return EndedTransaction(name, marker, frozenset(partitions), coordinator_partition)
