"""Limit the records of one request, the replicas of a broker, and client quotas. Pure.

Kafka's controller writes at most 10,000 records for one request. The files that a broker may open limit its replicas.
The controller uses its own limit for every broker, which is correct if all are started alike. If they are not,
sluicegate.broker.replicas.max sets the limit.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from broker_runtime.config import BrokerConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.quotas import ClientQuotaRecord, Quotas, group_and_member, names_bytes
from broker_runtime.metadata.areas.topics import PartitionRecord
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.slicing.steps import Steps

RECORDS_MAX = 10_000
_PARTITIONS_OF_A_STEP = 16


def check_partitions(partitions: int) -> None:
    """Check the number of partitions of all topics of one request. Raises KafkaError for the whole request."""
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
    """The number of replicas of each broker, including those that the current request adds."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._replicas: Counter[int] | None = None

    def take(self, records: Sequence[MetadataRecord]) -> Steps[Sequence[MetadataRecord]]:
        """Return `records` if there is room for the replicas that they create.

        Otherwise raise KafkaError and count nothing.
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


@dataclass(frozen=True, slots=True)
class QuotaLimits:
    """Maximum number of entities with client quotas, and of bytes of their names.

    Connection groups have limits of their own.
    """

    entities: int
    names_bytes: int


class QuotaCapacity:
    """The number of entities with client quotas that a request may still add.

    Entries of the request are counted one by one.
    """

    def __init__(self, quotas: Quotas, limits: QuotaLimits) -> None:
        self._quotas = quotas
        self._limits = limits
        self._entities = len(quotas)
        self._names_bytes = quotas.names_bytes

    def take(self, records: Sequence[ClientQuotaRecord]) -> None:
        """Count `records`, which are all records of one entity.

        Raises KafkaError if there is no room for the entity.
        """
        if not records or group_and_member(records[0]) is not None:
            return
        entity = records[0].entity
        keys = set(self._quotas.get(entity, ()))
        was_known = bool(keys)
        for record in records:
            if record.value is None:
                keys.discard(record.key)
            else:
                keys.add(record.key)
        more = bool(keys) - was_known
        if more > 0:
            self._check(self._entities + 1, self._names_bytes + names_bytes(entity))
        self._entities += more
        self._names_bytes += more * names_bytes(entity)

    def _check(self, entities: int, names: int) -> None:
        limits = self._limits
        if entities > limits.entities:
            raise _too_many(f"{entities} entities", limits.entities, BrokerConfig.sluicegate_client_quotas_max.name)
        if names > limits.names_bytes:
            key = BrokerConfig.sluicegate_client_quotas_names_bytes_max.name
            raise _too_many(f"{names} bytes of names of entities", limits.names_bytes, key)


def _too_many(what: str, most: int, key: str) -> KafkaError:
    text = f"The cluster would have client quotas of {what}; at most {most} are allowed ({key}). Remove unused quotas."
    return KafkaError(ErrorCode.POLICY_VIOLATION, text)
