"""Elect leaders, and maintain in-sync sets and eligible leader replicas (KIP-631, KIP-966).

Pure: partitions in, partition records out. Every change of a partition goes through `changed_partition`. It completes a
finished reassignment, keeps both sets true, keeps or elects a leader, and increments the epochs.

- Members of the in-sync set and eligible leader replicas (elr) have every record below the high watermark: leaders
  count both for it. A replica that leaves the in-sync set is eligible while fewer than min.insync.replicas are in sync.
- The two sets together are never empty. The in-sync set may be empty; then there is no leader, and any eligible replica
  that returns may lead.
- A broker that may have lost data (see storage.disk.run_record) leaves both sets, unless it is the last member of both.
  Then no better replica exists, and it leads with the data it has.
- If a topic allows unclean elections, no partition is without a leader while one of its replicas is active.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum

from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.configs import ConfigRecord, ResourceType
from broker_runtime.metadata.areas.topics import NO_LEADER, Partition, PartitionRecord, Topic
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.slicing.steps import Steps, chosen

REBALANCED_MAX = 1_000
"""Limit of the leaders that one rebalance moves; Kafka's number."""
_UNCHANGED_OF_A_STEP = 64
"""Unchanged partitions to check between two breaks."""
_UNCLEAN_KEY = TopicConfig.unclean_leader_election_enable.name
_MIN_INSYNC_KEY = TopicConfig.min_insync_replicas.name


_Records = list[MetadataRecord]


