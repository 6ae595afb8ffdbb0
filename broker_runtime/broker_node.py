"""The broker role of a process: listeners for clients, the partitions it leads, configuration as it comes by metadata.

Reacts to metadata changes; nothing else changes what is served. Kubernetes, HTTP and start order are not its concern.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine, Mapping, Sequence
from ipaddress import ip_address

from broker_runtime.apis.context import Timer
from broker_runtime.apis.dispatch import Dispatcher
from broker_runtime.apis.init_producer_id import ProducerIdBlocks
from broker_runtime.apis.table import BROKER_APIS
from broker_runtime.clock import Clock
from broker_runtime.cluster.follower import MetadataFollower
from broker_runtime.cluster.link import ControllerClient
from broker_runtime.config import BrokerSettings, Endpoint, TopicConfig
from broker_runtime.config.effective import EffectiveConfig, effective_config, topic_defaults
from broker_runtime.controller.image import Changes, MetadataImage
from broker_runtime.controller.records import METADATA_TOPIC
from broker_runtime.controller.service import ControllerService
from broker_runtime.errors import ConfigError, ErrorCode, KafkaError
from broker_runtime.limits import is_address, network_limits, per_ip_overrides, quota_settings
from broker_runtime.network.server import SocketServer
from broker_runtime.storage.log import Log
from broker_runtime.storage.manager import LogManager
from broker_runtime.wire.messages import Entity, Fields

log = logging.getLogger(__name__)


class BrokerNode:
    def __init__(
        self, settings: BrokerSettings, clock: Clock, logs: LogManager, cluster_id: str, client: ControllerClient
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.logs = logs
        self.cluster_id = cluster_id
        self.image = MetadataImage()
        self.controller: ControllerService | None = None
        self.producer_ids = ProducerIdBlocks(self)
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._follower: MetadataFollower | None = None
        self._led: dict[tuple[str, int], tuple[Log, int]] = {}
        self._hosts: Mapping[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.effective: EffectiveConfig = effective_config(settings, {}, {})
        self.dispatcher = Dispatcher(self, BROKER_APIS, client)
        limits = network_limits(settings, quota_settings(settings, self.effective, {}))
        self.server = SocketServer(self.dispatcher.handle, limits, clock, self._loop)

    # Life

    def bind(self) -> None:
        """Open the listeners without accepting yet; raises ListenerBindError."""
        for endpoint in self.settings.client_listeners:
            self.server.add_listener(endpoint.listener, endpoint.host, endpoint.port)

    def advertised(self) -> Sequence[Endpoint]:
        """What clients are told; a port 0 is replaced by the one that was bound."""
        return [
            Endpoint(e.listener, e.host or socket.gethostname(), e.port or self.server.address(e.listener)[1])
            for e in self.settings.advertised
        ]

    def follow(self, client: ControllerClient) -> MetadataFollower:
        self._follower = MetadataFollower(client, self.image, self._on_changes)
        return self._follower

    def serve(self) -> None:
        self.server.start()

    async def stop(self, drain_s: float = 2.0) -> None:
        await self.server.shutdown(drain_s)
        await self.dispatcher.close()

    # What handlers use

    def led_log(self, topic: str, partition: int) -> tuple[Log, int]:
        found = self._led.get((topic, partition))
        if found is None:
            raise self._not_led(topic, partition)
        return found

    def _not_led(self, topic: str, partition: int) -> KafkaError:
        known = self.image.topics.get(topic)
        if known is None or partition not in known.partitions:
            return KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {partition} of topic {topic}"
            )
        return KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not lead partition {partition} of {topic}"
        )

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        return self._loop.call_later(delay_s, callback)

    def topic_config(self, topic: str) -> TopicConfig:
        return TopicConfig.of(self.image.topic_configs(topic), topic_defaults(self.effective))

    async def wait_until(self, seen: Callable[[MetadataImage], bool]) -> bool:
        assert self._follower is not None
        return await self._follower.wait_until(seen, self.settings.integer("request.timeout.ms") / 1000)

    async def resolve_host(self, name: str) -> str | None:
        try:
            found = await self._loop.run_in_executor(None, socket.getaddrinfo, name, None)
        except (OSError, ValueError):
            # ValueError: a name that cannot be one (too long a label, a null character).
            return None
        return str(found[0][4][0])

    async def send_to_controller(self, api_key: int, version: int, request: Fields) -> Entity:
        return await self._client.request(api_key, version, request)

    # Reaction to metadata

    def _on_changes(self, changes: Changes) -> None:
        if None in changes.broker_configs or self.settings.node_id in changes.broker_configs:
            self._reconfigure()
        for topic in changes.topics_removed:
            self._drop(topic)
        for topic in changes.topics:
            self._adopt(topic)
        for topic in changes.topic_configs:
            self._configure_topic(topic)
        for name in changes.ip_quotas:
            if name is None or is_address(name):
                self._set_ip_rate(name, name)
            else:
                self._spawn(self._set_host_rate(name))

    def _set_ip_rate(self, name: str | None, address: str | None) -> None:
        """`name` is the entity's; the address is spelled as the network layer spells a client's."""
        rate = self.image.ip_rate(name)
        canonical = None if address is None else ip_address(address).compressed
        self.server.update_ip_rate(canonical, None if rate is None else int(rate))

    async def _set_host_rate(self, name: str) -> None:
        """A host name is resolved when its quota is applied, as in Kafka."""
        address = await self.resolve_host(name)
        if address is None:
            log.error("the quota of %s is not enforced: the name cannot be resolved", name)
        else:
            self._set_ip_rate(name, address)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a change of configuration could not be applied", exc_info=task.exception())

    def _adopt(self, name: str) -> None:
        """Open or make the logs of the partitions that are placed here; lead those that the controller says."""
        topic = self.image.topics.get(name)
        if topic is None:
            return
        me = self.settings.node_id
        config = self.topic_config(name)
        for index, part in topic.partitions.items():
            if me not in part.replicas:
                continue
            try:
                old = self.logs.get(name, index)
                if old is not None and old.topic_id != topic.id:
                    self.logs.delete(name, index)
                replica = self.logs.create(name, index, topic.id, config)
            except (OSError, KafkaError) as error:
                log.error("partition %s-%d cannot be opened and is not served: %s", name, index, error)
                continue
            if part.leader == me:
                self._led[name, index] = (replica, part.leader_epoch)
            else:
                self._led.pop((name, index), None)

    def _drop(self, name: str) -> None:
        for key in [key for key in self._led if key[0] == name]:
            del self._led[key]
            self.logs.delete(*key)

    def remove_strays(self) -> None:
        """Delete the logs of topics that were deleted while this broker was away; call it once metadata is complete."""
        for replica in self.logs.logs():
            topic = self.image.topics.get(replica.topic)
            if replica.topic != METADATA_TOPIC and (topic is None or topic.id != replica.topic_id):
                log.info("%s-%d was deleted while this broker was away", replica.topic, replica.partition)
                self.logs.delete(replica.topic, replica.partition)

    def _configure_topic(self, name: str) -> None:
        config = self.topic_config(name)
        for (topic, _), (replica, _) in self._led.items():
            if topic == name:
                replica.update_config(config)

    def _reconfigure(self) -> None:
        self.effective = effective_config(
            self.settings, self.image.broker_configs(None), self.image.broker_configs(self.settings.node_id)
        )
        for problem in self.effective.ignored:
            log.warning("a stored configuration value is not used: %s", problem)
        self.logs.producer_expiration_ms = self.effective.integer("producer.id.expiration.ms")
        for topic in {topic for topic, _ in self._led}:
            self._configure_topic(topic)
        names = [h for h in self._override_hosts() if not is_address(h)]
        if set(names) - set(self._hosts):
            self._spawn(self._resolve_overrides(names))
        self._update_limits()

    def _override_hosts(self) -> Sequence[str]:
        try:
            return list(per_ip_overrides(self.effective.values["max.connections.per.ip.overrides"]))
        except ConfigError as error:
            log.warning("%s", error)
            return []

    async def _resolve_overrides(self, names: Sequence[str]) -> None:
        """Host names are resolved once, when the value is applied, as in Kafka."""
        found = {name: await self.resolve_host(name) for name in names}
        for name, address in found.items():
            if address is None:
                log.error("max.connections.per.ip.overrides: %s cannot be resolved; its override is not enforced", name)
        self._hosts = {name: address for name, address in found.items() if address is not None}
        self._update_limits()

    def _update_limits(self) -> None:
        try:
            self.server.update_limits(quota_settings(self.settings, self.effective, self._hosts))
        except ConfigError as error:
            log.error("the limits stay as they are: %s", error)
