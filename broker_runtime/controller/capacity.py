"""How much one request may make, and how many replicas a broker may have. Pure.

Kafka's controller writes at most 10,000 records for one request. How many replicas a broker can hold follows from the
files that it may have open; the controller takes its own limit for that of every broker, which is true where they are
started alike, and sluicegate.broker.replicas.max says it where they are not.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import Record
from broker_runtime.metadata.topics import PartitionRecord
from broker_runtime.steps import Steps

RECORDS_MAX = 10_000
_PARTITIONS_OF_A_STEP = 16


def check_partitions(partitions: int) -> None:
    """`partitions` are those of all topics of one request. Raises KafkaError for the request as a whole."""
    if partitions > RECORDS_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"Excessively large number of partitions per request. {partitions} are asked for; at most {RECORDS_MAX} "
            "may be, so ask in several requests.",
        )


def check_records(count: int) -> None:
    """What one request has come to; raises KafkaError."""
    if count > RECORDS_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"Unable to perform excessively large batch operation. One request may write {RECORDS_MAX} records of "
            "metadata, so ask in several requests.",
        )


class Capacity:
    """The replicas of each broker, with what one request adds to them."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._replicas: Counter[int] | None = None

    def take(self, records: Sequence[Record]) -> Steps[Sequence[Record]]:
        """`records`, if there is room for the replicas that they make; else raises KafkaError and takes nothing."""
        limit = self._image.defaults.replicas_max
        if limit is None:
            return records
        if self._replicas is None:
            self._replicas = yield from replicas_by_broker(self._image)
        added: Counter[int] = Counter()
        for number, record in enumerate(records):
            added.update(self._added(record))
            if number % _PARTITIONS_OF_A_STEP == 0:
                yield
        for broker, count in sorted(added.items()):
            after = self._replicas[broker] + count
            if after > limit:
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION,
                    f"Broker {broker} would have {after} replicas of partitions, and may have {limit} "
                    "(sluicegate.broker.replicas.max, or what the limit of open files allows); add brokers, raise "
                    "that limit, or ask for fewer partitions.",
                )
        self._replicas += added
        return records

    def _added(self, record: Record) -> Iterable[int]:
        """Brokers that get a replica by it."""
        if not isinstance(record, PartitionRecord):
            return ()
        topic = self._image.topics.by_id(record.topic_id)
        known = None if topic is None else topic.partitions.get(record.index)
        return record.replicas if known is None else set(record.replicas) - set(known.replicas)


def replicas_by_broker(image: MetadataImage) -> Steps[Counter[int]]:
    """How many replicas of partitions each broker has."""
    found: Counter[int] = Counter()
    for topic in image.topics.values():
        for number, part in enumerate(topic.partitions.values()):
            found.update(part.replicas)
            if number % _PARTITIONS_OF_A_STEP == 0:
                yield
    return found
