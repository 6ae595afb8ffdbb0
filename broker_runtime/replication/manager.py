"""The replicas of this broker: which it leads, which it follows and from which leader. Driven by the metadata alone.

Logs are opened and removed here (`local_logs`). Requests find the leaders in `led_replicas`. `followed_replicas` has
the other replicas and their fetchers. One task maintains the in-sync sets, another repairs damaged logs.
"""

import logging
from collections.abc import Collection, Iterator
from functools import partial
from uuid import UUID

from broker_runtime.clock import Clock
from broker_runtime.config import BrokerSettings, TopicConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.topics import Partition, Topic
from broker_runtime.metadata.changes import Removals
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.replication.followed_replicas import FollowedReplicas
from broker_runtime.replication.following.fetch_messages import FetchLimits
from broker_runtime.replication.following.fetcher import FetcherSettings
from broker_runtime.replication.in_sync_sets import InSyncSets, InSyncSettings
from broker_runtime.replication.led_replicas import LedReplicas
from broker_runtime.replication.local_logs import Key, LocalLogs
from broker_runtime.replication.peer import Controller, Peers
from broker_runtime.replication.repairs import OtherBrokers, Repairs
from broker_runtime.replication.replication_tasks import ReplicationTasks
from broker_runtime.storage.disk.disk import Pause
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.log_dir.manager import LogManager

log = logging.getLogger(__name__)

_NOTES_MAX = 20
_MADE_AT_ONCE = 32
"""Logs whose files are created before the first of them is served."""


