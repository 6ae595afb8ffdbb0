"""Publish changes of topics, partitions and brokers to the replicas, over several iterations of the event loop.

Only what has changed is applied. Changes that no step has applied yet are merged with later ones.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from uuid import UUID

from broker_runtime.clock import Timer
from broker_runtime.cluster.reactions import Reactions, Scheduler
from broker_runtime.config import TopicConfig
from broker_runtime.coordination.backoff import Backoff
from broker_runtime.metadata.changes import Changes
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.replication.manager import ReplicaManager
from broker_runtime.slicing.steps import gathered, listed
from broker_runtime.storage.disk.disk import Pause

_OFFLINE_RETRY_S_MAX = 60.0
_TOPICS_OF_A_PIECE = 100
"""Topics for which steps are added in one piece; each takes some microseconds."""
_PARTITIONS_OF_A_PIECE = 500
"""Partitions that are assigned to their topics in one piece; each takes less than a microsecond."""


class ReplicaPublisher:
    """Applies metadata changes to the replicas, and keeps those that are not applied yet.

    Ignores all changes before `take_up`. Also retries replicas that could not be opened. Nothing is durable.
    """

    def __init__(
        self,
        image: MetadataImage,
        replicas: ReplicaManager,
        reactions: Reactions,
        loop: Scheduler,
        topic_config: Callable[[str], TopicConfig],
    ) -> None:
        """`topic_config` returns the configuration of a topic that is in force."""
        self._image = image
        self._replicas = replicas
        self._reactions = reactions
        self._loop = loop
        self._topic_config = topic_config
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
        self.on_topics: Callable[[Collection[str], Mapping[str, UUID]], None] = _nobody
        """Called with the names of new or changed topics, and of topics that records have removed, with their ids."""
        self._offline_backoff = Backoff(_OFFLINE_RETRY_S_MAX)
        self._offline_retry: Timer | None = None

    def take_up(self) -> None:
        """Apply everything that complete metadata assigns to this broker. From now on apply changes, too."""
        self._active = True
        over_slices = self._reactions.run_over_slices
        over_slices("setting aside logs that the metadata does not name", self._replicas.remove_strays)
        over_slices("applying all topics", self._apply_all_topics)
        self._retry_offline_when_done()

    def close(self) -> None:
        if self._offline_retry is not None:
            self._offline_retry.cancel()

    def configure_all(self) -> None:
        """Apply the configuration of all topics, because the broker's configuration has changed."""
        if self._active:
            self._reactions.run_over_slices("configuring topics", self._configure_topics)

    def publish(self, changes: Changes) -> None:
        """Apply changes that the image already contains."""
        if not self._active or not changes:
            return
        if changes.brokers:
            apply_brokers = self._replicas.led_replicas.apply_brokers
            self._reactions.run_over_slices("applying the list of brokers", apply_brokers)
        if changes.partitions or changes.topics_removed:
            self._untold.append(changes)
            self._reactions.run_over_slices("reporting which topics have changed", self._tell_topics)
        if changes.topics_removed:
            self._removed |= changes.topics_removed
            self._reactions.run_over_slices("removing topics", self._remove_topics)
        self._apply_partitions(changes.partitions)
        if changes.topic_configs:
            self._reconfigured |= changes.topic_configs
            self._reactions.run_over_slices("configuring changed topics", self._configure_changed)
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
            self._reactions.run_over_slices("applying changed topics", self._apply_noted)

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
            self._reactions.run_over_slices(f"applying topic {name}", partial(self._apply_topic, name))
            if number % _TOPICS_OF_A_PIECE == 0:
                yield

    def _apply_topic(self, name: str) -> Iterator[Pause | None]:
        topic, changed = self._image.topics.get(name), self._changed.pop(name, set())
        if topic is None:
            return
        indexes = [index for topic_id, index in changed if topic_id == topic.id]
        try:
            yield from self._replicas.apply_partitions(topic.id, indexes, self._topic_config(name))
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

    def _configure_topics(self) -> Iterator[None]:
        for name in list(self._image.topics):
            yield from self._configure_topic(name)

    def _configure_changed(self) -> Iterator[None]:
        """Add a step for each topic."""
        while self._reconfigured:
            for _ in range(min(len(self._reconfigured), _TOPICS_OF_A_PIECE)):
                name = self._reconfigured.pop()
                self._reactions.run_over_slices(f"configuring topic {name}", partial(self._configure_topic, name))
            yield

    def _configure_topic(self, name: str) -> Iterator[None]:
        topic = self._image.topics.get(name)
        if topic is not None:
            yield from self._replicas.configure(topic.id, self._topic_config(name))

    def _retry_offline_when_done(self) -> None:
        self._reactions.when_done("searching for replicas that could not be opened", self._retry_offline_later)

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
