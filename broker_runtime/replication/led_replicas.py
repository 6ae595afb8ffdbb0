"""The partitions that this broker leads, and its errors for those that it does not lead. Requests find leaders here."""

from collections.abc import Iterator, Mapping
from typing import Protocol

from broker_runtime.clock import Clock
from broker_runtime.errors import ErrorCode, KafkaError, quoted
from broker_runtime.metadata.areas.topics import Partition, Topic
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.replication.local_logs import Key
from broker_runtime.storage.log.log import Log


class LeadershipObserver(Protocol):
    """A component that acts on partitions that this broker leads, for example a coordinator."""

    def leads(self, leader: LeaderReplica, /) -> None:
        """Begin to lead the partition in `leader.leader_epoch`; an earlier epoch, if any, has ended."""
        ...

    def leads_no_more(self, topic: str, index: int, /) -> None: ...


class LedReplicas:
    """The leader replicas of this broker.

    `ReplicaManager` decides by the metadata which partitions they lead.
    """

    def __init__(self, me: int, clock: Clock, image: MetadataImage, offline: Mapping[Key, str]) -> None:
        """`offline` has the partitions that cannot be opened; it is the manager's."""
        self._me = me
        self._clock = clock
        self._image = image
        self._offline = offline
        self._led: dict[Key, LeaderReplica] = {}
        self.leaders: Mapping[Key, LeaderReplica] = self._led
        """The partitions that this broker leads."""
        self.observers: dict[str, LeadershipObserver] = {}
        """Observers of one topic each, by its name.

        They are notified of each change of the partitions that this broker leads, and must not raise.
        """
        self._stopped = False

    def led(self, topic: str, index: int) -> LeaderReplica:
        """Return the replica of a partition that this broker leads.

        Raises KafkaError if this broker does not lead the partition.
        """
        found, known = self._led.get((topic, index)), self._image.topics.get(topic)
        # Logs of a removed topic are removed over several iterations, and its name may already belong to another topic.
        if found is None or known is None or (known.id is not found.topic_id and known.id != found.topic_id):
            raise self._not_led(topic, index)
        return found

    def _not_led(self, topic: str, index: int) -> KafkaError:
        known = self._image.topics.get(topic)
        if known is None or index not in known.partitions:
            text = f"partition {index} of topic {quoted(topic)} does not exist"
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
        if self._should_lead(topic, index) and (topic, index) in self._offline:
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{topic}-{index} could not be opened on this broker")
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not lead partition {index} of {topic}")

    def _should_lead(self, topic: str, index: int) -> bool:
        known = self._image.topics.get(topic)
        part = None if known is None else known.partitions.get(index)
        return part is not None and part.leader == self._me and not self._stopped

    def is_to_lead(self, topic: str, index: int) -> bool:
        """Return whether the metadata makes this broker the leader, and the broker serves the partition now or soon.

        False if the replica cannot be opened, because that may not change soon.
        """
        return self._should_lead(topic, index) and (topic, index) not in self._offline

    def lead(self, key: Key, topic: Topic, replica: Log, part: Partition) -> None:
        """Lead the partition with the log `replica` in the leader epoch of `part`, and notify the topic's observer."""
        leader = self._led.get(key)
        if leader is not None and leader.log is not replica:
            # The known leader is of a former topic with this name.
            self.resign(key)
            leader = None
        if leader is None or leader.leader_epoch < 0:
            leader = self._led[key] = LeaderReplica(self._me, topic.name, topic.id, key[1], replica)
        epoch_before = leader.leader_epoch
        leader.update(part, self._image.brokers, self._clock.monotonic())
        if leader.leader_epoch != epoch_before and topic.name in self.observers:
            self.observers[topic.name].leads(leader)

    def resign(self, key: Key) -> None:
        """Stop leading the partition, if this broker leads it."""
        leader = self._led.pop(key, None)
        if leader is not None:
            leader.resign()
            if key[0] in self.observers:
                self.observers[key[0]].leads_no_more(*key)

    def apply_brokers(self) -> Iterator[None]:
        """Apply changes of the brokers in steps: a follower's state may belong to a replaced broker."""
        for leader in list(self._led.values()):
            leader.follow_brokers(self._image.brokers, self._clock.monotonic())
            yield

    def begin_stop(self) -> None:
        """Lead no new partition from now on, whatever the metadata assigns. Call `resign_all` next."""
        self._stopped = True

    def resign_all(self) -> None:
        for key in list(self._led):
            self.resign(key)
