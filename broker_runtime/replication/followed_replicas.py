"""The partitions that this broker follows, and their fetchers: one task for each broker that leads some of them."""

import asyncio
from collections.abc import Callable, Mapping

from broker_runtime.clock import Clock
from broker_runtime.coordination.backoff import Backoff
from broker_runtime.metadata.areas.topics import Partition, Topic
from broker_runtime.replication.following.fetcher import FetcherSettings, LeaderFetcher
from broker_runtime.replication.following.follower import FollowerReplica
from broker_runtime.replication.local_logs import Key
from broker_runtime.replication.peer import Peers
from broker_runtime.replication.replication_tasks import ReplicationTasks
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.log_dir.manager import LogManager


class FollowedReplicas:
    """The follower replicas of this broker, and their fetchers.

    `ReplicaManager` decides by the metadata which replicas follow.
    """

    def __init__(
        self,
        settings: FetcherSettings,
        clock: Clock,
        peers: Peers,
        logs: LogManager,
        tasks: ReplicationTasks,
        broker_epoch: Callable[[], int],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._peers = peers
        self._logs = logs
        self._tasks = tasks
        self._broker_epoch = broker_epoch
        self._followed: dict[Key, FollowerReplica] = {}
        self.followers: Mapping[Key, FollowerReplica] = self._followed
        """The partitions that this broker follows."""
        self._fetchers: dict[int, tuple[LeaderFetcher, asyncio.Task[None]]] = {}
        self._on_corrupt: Callable[[FollowerReplica], None] | None = None
        """The function that handles a damaged batch; None before `start`."""

    def start(self, on_corrupt: Callable[[FollowerReplica], None]) -> None:
        """Start to fetch from the leaders of followed partitions.

        `on_corrupt` is called for a replica whose leader has sent a damaged batch.
        """
        self._on_corrupt = on_corrupt
        for replica in self._followed.values():
            self._fetch(replica, on_corrupt)

    def follow(self, key: Key, topic: Topic, replica: Log, part: Partition) -> None:
        """Let the replica with this log follow the leader of the partition `part`.

        Without a leader, only stop following the previous leader.
        """
        known = self._followed.get(key)
        now = (replica, part.leader, part.leader_epoch)
        if known is not None and (known.log, known.leader, known.leader_epoch) == now:
            return
        self.unfollow(key)
        replica.sole_replica = False
        if part.leader < 0:
            return
        backoff = Backoff(self._settings.backoff_max_s)
        known = FollowerReplica(topic.name, topic.id, key[1], replica, part.leader, part.leader_epoch, backoff)
        self._followed[key] = known
        if self._on_corrupt is not None:
            self._fetch(known, self._on_corrupt)

    def _fetch(self, replica: FollowerReplica, on_corrupt: Callable[[FollowerReplica], None]) -> None:
        running = self._fetchers.get(replica.leader)
        if running is None:
            link = self._peers.link_to(replica.leader)
            fetcher = LeaderFetcher(
                replica.leader, link, self._settings, self._clock, self._broker_epoch, self._logs, on_corrupt
            )
            task = self._tasks.spawn(fetcher.run(), f"fetching from broker {replica.leader}")
            running = self._fetchers[replica.leader] = (fetcher, task)
        running[0].follow(replica)

    def unfollow(self, key: Key) -> None:
        """Stop following the partition, if this broker follows it."""
        known = self._followed.pop(key, None)
        if known is None:
            return
        if known.leader in self._fetchers:
            self._fetchers[known.leader][0].forget(known.topic_id, known.index)

    def end_idle_fetchers(self) -> None:
        """End the fetchers whose leaders lead no followed partition any more."""
        for leader, (fetcher, task) in list(self._fetchers.items()):
            if not fetcher:
                task.cancel()
                fetcher.close()
                del self._fetchers[leader]

    def close(self) -> None:
        """Close the connections of all fetchers. The fetchers' tasks must have ended before."""
        for fetcher, _ in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()