class ReplicaManager:
    """All replicas of this broker.

    Makes them leaders or followers, and removes those that are no longer assigned to this broker.
    """

    def __init__(
        self, settings: BrokerSettings, clock: Clock, logs: LogManager, image: MetadataImage, peers: Peers
    ) -> None:
        self._me = settings.node_id
        self._logs = logs
        self._image = image
        fetching = FetcherSettings(
            self._me,
            FetchLimits(
                settings.config.replica_fetch_wait_max_ms,
                settings.config.replica_fetch_min_bytes,
                settings.config.replica_fetch_max_bytes,
                settings.config.replica_fetch_response_max_bytes,
            ),
            settings.config.request_timeout_ms / 1000,
            settings.config.replica_fetch_backoff_ms / 1000,
        )
        self._local = LocalLogs(settings.node_id, logs)
        self.offline: dict[Key, str] = {}
        """Partitions of which this broker should have a replica, and why it does not serve them."""
        self.tasks = ReplicationTasks()
        self.led_replicas = LedReplicas(self._me, clock, image, self.offline)
        self.followed_replicas = FollowedReplicas(fetching, clock, peers, logs, self.tasks, self._epoch)
        self.in_sync_sets = InSyncSets(
            InSyncSettings(self._me, settings.config.replica_lag_time_max_ms / 1000, fetching.backoff_max_s),
            clock,
            image,
            self.led_replicas.leaders,
            self._epoch,
        )
        self.repairs = Repairs(
            clock,
            logs,
            OtherBrokers(self._me, image, peers, fetching.request_timeout_s),
            self.led_replicas.leaders,
            self.followed_replicas.followers,
        )

    def start(self, controller: Controller) -> None:
        """Start to fetch for followers, and to maintain the in-sync sets of leaders."""
        self.tasks.spawn(self.in_sync_sets.keep(controller), "in-sync sets")
        self.tasks.spawn(self.repairs.run(), "repairs of damaged logs")
        self.followed_replicas.start(self.repairs.suspect_leader)

    async def stop(self) -> None:
        """Stop leading and following, whatever the metadata assigns.

        For example, the broker has lost the controller.
        """
        self.led_replicas.begin_stop()
        await self.tasks.stop()
        self.followed_replicas.close()
        self.led_replicas.resign_all()

    def replica_log(self, topic_id: UUID, index: int, leader_epoch: int) -> Log:
        """Return a replica's log in the given leader epoch. The log must be a prefix of the leader's log.

        Raises KafkaError: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER.
        """
        topic = self._image.topics.by_id(topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"topic id {topic_id} does not exist")
        key = (topic.name, index)
        leader, follower = self.led_replicas.leaders.get(key), self.followed_replicas.followers.get(key)
        replica = leader if leader is not None else follower
        if replica is None or replica.log.topic_id != topic_id or (follower is not None and not follower.truncated):
            text = f"this broker has no replica of {topic.name}-{index} that is consistent with the leader's"
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, text)
        if replica.leader_epoch != leader_epoch:
            is_old = leader_epoch < replica.leader_epoch
            code = ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH
            raise KafkaError(code, f"the leader epoch is {replica.leader_epoch} on this broker, not {leader_epoch}")
        return replica.log

    # Each of these iterators works in small steps, and each step uses the metadata of that moment.

    def apply_partitions(self, topic_id: UUID, indexes: Collection[int], config: TopicConfig) -> Iterator[Pause | None]:
        """Apply the state of these partitions of a topic.

        If one of them fails, the failure is logged, and the others are applied.
        """
        left = sorted(indexes)
        while left and (topic := self._image.topics.by_id(topic_id)) is not None:
            some, left = left[:_MADE_AT_ONCE], left[_MADE_AT_ONCE:]
            if any(self._logs.get(topic.name, index) is None for index in some):
                yield partial(self._local.make_soon, topic, some)
            for index in some:
                topic = self._image.topics.by_id(topic_id)
                if topic is None:
                    break
                self._apply_partition(topic, index, config)
                yield None
        self._logs.new_logs.drop(topic_id)
        self.followed_replicas.end_idle_fetchers()

    def _apply_partition(self, topic: Topic, index: int, config: TopicConfig) -> None:
        key, part = (topic.name, index), topic.partitions[index]
        if self._me in part.replicas:
            try:
                self._apply(topic, index, part, config)
                self.offline.pop(key, None)
            except (OSError, KafkaError) as error:
                self._cannot_serve(key, error)
        elif self._local.holds(key):
            self._part_with(key)

    def _cannot_serve(self, key: Key, error: Exception) -> None:
        if self.offline.get(key) != str(error):
            log.error("partition %s-%d is not served, because it cannot be opened: %s", *key, error)
        self._stop_serving(key)
        self.offline[key] = str(error)

    def offline_notes(self) -> list[str]:
        """Return a sentence for each partition that this broker should serve but does not, up to a limit."""
        notes = [f"{topic}-{index} is not served: {why}" for (topic, index), why in self.offline.items()]
        more = len(notes) - _NOTES_MAX
        return [*notes[:_NOTES_MAX], f"{more} more partitions are not served"] if more > 0 else notes

    def _apply(self, topic: Topic, index: int, part: Partition, config: TopicConfig) -> None:
        key = (topic.name, index)
        replica = self._local.opened(topic, index, part, config)
        if part.leader == self._me:
            self.followed_replicas.unfollow(key)
            self.led_replicas.lead(key, topic, replica, part)
        else:
            self.led_replicas.resign(key)
            self.followed_replicas.follow(key, topic, replica, part)

    def _epoch(self) -> int:
        mine = self._image.brokers.get(self._me)
        return -1 if mine is None else mine.epoch

    def _stop_serving(self, key: Key) -> None:
        self.offline.pop(key, None)
        self.led_replicas.resign(key)
        self.followed_replicas.unfollow(key)

    def configure(self, topic_id: UUID, config: TopicConfig) -> Iterator[None]:
        topic = self._image.topics.by_id(topic_id)
        for index in list(topic.partitions) if topic is not None else ():
            replica = self._logs.get(topic.name, index) if topic is not None else None
            if replica is not None and replica.topic_id == topic_id:
                replica.update_config(config)
            yield

    def note_removals(self, removals: Removals) -> None:
        """Record the removals of replicas that records of the metadata order.

        The caller passes them before they are applied, also before serving.
        """
        self._local.note_removals(removals)

    def remove_topics(self, names: Collection[str]) -> Iterator[None]:
        """Remove all logs with these topics' names, except those of newer topics with the same names."""
        for key in self._local.held_of(names, self._image):
            self._part_with(key)
            yield
        self.followed_replicas.end_idle_fetchers()

    def remove_strays(self) -> Iterator[None]:
        """Remove the logs that the metadata does not assign to this broker; call it once metadata is complete."""
        for key in self._local.not_given_by(self._image):
            self._part_with(key)
            yield

    def _part_with(self, key: Key) -> None:
        self._stop_serving(key)
        self._local.part_with(key)