class ElectionType(IntEnum):
    """The election types of ElectLeaders (43)."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class Candidates:
    """The brokers that may become leader of a partition, and the rules of its election. `active` brokers may lead.

    With `unclean` a replica that is not in sync may lead if no other can; records may be lost then.
    """

    active: frozenset[int]
    min_insync: int
    unclean: bool = False
    prefer_first: bool = False
    """Whether the first replica becomes the leader if possible, although the present leader could stay."""
    unclean_shutdown: int | None = None
    """A broker that may have lost data; None without such a broker."""


def candidates(topic: str, image: MetadataImage, active: frozenset[int] | None = None) -> Candidates:
    """Return the election rules of a topic, by its configuration. `active` None means all active brokers."""
    may_lead = active_brokers(image) if active is None else active
    return Candidates(may_lead, min_insync(topic, image), unclean_allowed(topic, image))


def active_brokers(image: MetadataImage) -> frozenset[int]:
    return frozenset(broker.id for broker in image.brokers.values() if broker.active)


def unclean_allowed(topic: str, image: MetadataImage) -> bool:
    """Return whether the topic allows unclean elections.

    That is the topic's setting, else the cluster's, else that of the controller's properties file.
    """
    text = _config(topic, _UNCLEAN_KEY, image)
    return image.defaults.unclean if text is None else text.strip().lower() == "true"


def min_insync(topic: str, image: MetadataImage) -> int:
    """Return the topic's min.insync.replicas, from the same sources as `unclean_allowed`.

    Settings of single brokers are ignored, because they would apply only while that broker leads.
    """
    text = _config(topic, _MIN_INSYNC_KEY, image)
    return image.defaults.min_insync if text is None else int(text)


def _config(topic: str, key: str, image: MetadataImage) -> str | None:
    return image.configs.of_topic(topic).get(key, image.configs.of_broker(None).get(key))


def changed_partition(old: Partition, wanted: Partition, candidates: Candidates) -> Partition:
    """Return `wanted` with its leader, eligible replicas and epochs; `old` itself if nothing changes.

    Only the replicas, in-sync set and reassignment of `wanted` count.
    """
    wanted = _led(_with_eligible(old, _with_reassignment_finished(wanted), candidates), candidates)
    # A removed replica learns of it by a new leader epoch, as in Kafka.
    bump = wanted.leader != old.leader or not set(old.replicas) <= set(wanted.replicas)
    new = replace(wanted, leader_epoch=old.leader_epoch + bump, partition_epoch=old.partition_epoch + 1)
    return old if replace(new, leader_epoch=old.leader_epoch, partition_epoch=old.partition_epoch) == old else new


def _with_reassignment_finished(part: Partition) -> Partition:
    """Complete the reassignment once all added replicas are in sync, and one that stays is."""
    if not part.adding and not part.removing:
        return part
    isr = tuple(r for r in part.isr if r not in part.removing)
    if not isr or not set(part.adding) <= set(isr):
        return part
    replicas = tuple(r for r in part.replicas if r not in part.removing)
    return replace(part, replicas=replicas, isr=isr, adding=(), removing=())


def _with_eligible(old: Partition, part: Partition, candidates: Candidates) -> Partition:
    """Keep replicas eligible that had every record and left the in-sync set, until enough replicas are in sync."""
    if len(part.isr) >= min(candidates.min_insync, len(part.replicas)):
        return replace(part, elr=())
    had = (set(old.isr) | set(old.elr)) - set(part.isr)
    left = tuple(r for r in part.replicas if r in had)
    elr = tuple(r for r in left if r != candidates.unclean_shutdown)
    return replace(part, elr=elr if elr or part.isr else left)


def _led(part: Partition, candidates: Candidates) -> Partition:
    active = candidates.active
    able = [r for r in part.replicas if r in part.isr and r in active]
    if candidates.prefer_first and part.replicas[0] in able:
        return replace(part, leader=part.replicas[0])
    if able:
        return part if part.leader in able else replace(part, leader=able[0])
    eligible = [r for r in part.replicas if r in part.elr and r in active]
    if eligible:
        # The new leader is in sync with itself; the other replicas that had every record still have it.
        alone = replace(part, leader=eligible[0], isr=(eligible[0],))
        return _with_eligible(part, alone, candidates)
    if candidates.unclean:
        for replica in part.replicas:
            if replica in active:
                # Replicas that have more records must truncate them.
                return replace(part, leader=replica, isr=(replica,), elr=())
    return replace(part, leader=NO_LEADER)


_Wanted = Callable[[Partition], Partition | None]
"""Returns the wanted state of a partition; None if it stays unchanged."""


def _changes(topics: Iterable[Topic], wanted: _Wanted, candidates_of: Callable[[Topic], Candidates]) -> Steps[_Records]:
    """Return the records of changed partitions; yield a step for each of these, and for some of the others."""
    records: list[MetadataRecord] = []
    for topic in topics:
        rules: Candidates | None = None
        for number, (index, part) in enumerate(topic.partitions.items(), 1):
            asked = wanted(part)
            if asked is not None:
                rules = rules or candidates_of(topic)
                new = changed_partition(part, asked, rules)
                if new is not part:
                    records.append(new.record(topic.id, index))
                yield
            elif number % _UNCHANGED_OF_A_STEP == 0:
                yield
        yield
    return records


def leave(broker_id: int, image: MetadataImage, *, unclean_shutdown: bool = False) -> Steps[_Records]:
    """Return the records that remove the broker from every in-sync set and leadership.

    With `unclean_shutdown`, the broker may have lost records, and is removed from the eligible leader replicas too.
    """
    active = active_brokers(image) - {broker_id}
    lost = broker_id if unclean_shutdown else None

    def without(part: Partition) -> Partition | None:
        if broker_id in part.isr or broker_id == part.leader or (unclean_shutdown and broker_id in part.elr):
            return replace(part, isr=tuple(r for r in part.isr if r != broker_id))
        return None

    def candidates_of(topic: Topic) -> Candidates:
        return replace(candidates(topic.name, image, active), unclean_shutdown=lost)

    return _changes(image.topics.values(), without, candidates_of)


def come_back(broker_id: int, image: MetadataImage) -> Steps[_Records]:
    """Return the records that make this broker the leader of partitions without one.

    The broker is about to be active, and may lead these partitions.
    """
    active = active_brokers(image) | {broker_id}
    return _changes(
        image.topics.values(),
        lambda part: part if part.leader == NO_LEADER and broker_id in part.replicas else None,
        lambda topic: candidates(topic.name, image, active),
    )


def leads_any(broker_id: int, image: MetadataImage) -> bool:
    return image.topics.led_by(broker_id) > 0


# Elections on request, and those of a timer


def elect(topic: Topic, index: int, kind: ElectionType, image: MetadataImage) -> MetadataRecord:
    """Elect a leader on request, and return the record.

    Raises KafkaError if no election is needed, or no replica can be elected.
    """
    part = topic.partitions.get(index)
    if part is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic.name}-{index}")
    preferred = kind is ElectionType.PREFERRED
    if part.leader == part.replicas[0] if preferred else part.leader != NO_LEADER:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    unclean = not preferred or unclean_allowed(topic.name, image)
    new = changed_partition(part, part, replace(candidates(topic.name, image), unclean=unclean, prefer_first=preferred))
    if new is part:
        raise KafkaError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE if preferred else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            "The preferred leader was not available."
            if preferred
            else "Eligible topic partition leaders are not available.",
        )
    return new.record(topic.id, index)


def preferred_waits(record: MetadataRecord, image: MetadataImage) -> bool:
    """Return whether the record, which was just applied, leaves a preferred replica that could lead but does not."""
    if not isinstance(record, PartitionRecord) or record.leader == record.replicas[0]:
        return False
    preferred = image.brokers.get(record.replicas[0])
    return preferred is not None and preferred.active and preferred.id in record.isr


def rebalance(image: MetadataImage) -> Steps[_Records]:
    """Return the records that move leaders to preferred replicas, for auto.leader.rebalance.

    The preferred replicas can lead. At most REBALANCED_MAX leaders move at once.
    """
    active = active_brokers(image)
    records: list[MetadataRecord] = []
    for topic in image.topics.values():
        changed = _changes(
            [topic],
            lambda part: None if part.leader == part.replicas[0] else part,
            lambda topic: replace(candidates(topic.name, image, active), prefer_first=True),
        )
        records += yield from changed
        if len(records) >= REBALANCED_MAX:
            return records[:REBALANCED_MAX]
    return records


def consequences(decided: Iterable[MetadataRecord], image: MetadataImage) -> Steps[_Records]:
    """Return changes of partitions, if one of the applied records `decided` changes an election rule.

    Election rules are unclean.leader.election.enable and min.insync.replicas, of a topic or of the whole cluster.
    """
    rules: list[ConfigRecord] = yield from chosen(decided, _changes_rules)  # type: ignore[assignment]
    if any(record.resource_type == ResourceType.BROKER and not record.name for record in rules):
        return (yield from reviewed(image))
    names = dict.fromkeys(record.name for record in rules if record.resource_type == ResourceType.TOPIC)
    topics = (image.topics.get(name) for name in names)
    return (yield from reviewed(image, [topic for topic in topics if topic is not None]))


def _changes_rules(record: MetadataRecord) -> bool:
    return isinstance(record, ConfigRecord) and record.key in (_UNCLEAN_KEY, _MIN_INSYNC_KEY)


def reviewed(image: MetadataImage, topics: Iterable[Topic] | None = None) -> Steps[_Records]:
    """Return the records that apply changed election rules to the partitions of `topics`; None means all topics.

    Partitions without a leader get one if an unclean election is allowed. If fewer replicas have to be in sync than
    before, and enough are, the others are no longer eligible.
    """
    active = active_brokers(image)
    return _changes(
        image.topics.values() if topics is None else topics,
        lambda part: part if part.leader == NO_LEADER or part.elr else None,
        lambda topic: candidates(topic.name, image, active),
    )


def partitions(image: MetadataImage) -> Iterator[tuple[Topic, int, Partition]]:
    for topic in image.topics.values():
        for index, part in topic.partitions.items():
            yield topic, index, part
