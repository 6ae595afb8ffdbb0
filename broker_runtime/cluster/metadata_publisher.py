"""Publish metadata changes to the parts of a broker (Kafka's BrokerMetadataPublisher).

Deletions of logs and limits are applied at once. `replica_publisher` applies replicas over several iterations of the
event loop, and only those that have changed. With the changes, the caller passes a callback for when everything up to a
record is in force.
"""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

from broker_runtime.clock import Clock
from broker_runtime.cluster.reactions import Reactions
from broker_runtime.cluster.replica_publisher import ReplicaPublisher
from broker_runtime.config import BrokerSettings, TopicConfig
from broker_runtime.config.in_force.effective import EffectiveConfig, effective_config
from broker_runtime.metadata.changes import Changes
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.replication.manager import ReplicaManager
from broker_runtime.storage.log_dir.manager import LogManager


class ConnectionLimits(Protocol):
    """The limits on connections, as far as metadata changes them: a part of LimitsInForce."""

    def configure(self, effective: EffectiveConfig) -> None: ...

    def on_ip_quotas(self, changed: set[str | None]) -> Iterator[None]:
        """Apply changed quotas of addresses in steps. Entities whose quota is in force are removed from `changed`."""
        ...

    def on_connection_groups(self, changed: set[tuple[str, str | None]]) -> Iterator[None]:
        """Apply changes of connection groups' limits and members in steps.

        Entries that are in force are removed from `changed`.
        """
        ...


class ConfigurationListener(Protocol):
    """A part of the broker that depends on the configuration only, such as listeners and observers."""

    def configure(self, effective: EffectiveConfig) -> None: ...


class MetadataPublisher:
    """Brings metadata changes into force on this broker.

    `effective` is this broker's configuration by the metadata. Nothing is durable.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        clock: Clock,
        image: MetadataImage,
        logs: LogManager,
        replicas: ReplicaManager,
        configured: tuple[ConnectionLimits, ConfigurationListener, ConfigurationListener],
    ) -> None:
        """Create the publisher. `configured` are limits, listeners and observers."""
        self.effective: EffectiveConfig = effective_config(settings, {}, {})
        self._settings = settings
        self._image = image
        self._logs = logs
        self._replicas = replicas
        self._limits, self._listeners, self._observers = configured
        loop = asyncio.get_running_loop()
        self.reactions = Reactions(loop, clock.monotonic)
        self.replica_publisher = ReplicaPublisher(image, replicas, self.reactions, loop, self.topic_config)
        self.on_client_quotas: Callable[[], Iterator[None]] = _nothing
        """Applies the quotas of users and client ids."""
        self._ip_quotas: set[str | None] = set()
        """Names of `ip` entities whose changed quotas are not in force yet."""
        self._connection_groups: set[tuple[str, str | None]] = set()
        """Changed connection groups, and members of them, that are not in force yet."""

    def take_up_replicas(self, done: Callable[[], None]) -> None:
        """Apply everything that complete metadata assigns to this broker. From now on apply changes of topics, too."""
        self.replica_publisher.take_up()
        self.reactions.when_done("letting clients in", done)

    async def stop(self, timeout_s: float) -> None:
        if timeout_s > 0:
            await self.reactions.finish(timeout_s)
        self.reactions.close()
        self.replica_publisher.close()

    def topic_config(self, topic: str) -> TopicConfig:
        return TopicConfig.of(self._image.configs.of_topic(topic), self.effective.values)

    def publish(self, changes: Changes, done: Callable[[], None]) -> None:
        """Apply changes that the image already contains, then call `done`. A failed step does not stop the others."""
        run = self.reactions.run
        run("recording which logs are deleted", partial(self._replicas.note_removals, changes.removals))
        if None in changes.broker_configs or self._settings.node_id in changes.broker_configs:
            run("applying the broker's configuration", self._reconfigure)
            # Limits of a listener are set before it opens.
            run("opening and closing listeners", self._reconfigure_listeners)
            run("applying the configuration of observers", self._reconfigure_observers)
        if changes.client_quotas:
            self.reactions.run_over_slices("applying client quotas", self.on_client_quotas)
        if changes.ip_quotas:
            self._ip_quotas |= changes.ip_quotas
            # Includes those that an earlier change has left because it failed.
            apply_quotas = partial(self._limits.on_ip_quotas, self._ip_quotas)
            self.reactions.run_over_slices("applying quotas of addresses", apply_quotas)
        if changes.connection_groups:
            self._connection_groups |= changes.connection_groups
            apply_groups = partial(self._limits.on_connection_groups, self._connection_groups)
            self.reactions.run_over_slices("applying connection groups", apply_groups)
        self.replica_publisher.publish(changes)
        self.reactions.when_done("reporting which metadata is in force", done)

    def _reconfigure(self) -> None:
        self.effective = effective_config(
            self._settings, self._image.configs.of_broker(None), self._image.configs.of_broker(self._settings.node_id)
        )
        self._limits.configure(self.effective)
        self._logs.cleaner.config = self.effective.config
        self._logs.upkeep.producer_expiration_ms = self.effective.config.producer_id_expiration_ms
        self.replica_publisher.configure_all()

    def _reconfigure_listeners(self) -> None:
        self._listeners.configure(self.effective)

    def _reconfigure_observers(self) -> None:
        self._observers.configure(self.effective)


def _nothing() -> Iterator[None]:
    """Do nothing: the node has no client quotas."""
    return iter(())
