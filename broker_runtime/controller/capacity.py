"""Limit the records of one request, and the replicas of a broker. Pure.

Kafka's controller writes at most 10,000 records for one request. The files that a broker may open limit its replicas.
The controller uses its own limit for every broker, which is correct if all are started alike. If they are not,
sluicegate.broker.replicas.max sets the limit.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.metadata.topics import PartitionRecord
from broker_runtime.slicing.steps import Steps

RECORDS_MAX = 10_000
_PARTITIONS_OF_A_STEP = 16


def check_partitions(partitions: int) -> None:
    """Check the number of partitions of all topics of one request. Raises KafkaError for the request as a whole."""
    if partitions > RECORDS_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"Excessively large number of partitions per request. The request needs {partitions}; at most "
            f"{RECORDS_MAX} are allowed. Split it into several requests.",
        )


def check_records(count: int) -> None:
    """Check the number of records of one request. Raises KafkaError."""
    if count > RECORDS_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"Unable to perform excessively large batch operation. One request may write at most {RECORDS_MAX} "
            "records of metadata. Split it into several requests.",
        )


class Capacity:
    """Number of replicas of each broker, including those that the current request adds."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._replicas: Counter[int] | None = None

    def take(self, records: Sequence[MetadataRecord]) -> Steps[Sequence[MetadataRecord]]:
        """Return `records` if there is room for the replicas that they create.

        Else raise KafkaError and count nothing.
        """
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
                    f"Broker {broker} would have {after} replicas of partitions; at most {limit} are allowed "
                    "(sluicegate.broker.replicas.max, or what the limit of open files allows). Add brokers, raise "
                    "that limit, or create fewer partitions.",
                )
        self._replicas += added
        return records

    def _added(self, record: MetadataRecord) -> Iterable[int]:
        """Return the brokers that get a replica by this record."""
        if not isinstance(record, PartitionRecord):
            return ()
        topic = self._image.topics.by_id(record.topic_id)
        known = None if topic is None else topic.partitions.get(record.index)
        return record.replicas if known is None else set(record.replicas) - set(known.replicas)


def replicas_by_broker(image: MetadataImage) -> Steps[Counter[int]]:
    """Count the partition replicas of each broker."""
    found: Counter[int] = Counter()
    for topic in image.topics.values():
        for number, part in enumerate(topic.partitions.values()):
            found.update(part.replicas)
            if number % _PARTITIONS_OF_A_STEP == 0:
                yield
    return found
