"""Create, grow and delete topics: decisions and their records. Pure.

Error codes and the meaning of the messages are Kafka's. The topics of a request are independent: a refused one does not
affect the others.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from broker_runtime.controller.capacity import check_partitions
from broker_runtime.controller.configs import check_topic_configs
from broker_runtime.controller.partitions.placement import check_assignment, place
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.configs import ConfigRecord, ResourceType
from broker_runtime.metadata.areas.topics import NO_LEADER, PartitionRecord, RemoveTopic, Topic, TopicRecord
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.metadata.topic_names import METADATA_TOPIC, check_topic_name
from broker_runtime.slicing.steps import Steps

USE_DEFAULT = -1
_NAMES_OF_A_STEP = 64


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic as CreateTopics requests it.

    A number of -1 stands for the default, and `assignments` replace both numbers.
    """

    name: str
    partitions: int
    replication_factor: int
    assignments: Sequence[tuple[int, Sequence[int]]]
    configs: Sequence[tuple[str, str | None]]


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    """Values that replace a -1 for partitions or replicas in CreateTopics."""

    partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """The created topic with defaults filled in. `configs` are those of the request."""

    id: UUID
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


def partitions_asked_for(partitions: int, assignments: int, defaults: TopicDefaults) -> int:
    """Return the number of partitions that a request asks for: that of its assignments, its number or the default."""
    if assignments:
        return assignments
    return defaults.partitions if partitions == USE_DEFAULT else partitions


def create_topic(
    wanted: NewTopic,
    image: MetadataImage,
    defaults: TopicDefaults,
    new_id: Callable[[], UUID],
    taken: "TakenNames",
) -> Steps[tuple[Sequence[MetadataRecord], CreatedTopic]]:
    """Decide the creation of a topic: return the records and the created topic. Raises KafkaError."""
    check_topic_name(wanted.name)
    if wanted.name == METADATA_TOPIC:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {METADATA_TOPIC} is prohibited.")
    if wanted.name in image.topics:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{wanted.name}' already exists.")
    yield from taken.check(wanted.name)
    configs = check_topic_configs(wanted.configs)
    topic_id = new_id()
    replicas = yield from _replicas(wanted, image, defaults, topic_id)
    records: list[MetadataRecord] = [TopicRecord(wanted.name, topic_id)]
    records += [ConfigRecord(ResourceType.TOPIC, wanted.name, key, value) for key, value in configs.items()]
    for index, chosen in enumerate(replicas):
        records.append(_new_partition(topic_id, index, chosen, image))
        yield
    return records, CreatedTopic(topic_id, len(replicas), len(replicas[0]), configs)


def grow_topic(
    name: str, count: int, assignments: Sequence[Sequence[int]] | None, image: MetadataImage
) -> Steps[Sequence[MetadataRecord]]:
    topic = image.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    have = len(topic.partitions)
    if count == have:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {have} partition(s).")
    if count < have:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {name} currently has {have} partition(s); {count} would not be an increase.",
        )
    extra = count - have
    check_partitions(extra)
    # While a partition is moved it has more replicas than it will have.
    factor = len(set(topic.partitions[0].replicas) - set(topic.partitions[0].removing))
    if assignments is None:
        chosen: Sequence[Sequence[int]] = yield from place(extra, factor, image, topic.id.int % 1_000_003 + have)
    else:
        if len(assignments) != extra:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {extra} additional partition(s), but only {len(assignments)} assignment(s) "
                "were specified."
                if len(assignments) < extra
                else f"Attempted to add {extra} additional partition(s), but {len(assignments)} assignment(s) "
                "were specified.",
            )
        chosen = []
        for number, replicas in enumerate(assignments):
            chosen.append(_checked(replicas, have + number, image, factor))
            yield
    records = []
    for number, replicas in enumerate(chosen):
        records.append(_new_partition(topic.id, have + number, replicas, image))
        yield
    return records


def delete_topic(
    name: str | None, topic_id: UUID | None, image: MetadataImage
) -> tuple[Sequence[MetadataRecord], Topic]:
    topic = _find(name, topic_id, image)
    return [RemoveTopic(topic.id)], topic


def _find(name: str | None, topic_id: UUID | None, image: MetadataImage) -> Topic:
    if name is not None and topic_id is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if name is not None:
        topic = image.topics.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    elif topic_id is not None:
        topic = image.topics.by_id(topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    else:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    return topic


def collision_key(name: str) -> str:
    """Return the key that colliding topic names share.

    They would share metric names, in which '.' becomes '_'.
    """
    return name.replace(".", "_")


class TakenNames:
    """The names that a new topic may collide with.

    They are those of existing topics, and those that the same request creates.
    """

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._known: dict[str, str] | None = None
        """Existing topics by collision key. Created when the first name needs it."""
        self._new: dict[str, str] = {}

    def add(self, name: str) -> None:
        """Record that the request creates the topic `name`."""
        self._new[collision_key(name)] = name

    def check(self, name: str) -> Steps[None]:
        """Raise KafkaError if the name collides with another topic."""
        key = collision_key(name)
        other = self._new.get(key)
        if other is None and ("." in name or "_" in name):
            if self._known is None:
                self._known = yield from self._by_key()
            other = self._known.get(key)
        if other is not None and other != name:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")

    def _by_key(self) -> Steps[dict[str, str]]:
        found: dict[str, str] = {}
        for number, known in enumerate(self._image.topics):
            found.setdefault(collision_key(known), known)
            if number % _NAMES_OF_A_STEP == 0:
                yield
        return found


def _replicas(
    wanted: NewTopic, image: MetadataImage, defaults: TopicDefaults, topic_id: UUID
) -> Steps[Sequence[Sequence[int]]]:
    if wanted.assignments:
        return (yield from _assigned(wanted, image))
    if wanted.replication_factor < USE_DEFAULT or wanted.replication_factor == 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if wanted.partitions < USE_DEFAULT or wanted.partitions == 0:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    partitions = defaults.partitions if wanted.partitions == USE_DEFAULT else wanted.partitions
    factor = defaults.replication_factor if wanted.replication_factor == USE_DEFAULT else wanted.replication_factor
    return (yield from place(partitions, factor, image, topic_id.int % 1_000_003))


def _assigned(wanted: NewTopic, image: MetadataImage) -> Steps[Sequence[Sequence[int]]]:
    for value, name in ((wanted.replication_factor, "replication factor"), (wanted.partitions, "numPartitions")):
        if value != USE_DEFAULT:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {name} was not set to -1.",
            )
    chosen: dict[int, Sequence[int]] = {}
    factor = None
    for index, replicas in wanted.assignments:
        if index in chosen:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {index}",
            )
        chosen[index] = _checked(replicas, index, image, factor)
        factor = len(replicas)
        yield
    if sorted(chosen) != list(range(len(chosen))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )
    return [chosen[index] for index in range(len(chosen))]


def _checked(replicas: Sequence[int], index: int, image: MetadataImage, factor: int | None) -> Sequence[int]:
    check_assignment(replicas, image, factor)
    if not any(image.brokers.is_active(replica) for replica in replicas):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"All brokers specified in the manual partition assignment for partition {index} are fenced or in "
            "controlled shutdown.",
        )
    return replicas


def _new_partition(topic_id: UUID, index: int, replicas: Sequence[int], image: MetadataImage) -> PartitionRecord:
    isr = tuple(r for r in replicas if image.brokers.is_active(r))
    return PartitionRecord(topic_id, index, tuple(replicas), isr, isr[0] if isr else NO_LEADER, 0, 0)
