"""The replicas of this broker: which it leads, which it follows and from which leader. Driven by the metadata alone.

Logs are opened, led, followed and deleted here; requests find leaders through `led`. There is one fetcher task for each
broker that leads a followed partition, and one task for the in-sync sets.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from functools import partial
from typing import Protocol
from uuid import UUID

from broker_runtime.clock import Clock
from broker_runtime.config import BrokerSettings, TopicConfig
from broker_runtime.coordination.backoff import Backoff
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.changes import Removals
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.topics import Partition, Topic
from broker_runtime.replication.fetch_messages import FetchLimits
from broker_runtime.replication.fetcher import FetcherSettings, LeaderFetcher
from broker_runtime.replication.follower import FollowerReplica
from broker_runtime.replication.in_sync_sets import InSyncSets, InSyncSettings
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.replication.local_logs import Key, LocalLogs
from broker_runtime.replication.peer import Controller, Peers
from broker_runtime.replication.repairs import OtherBrokers, Repairs
from broker_runtime.storage.disk.disk import Pause
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.log_dir.manager import LogManager

log = logging.getLogger(__name__)

_NOTES_MAX = 20
_MADE_AT_ONCE = 32
"""Logs whose files are created before the first of them is served."""


class LeadershipObserver(Protocol):
    """A component that acts on partitions that this broker leads, such as a coordinator."""

    def leads(self, leader: LeaderReplica, /) -> None:
        """Called when this broker begins to lead in `leader.leader_epoch`; an earlier epoch, if any, has ended."""
        ...

    def leads_no_more(self, topic: str, index: int, /) -> None: ...


class ReplicaManager:
    """All replicas of this broker: makes them leaders or followers, and removes those that are assigned no longer."""

    def __init__(
        self, settings: BrokerSettings, clock: Clock, logs: LogManager, image: MetadataImage, peers: Peers
    ) -> None:
        self._me = settings.node_id
        self._clock = clock
        self._logs = logs
        self._image = image
        self._peers = peers
        self._fetching = FetcherSettings(
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
        self._led: dict[Key, LeaderReplica] = {}
        self.leaders: Mapping[Key, LeaderReplica] = self._led
        """The partitions that this broker leads."""
        self._followed: dict[Key, FollowerReplica] = {}
        self._local = LocalLogs(settings.node_id, logs)
        self.offline: dict[Key, str] = {}
        """Partitions of which this broker should have a replica, and why it does not serve them."""
        self._fetchers: dict[int, tuple[LeaderFetcher, asyncio.Task[None]]] = {}
        self._controller: Controller | None = None
        self._isr_task: asyncio.Task[None] | None = None
        self._stopped = False
        self.in_sync_sets = InSyncSets(
            InSyncSettings(self._me, settings.config.replica_lag_time_max_ms / 1000, self._fetching.backoff_max_s),
            clock,
            image,
            self._led,
            self._epoch,
        )
        self.repairs = Repairs(
            clock,
            logs,
            OtherBrokers(self._me, image, peers, self._fetching.request_timeout_s),
            self._led,
            self._followed,
        )
        self._repair_task: asyncio.Task[None] | None = None
        self.observers: dict[str, LeadershipObserver] = {}
        """By topic; notified of each change of what this broker leads. Observers must not raise."""
        self.failed: Callable[[BaseException], None] | None = None
        """Called when a task of replication ends because of a bug."""

    def start(self, controller: Controller) -> None:
        """Start to fetch as follower and to maintain the in-sync sets."""
        self._controller = controller
        self._isr_task = self._spawn(self.in_sync_sets.keep(controller), "in-sync sets")
        self._repair_task = self._spawn(self.repairs.run(), "repairs of damaged logs")
        for replica in self._followed.values():
            self._fetch(replica)

    async def stop(self) -> None:
        """Stop leading and following, whatever the metadata assigns, for example while the controller is away."""
        self._stopped = True
        tasks = [task for _, task in self._fetchers.values()]
        tasks += [task for task in (self._isr_task, self._repair_task) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for fetcher, _ in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()
        for key in list(self._led):
            self._resign(key)

    def _spawn(self, work: Coroutine[None, None, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.critical("the task of %s failed", task.get_name(), exc_info=error)
            if self.failed is not None:
                self.failed(error)

    def led(self, topic: str, index: int) -> LeaderReplica:
        found, known = self._led.get((topic, index)), self._image.topics.get(topic)
        # Logs of a removed topic are removed over several iterations, and its name may already belong to another topic.
        if found is None or known is None or (known.id is not found.topic_id and known.id != found.topic_id):
            raise self._not_led(topic, index)
        return found

    def replica_log(self, topic_id: UUID, index: int, leader_epoch: int) -> Log:
        """The log of a replica that is known to be a prefix of the leader's, in this leader epoch.

        Raises KafkaError: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER.
        """
        topic = self._image.topics.by_id(topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"topic id {topic_id} does not exist")
        leader, follower = self._led.get((topic.name, index)), self._followed.get((topic.name, index))
        replica = leader if leader is not None else follower
        if replica is None or replica.log.topic_id != topic_id or (follower is not None and not follower.truncated):
            text = f"this broker has no replica of {topic.name}-{index} that is consistent with the leader's"
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, text)
        if replica.leader_epoch != leader_epoch:
            is_old = leader_epoch < replica.leader_epoch
            code = ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH
            raise KafkaError(code, f"the leader epoch is {replica.leader_epoch} on this broker, not {leader_epoch}")
        return replica.log

    def _not_led(self, topic: str, index: int) -> KafkaError:
        known = self._image.topics.get(topic)
        if known is None or index not in known.partitions:
            return KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {index} of topic {topic} does not exist"
            )
        if self._should_lead(topic, index) and (topic, index) in self.offline:
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{topic}-{index} could not be opened on this broker")
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not lead partition {index} of {topic}")

    def _should_lead(self, topic: str, index: int) -> bool:
        known = self._image.topics.get(topic)
        part = None if known is None else known.partitions.get(index)
        return part is not None and part.leader == self._me and not self._stopped

    def is_to_lead(self, topic: str, index: int) -> bool:
        """Whether this broker leads the partition by the metadata, and serves it now or soon.

        False if the replica cannot be opened, as that may last.
        """
        return self._should_lead(topic, index) and (topic, index) not in self.offline

    # Each of these iterators works in small steps, and each step uses the metadata of that moment.

    def apply_partitions(self, topic_id: UUID, indexes: Collection[int], config: TopicConfig) -> Iterator[Pause | None]:
        """Apply the state of these partitions of a topic; a failing one is logged, and the others are applied."""
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
        self._end_idle_fetchers()

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
        """A sentence for each partition that should be served here and is not, up to a limit."""
        notes = [f"{topic}-{index} is not served: {why}" for (topic, index), why in self.offline.items()]
        more = len(notes) - _NOTES_MAX
        return [*notes[:_NOTES_MAX], f"{more} more partitions are not served"] if more > 0 else notes

    def _apply(self, topic: Topic, index: int, part: Partition, config: TopicConfig) -> None:
        key = (topic.name, index)
        replica = self._local.opened(topic, index, part, config)
        if part.leader == self._me:
            self._lead(key, topic, replica, part)
        else:
            self._resign(key)
            self._follow(key, topic, replica, part)

    def _lead(self, key: Key, topic: Topic, replica: Log, part: Partition) -> None:
        self._unfollow(key)
        leader = self._led.get(key)
        if leader is not None and leader.log is not replica:
            # It led a topic that had this name before.
            self._resign(key)
            leader = None
        if leader is None or leader.leader_epoch < 0:
            leader = self._led[key] = LeaderReplica(self._me, topic.name, topic.id, key[1], replica)
        epoch_before = leader.leader_epoch
        leader.update(part, self._image.brokers, self._clock.monotonic())
        if leader.leader_epoch != epoch_before and topic.name in self.observers:
            self.observers[topic.name].leads(leader)

    def _follow(self, key: Key, topic: Topic, replica: Log, part: Partition) -> None:
        known = self._followed.get(key)
        now = (replica, part.leader, part.leader_epoch)
        if known is not None and (known.log, known.leader, known.leader_epoch) == now:
            return
        self._unfollow(key)
        replica.sole_replica = False
        if part.leader < 0:
            return
        backoff = Backoff(self._fetching.backoff_max_s)
        known = FollowerReplica(topic.name, topic.id, key[1], replica, part.leader, part.leader_epoch, backoff)
        self._followed[key] = known
        self._fetch(known)

    def _fetch(self, replica: FollowerReplica) -> None:
        if self._controller is None:
            return
        running = self._fetchers.get(replica.leader)
        if running is None:
            link = self._peers.link_to(replica.leader)
            on_corrupt = self.repairs.suspect_leader
            fetcher = LeaderFetcher(
                replica.leader, link, self._fetching, self._clock, self._epoch, self._logs, on_corrupt
            )
            task = self._spawn(fetcher.run(), f"fetching from broker {replica.leader}")
            running = self._fetchers[replica.leader] = (fetcher, task)
        running[0].follow(replica)

    def _epoch(self) -> int:
        mine = self._image.brokers.get(self._me)
        return -1 if mine is None else mine.epoch

    def _unfollow(self, key: Key) -> None:
        known = self._followed.pop(key, None)
        if known is None:
            return
        if known.leader in self._fetchers:
            self._fetchers[known.leader][0].forget(known.topic_id, known.index)

    def _end_idle_fetchers(self) -> None:
        for leader, (fetcher, task) in list(self._fetchers.items()):
            if not fetcher:
                task.cancel()
                fetcher.close()
                del self._fetchers[leader]

    def _resign(self, key: Key) -> None:
        leader = self._led.pop(key, None)
        if leader is not None:
            leader.resign()
            if key[0] in self.observers:
                self.observers[key[0]].leads_no_more(*key)

    def _stop_serving(self, key: Key) -> None:
        self.offline.pop(key, None)
        self._resign(key)
        self._unfollow(key)

    def apply_brokers(self) -> Iterator[None]:
        """Apply changes of the brokers: the followers' state may belong to a replaced broker."""
        for leader in list(self._led.values()):
            leader.follow_brokers(self._image.brokers, self._clock.monotonic())
            yield

    def configure(self, topic_id: UUID, config: TopicConfig) -> Iterator[None]:
        topic = self._image.topics.by_id(topic_id)
        for index in list(topic.partitions) if topic is not None else ():
            replica = self._logs.get(topic.name, index) if topic is not None else None
            if replica is not None and replica.topic_id == topic_id:
                replica.update_config(config)
            yield

    def note_removals(self, removals: Removals) -> None:
        """Note all removals by records; call it before they are applied, also before serving."""
        self._local.note_removals(removals)

    def remove_topics(self, names: Collection[str]) -> Iterator[None]:
        """Remove all logs with these topics' names, except those of newer topics with the same names."""
        for key in self._local.held_of(names, self._image):
            self._part_with(key)
            yield
        self._end_idle_fetchers()

    def remove_strays(self) -> Iterator[None]:
        """Remove the logs that the metadata does not assign to this broker; call it once metadata is complete."""
        for key in self._local.not_given_by(self._image):
            self._part_with(key)
            yield

    def _part_with(self, key: Key) -> None:
        self._stop_serving(key)
        self._local.part_with(key)
