"""Opens and removes the logs on this broker's disk according to the metadata.

A log is deleted only if a record has ordered it. If the metadata, which may have been lost or restored from an older
copy, merely does not name a log, the log is set aside. This broker does not lead a log whose records are damaged or set
aside, so that no empty log replaces acknowledged records. To follow a leader that has everything, the log is cut and
refilled.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from uuid import UUID

from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.topics import Partition, Topic
from broker_runtime.metadata.changes import Removals
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.topic_names import METADATA_TOPIC
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.log_dir.manager import LogManager

log = logging.getLogger(__name__)

Key = tuple[str, int]


class LocalLogs:
    """Opens, creates and deletes the logs of this broker's replicas, as the metadata assigns them."""

    def __init__(self, me: int, logs: LogManager) -> None:
        self._me = me
        self._logs = logs
        self._ordered: set[tuple[UUID, int]] = set()
        """(topic id, partition) of logs that records have ordered to delete."""

    def opened(self, topic: Topic, index: int, part: Partition, config: TopicConfig) -> Log:
        """Return the log of a replica, opened or created.

        Raises KafkaError (KAFKA_STORAGE_ERROR) if it is unavailable or this broker must not lead it.
        """
        self._ordered.discard((topic.id, index))
        known = self._logs.get(topic.name, index)
        if known is not None and known.topic_id == topic.id:
            # The topic's configuration was not known yet when the log was loaded.
            known.update_config(config)
            return known
        if known is not None:
            self.part_with((topic.name, index))
        made = self._mended(topic, index, part, config)
        if made is None:
            made = self._logs.create(topic.name, index, topic.id, config)
        made.sole_replica = False
        return made

    def make_soon(self, topic: Topic, indexes: Sequence[int], done: Callable[[], None]) -> None:
        """Create missing files of these logs beside the event loop, before each of them is `opened`."""
        mine = [index for index in indexes if self._me in topic.partitions[index].replicas]
        wanted = [index for index in mine if self._logs.strays.of(topic.id, index) is None]
        self._logs.new_logs.make_soon([((topic.name, index), topic.id) for index in wanted], done)

    def _mended(self, topic: Topic, index: int, part: Partition, config: TopicConfig) -> Log | None:
        """Return the intact part of a damaged log, to follow a leader with; None when the log is to begin empty."""
        follows = part.leader not in (self._me, -1)
        damaged = self._logs.damaged.get((topic.name, index))
        if damaged is not None and damaged.topic_id not in (None, topic.id):
            self.part_with((topic.name, index))
        elif damaged is not None:
            if not follows:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(damaged))
            return self._logs.cut_damaged(topic.name, index, topic.id, config)
        stray = self._logs.strays.of(topic.id, index)
        if stray is not None and not follows:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"its records are set aside in {stray}: stop this broker and rename that folder to "
                f"{topic.name}-{index}, or remove the folder to start with an empty log",
            )
        return None

    def note_removals(self, removals: Removals) -> None:
        """Remember the replicas that records of the metadata delete.

        The caller passes all removals before they are applied, also before it serves.
        """
        for (_, index), topic_id in self._logs.holdings() if removals else ():
            if topic_id is not None and removals.order_deletion(topic_id, index, self._me):
                self._ordered.add((topic_id, index))

    def held_of(self, names: Collection[str], image: MetadataImage) -> Iterator[Key]:
        """Yield all partitions with a log of these topics' names, except those of newer topics with the same names."""
        for key, topic_id in self._held_now():
            topic = image.topics.get(key[0])
            if key[0] in names and (topic is None or topic_id != topic.id):
                yield key

    def holds(self, key: Key) -> bool:
        return self._logs.get(*key) is not None or key in self._logs.damaged

    def not_given_by(self, image: MetadataImage) -> Iterator[Key]:
        for key, topic_id in self._held_now():
            topic = image.topics.get(key[0])
            part = topic.partitions.get(key[1]) if topic is not None and topic_id in (None, topic.id) else None
            if key[0] != METADATA_TOPIC and (part is None or self._me not in part.replicas):
                yield key

    def _held_now(self) -> Iterator[tuple[Key, UUID | None]]:
        """Yield each partition with its topic id of that moment: a new log may replace an old one between two steps."""
        for key, _ in self._logs.holdings():
            if self.holds(key):
                yield key, self._topic_id(key)

    def _topic_id(self, key: Key) -> UUID | None:
        known, damaged = self._logs.get(*key), self._logs.damaged.get(key)
        held = damaged if known is None else known
        return None if held is None else held.topic_id

    def part_with(self, key: Key) -> None:
        """Delete a log if a record has ordered the deletion.

        Set the log aside if the metadata merely does not name it.
        """
        topic_id = self._topic_id(key)
        ordered = topic_id is not None and (topic_id, key[1]) in self._ordered
        if topic_id is not None:
            self._ordered.discard((topic_id, key[1]))
        try:
            if ordered:
                self._logs.delete(*key)
            else:
                self._logs.set_aside(*key)
        except KafkaError as error:
            log.error("a log that this broker no longer needs could not be removed; the next start retries: %s", error)
