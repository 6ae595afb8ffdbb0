"""Publish metadata changes to the parts of a broker (Kafka's BrokerMetadataPublisher).

Deletions of logs and limits are applied at once. Replicas are applied over several iterations of the event loop, and
only those that have changed. With the changes, the caller passes a callback for when everything up to a record is in
force.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Protocol
from uuid import UUID

from broker_runtime.clock import Clock, Timer
from broker_runtime.cluster.reactions import Reactions
from broker_runtime.config import BrokerSettings, TopicConfig
from broker_runtime.config.in_force.effective import EffectiveConfig, effective_config
from broker_runtime.coordination.backoff import Backoff
from broker_runtime.metadata.changes import Changes
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.replication.manager import ReplicaManager
from broker_runtime.slicing.steps import gathered, listed
from broker_runtime.storage.disk.disk import Pause
from broker_runtime.storage.log_dir.manager import LogManager

_OFFLINE_RETRY_S_MAX = 60.0
_TOPICS_OF_A_PIECE = 100
"""Topics for which steps are added in one piece; each takes some microseconds."""
_PARTITIONS_OF_A_PIECE = 500
"""Partitions that are assigned to their topics in one piece; each takes less than a microsecond."""


class ConnectionLimits(Protocol):
    """The part of LimitsInForce that applies metadata."""

    def configure(self, effective: EffectiveConfig) -> None: ...

    def on_ip_quotas(self, changed: set[str | None]) -> Iterator[None]:
        """Apply changed quotas. Entities whose quota is in force are removed from `changed`."""
        ...

    def on_connection_groups(self, changed: set[tuple[str, str | None]]) -> Iterator[None]:
        """Apply changed groups. Entries that are in force are removed from `changed`."""
        ...


class ConfigurationListener(Protocol):
    """A part that depends on the configuration only: listeners and observers."""

    def configure(self, effective: EffectiveConfig) -> None: ...


class MetadataPublisher:
    """Publishes metadata changes. `effective` is this broker's configuration by the metadata. Nothing is durable."""

    def __init__(
        self,
        settings: BrokerSettings,
        clock: Clock,
        image: MetadataImage,
        logs: LogManager,
        replicas: ReplicaManager,
        configured: tuple[ConnectionLimits, ConfigurationListener, ConfigurationListener],
    ) -> None:
        """`configured` are limits, listeners and observers."""
        self.effective: EffectiveConfig = effective_config(settings, {}, {})
        self._settings = settings
        self._image = image
        self._logs = logs
        self._replicas = replicas
        self._limits, self._listeners, self._observers = configured
        self._loop = asyncio.get_running_loop()
        self.reactions = Reactions(self._loop, clock.monotonic)
        self._active = False
        self._removed: set[str] = set()
        """Names of topics whose logs have to be deleted."""
        self._changed: dict[str, set[tuple[UUID, int]]] = {}
        """Changed or failed partitions that no step has taken yet, by the name of their topic."""
        self._noted: set[tuple[UUID, int]] = set()
        """Changed partitions that are not in `_changed` yet."""
        self._untold: deque[Changes] = deque()
        """Changes of topics that `on_topics` has not been called with yet."""
        self._reconfigured: set[str] = set()
        """Names of topics with a changed configuration that have no step of their own yet."""
        self._ip_quotas: set[str | None] = set()
        """Names of `ip` entities whose changed quotas are not in force yet."""
        self._connection_groups: set[tuple[str, str | None]] = set()
        """Changed connection groups, and members of them, that are not in force yet."""
        self.on_topics: Callable[[Collection[str], Mapping[str, UUID]], None] = _nobody
        """Called with the names of new or changed topics, and of topics that records have removed, with their ids."""
        self._offline_backoff = Backoff(_OFFLINE_RETRY_S_MAX)
        self._offline_retry: Timer | None = None

    def take_up_replicas(self, done: Callable[[], None]) -> None:
        """Apply everything that complete metadata assigns to this broker; from now on apply changes of topics, too."""
        self._active = True
        over_turns = self.reactions.run_over_turns
        over_turns("setting aside logs that the metadata does not name", self._replicas.remove_strays)
        over_turns("applying all topics", self._apply_all_topics)
        self._retry_offline_when_done()
        self.reactions.when_done("letting clients in", done)

    async def stop(self, timeout_s: float) -> None:
        if timeout_s > 0:
            await self.reactions.finish(timeout_s)
        self.reactions.close()
        if self._offline_retry is not None:
            self._offline_retry.cancel()

    def topic_config(self, topic: str) -> TopicConfig:
        return TopicConfig.of(self._image.configs.of_topic(topic), self.effective.values)

    def publish(self, changes: Changes, done: Callable[[], None]) -> None:
        """Apply changes that the image already contains; a failed step does not stop the others. Then call `done`."""
        run = self.reactions.run
        run("recording which logs are deleted", partial(self._replicas.note_removals, changes.removals))
        if None in changes.broker_configs or self._settings.node_id in changes.broker_configs:
            run("applying the broker's configuration", self._reconfigure)
            # Limits of a listener are set before it opens.
            run("opening and closing listeners", self._reconfigure_listeners)
            run("applying the configuration of observers", self._reconfigure_observers)
        if changes.ip_quotas:
            self._ip_quotas |= changes.ip_quotas
            # Includes those that an earlier change has left because it failed.
            apply_quotas = partial(self._limits.on_ip_quotas, self._ip_quotas)
            self.reactions.run_over_turns("applying quotas of addresses", apply_quotas)
        if changes.connection_groups:
            self._connection_groups |= changes.connection_groups
            apply_groups = partial(self._limits.on_connection_groups, self._connection_groups)
            self.reactions.run_over_turns("applying connection groups", apply_groups)
        if self._active and changes:
            self._apply_to_replicas(changes)
        self.reactions.when_done("reporting which metadata is in force", done)

    def _apply_to_replicas(self, changes: Changes) -> None:
        if changes.brokers:
            self.reactions.run_over_turns("applying the list of brokers", self._replicas.apply_brokers)
        if changes.partitions or changes.topics_removed:
            self._untold.append(changes)
            self.reactions.run_over_turns("reporting which topics have changed", self._tell_topics)
        if changes.topics_removed:
            self._removed |= changes.topics_removed
            self.reactions.run_over_turns("removing topics", self._remove_topics)
        self._apply_partitions(changes.partitions)
        if changes.topic_configs:
            self._reconfigured |= changes.topic_configs
            self.reactions.run_over_turns("configuring changed topics", self._configure_changed)
        self._retry_offline_when_done()

    def _tell_topics(self) -> Iterator[None]:
        while self._untold:
            changes = self._untold[0]
            ids = yield from gathered(topic_id for topic_id, _ in changes.partitions)
            topics = yield from listed(map(self._image.topics.by_id, ids))
            names = yield from gathered(topic.name for topic in topics if topic is not None)
            self.on_topics(names | changes.topics_removed, changes.removals.names)
            self._untold.popleft()

    def _apply_partitions(self, partitions: Iterable[tuple[UUID, int]]) -> None:
        self._noted.update(partitions)
        if self._noted:
            self.reactions.run_over_turns("applying changed topics", self._apply_noted)

    def _apply_all_topics(self) -> Iterator[None]:
        for topic in list(self._image.topics.values()):
            self._noted.update((topic.id, index) for index in topic.partitions)
            yield
        yield from self._apply_noted()

    def _apply_noted(self) -> Iterator[None]:
        """Group changed partitions of existing topics, and add a step for each topic."""
        names: dict[str, None] = {}
        while self._noted:
            for _ in range(min(len(self._noted), _PARTITIONS_OF_A_PIECE)):
                topic_id, index = self._noted.pop()
                topic = self._image.topics.by_id(topic_id)
                if topic is not None:
                    names[topic.name] = None
                    self._changed.setdefault(topic.name, set()).add((topic_id, index))
            yield
        for number, name in enumerate(names, 1):
            self.reactions.run_over_turns(f"applying topic {name}", partial(self._apply_topic, name))
            if number % _TOPICS_OF_A_PIECE == 0:
                yield

    def _apply_topic(self, name: str) -> Iterator[Pause | None]:
        topic, changed = self._image.topics.get(name), self._changed.pop(name, set())
        if topic is None:
            return
        indexes = [index for topic_id, index in changed if topic_id == topic.id]
        try:
            yield from self._replicas.apply_partitions(topic.id, indexes, self.topic_config(name))
        except Exception:
            self._changed.setdefault(name, set()).update(changed)
            raise

    def _remove_topics(self) -> Iterator[None]:
        """Remove these topics, or logs of other topic ids that had these names before."""
        names, self._removed = self._removed, set()
        try:
            yield from self._replicas.remove_topics(names)
        except Exception:
            self._removed |= names
            raise

    def _reconfigure(self) -> None:
        self.effective = effective_config(
            self._settings, self._image.configs.of_broker(None), self._image.configs.of_broker(self._settings.node_id)
        )
        self._limits.configure(self.effective)
        self._logs.cleaner.config = self.effective.config
        self._logs.upkeep.producer_expiration_ms = self.effective.config.producer_id_expiration_ms
        if self._active:
            self.reactions.run_over_turns("configuring topics", self._configure_topics)

    def _reconfigure_listeners(self) -> None:
        self._listeners.configure(self.effective)

    def _reconfigure_observers(self) -> None:
        self._observers.configure(self.effective)

    def _configure_topics(self) -> Iterator[None]:
        for name in list(self._image.topics):
            yield from self._configure_topic(name)

    def _configure_changed(self) -> Iterator[None]:
        """Add a step for each topic."""
        while self._reconfigured:
            for _ in range(min(len(self._reconfigured), _TOPICS_OF_A_PIECE)):
                name = self._reconfigured.pop()
                self.reactions.run_over_turns(f"configuring topic {name}", partial(self._configure_topic, name))
            yield

    def _configure_topic(self, name: str) -> Iterator[None]:
        topic = self._image.topics.get(name)
        if topic is not None:
            yield from self._replicas.configure(topic.id, self.topic_config(name))

    def _retry_offline_when_done(self) -> None:
        self.reactions.when_done("searching for replicas that could not be opened", self._retry_offline_later)

    def _retry_offline_later(self) -> None:
        """Retry replicas that could not be opened, with growing delays: a disk or descriptors may be free by then."""
        if not self._replicas.offline:
            self._offline_backoff.succeeded()
        elif self._offline_retry is None:
            self._offline_retry = self._loop.call_later(self._offline_backoff.failed(), self._retry_offline)

    def _retry_offline(self) -> None:
        self._offline_retry = None
        known = ((self._image.topics.get(name), index) for name, index in self._replicas.offline)
        self._apply_partitions((topic.id, index) for topic, index in known if topic is not None)
        self._retry_offline_when_done()


def _nobody(changed: Collection[str], removed: Mapping[str, UUID]) -> None:
    """Do nothing, for a broker on which only its replicas depend on topics."""
