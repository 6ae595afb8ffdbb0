"""The admin methods, the same for one broker and for a whole cluster; who answers is the subclass's choice."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import TypeVar

from kio.static.protocol import ResponsePayload

from sluicegate_operator.kafka_admin import cluster, configs, quotas, topics
from sluicegate_operator.kafka_admin.exchange import Exchange
from sluicegate_operator.kafka_admin.views import ClusterView, Configs, NewTopic, TopicView

Reply = TypeVar("Reply", bound=ResponsePayload)
Result = TypeVar("Result")


class AdminApi(ABC):
    """Every method raises a KafkaAdminError; a write returns when the broker has confirmed it."""

    @abstractmethod
    async def call(self, exchange: Exchange[Reply, Result]) -> Result: ...

    async def describe_cluster(self) -> ClusterView:
        return await self.call(cluster.describe())

    async def describe_broker_configs(self, broker_id: int, keys: Collection[str] | None = None) -> Configs:
        """What is in force on that broker. Only the broker itself knows: ask it through its own handle."""
        return await self.call(configs.describe_broker(broker_id, keys))

    async def describe_default_broker_configs(self, keys: Collection[str] | None = None) -> Configs:
        """Only what was set dynamically for all brokers."""
        return await self.call(configs.describe_broker(None, keys))

    async def incremental_alter_configs(self, broker_id: int | None, change: configs.ConfigChange) -> None:
        """Alters one broker's dynamic configuration; None stands for the default of all brokers."""
        await self.call(configs.alter_broker(broker_id, change))

    async def describe_ip_quotas(self) -> dict[str | None, float]:
        """`connection_creation_rate` by address; None is the default of all addresses."""
        return await self.call(quotas.describe_ip())

    async def alter_ip_quotas(self, rates: Mapping[str | None, float | None], *, validate_only: bool = False) -> None:
        """A rate of None removes the quota. Raises the first refusal; the other entities may have been altered."""
        await self.call(quotas.alter_ip(rates, validate_only=validate_only))

    async def describe_topics(self, names: Collection[str] | None = None) -> dict[str, TopicView]:
        """By name; without names every topic. A name that is unknown has a view with an error, it is not left out."""
        return await self.call(topics.describe(names))

    async def create_topic(self, topic: NewTopic, *, validate_only: bool = False) -> None:
        await self.call(topics.create(topic, validate_only=validate_only))

    async def create_partitions(self, name: str, total: int, *, validate_only: bool = False) -> None:
        """Grows a topic to `total` partitions."""
        await self.call(topics.grow(name, total, validate_only=validate_only))

    async def delete_topic(self, name: str) -> None:
        await self.call(topics.delete(name))

    async def describe_topic_configs(self, name: str, keys: Collection[str] | None = None) -> Configs:
        return await self.call(configs.describe_topic(name, keys))

    async def alter_topic_configs(self, name: str, change: configs.ConfigChange) -> None:
        await self.call(configs.alter_topic(name, change))
