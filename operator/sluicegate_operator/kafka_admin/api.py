"""The admin methods, the same for one broker and for a whole cluster; who answers is the subclass's choice."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeVar

from kio.static.protocol import ResponsePayload

from sluicegate_operator.kafka_admin import (
    broker_metadata,
    cluster,
    configs,
    groups,
    log_damage,
    offsets,
    partitions,
    quotas,
    registration,
    topics,
)
from sluicegate_operator.kafka_admin.errors import KafkaApiError, UnsupportedApiError
from sluicegate_operator.kafka_admin.exchange import Exchange
from sluicegate_operator.kafka_admin.group_views import Coordinators, GroupListing, GroupView
from sluicegate_operator.kafka_admin.views import (
    BrokerDescription,
    ClusterView,
    Configs,
    LogDamage,
    NewTopic,
    Partition,
    QuorumView,
    ReassignmentView,
    TopicView,
)
from sluicegate_operator.planning.limits import CONNECTION_CREATION_RATE, IP, Entity, QuotaKey

Reply = TypeVar("Reply", bound=ResponsePayload)
Result = TypeVar("Result")
Item = TypeVar("Item")


def batched(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


class Caller(ABC):
    """Who answers is the subclass's choice: one broker, or any of a cluster. Every method here and in what follows
    raises a KafkaAdminError; a write returns when the broker has confirmed it.
    """

    @abstractmethod
    async def call(self, exchange: Exchange[Reply, Result]) -> Result: ...


class TopicAdmin(Caller):
    """Topics, their partitions and their configuration."""

    async def describe_topics(self, names: Collection[str] | None = None) -> dict[str, TopicView]:
        """By name; without names every topic. A name that is unknown has a view with an error, it is not left out."""
        return await self.call(topics.describe(names))

    async def create_topic(self, topic: NewTopic) -> None:
        await self.call(topics.create(topic))

    async def create_partitions(self, name: str, total: int) -> None:
        """Grows a topic to `total` partitions."""
        await self.call(topics.grow(name, total))

    async def delete_topic(self, name: str) -> None:
        await self.call(topics.delete(name))

    async def describe_topic_configs(self, name: str, keys: Collection[str] | None = None) -> Configs:
        return await self.call(configs.describe_topic(name, keys))

    async def describe_configs_of_topics(
        self, names: Collection[str], keys: Collection[str] | None = None
    ) -> Mapping[str, Configs]:
        """A page of topics in each request; one that went meanwhile is left out. Without `keys` all."""
        found: dict[str, Configs] = {}
        for page in batched(sorted(names), configs.TOPICS_A_PAGE):
            told: Mapping[str, Configs] = await self.call(configs.describe_topics(page, keys))
            found |= told
        return found

    async def describe_min_isr(self, names: Collection[str]) -> dict[str, int]:
        """`min.insync.replicas` in force for each topic; one that went meanwhile is left out."""
        told = await self.describe_configs_of_topics(names, (configs.MIN_ISR,))
        return {name: configs.min_isr(name, found) for name, found in told.items()}

    async def alter_topic_configs(self, name: str, change: configs.ConfigChange) -> None:
        await self.call(configs.alter_topic(name, change))


class ClusterAdmin(Caller):
    """What nodes there are."""

    async def describe_cluster(self) -> ClusterView:
        return await self.call(cluster.describe())

    async def describe_cluster_with_fenced(self) -> ClusterView:
        """Of a release before 4.0 without them: they are then as if they were not registered."""
        try:
            return await self.call(cluster.describe_with_fenced())
        except UnsupportedApiError:
            return await self.describe_cluster()

    async def describe_features(self) -> Mapping[str, int]:
        """Finalized level of each feature (KIP-584)."""
        return await self.call(cluster.describe_features())

    async def describe_quorum(self) -> QuorumView:
        return await self.call(cluster.describe_quorum())


class BrokerAdmin(ClusterAdmin):
    """Brokers and what all topics share: registrations, where replicas are, brokers' configuration, quotas."""

    async def describe_brokers(self, broker_ids: Collection[int] = ()) -> tuple[BrokerDescription, ...]:
        """What brokers say of themselves, also those that are away; without ids all. Only brokers of this project
        serve it. One that does not may close the connection, and what else was asked on it is lost with it."""
        return await self.call(broker_metadata.describe(broker_ids))

    async def fence_broker(self, broker_id: int, epoch: int) -> None:
        """Says on the broker's behalf that this incarnation is gone. Only the active controller takes it: ask that one
        through its own handle. Raises STALE_BROKER_EPOCH when a newer incarnation has registered."""
        await self.call(registration.fence(broker_id, epoch))

    async def unregister_broker(self, broker_id: int) -> None:
        await self.call(registration.unregister(broker_id))

    async def alter_reassignments(self, targets: Mapping[Partition, Collection[int]]) -> dict[Partition, str]:
        """The replicas that each partition should have. Returns why, for those that were refused."""
        return await self.call(partitions.reassign(targets))

    async def list_reassignments(self) -> Mapping[Partition, ReassignmentView]:
        """The reassignments under way."""
        return await self.call(partitions.reassignments())

    async def describe_broker_configs(
        self, broker_id: int, keys: Collection[str] | None = None, *, with_documentation: bool = False
    ) -> Configs:
        """What is in force on that broker. Only the broker itself knows: ask it through its own handle."""
        return await self.call(configs.describe_broker(broker_id, keys, with_documentation=with_documentation))

    async def incremental_alter_configs(self, broker_id: int | None, change: configs.ConfigChange) -> None:
        """Alters one broker's dynamic configuration; None stands for the default of all brokers."""
        await self.call(configs.alter_broker(broker_id, change))

    async def describe_quotas(self, entity_type: str, *, strict: bool = True) -> Mapping[QuotaKey, float]:
        """Of all entities that have this type; `strict`: and no other one."""
        return await self.call(quotas.describe_all(entity_type, strict=strict))

    async def describe_ip_quotas(self) -> dict[str | None, float]:
        """`connection_creation_rate` by address; None is the default of all addresses."""
        found = await self.describe_quotas(IP)
        return {entity[0][1]: rate for (entity, key), rate in found.items() if key == CONNECTION_CREATION_RATE}

    async def describe_quotas_of(self, entity: Entity) -> Mapping[QuotaKey, float]:
        return await self.call(quotas.describe_one(entity))

    async def alter_quotas(self, values: Mapping[QuotaKey, float | None]) -> dict[QuotaKey, KafkaApiError]:
        """None removes a value. What was refused, and why; the others are altered."""
        refused: dict[QuotaKey, KafkaApiError] = {}
        for page in quotas.requests(values):
            answered: dict[QuotaKey, KafkaApiError] = await self.call(quotas.alter(page))
            refused |= answered
        return refused


class DamageAdmin(Caller):
    """Damaged offsets of the logs of the broker that is asked."""

    async def describe_log_damage(self) -> LogDamage:
        """Which offsets this one broker cannot read. As for `describe_brokers`, some brokers close the connection."""
        return await self.call(log_damage.describe())

    async def accept_log_loss(self, topic: str, partition: int, first: int, last: int) -> None:
        """Ask the partition's leader: consumers pass over the offsets from `first` to `last` then, for good."""
        await self.call(log_damage.accept(topic, partition, first, last))


class GroupAdmin(Caller):
    """Groups and their offsets, each asked of the broker that knows: a group's coordinator, a partition's leader.
    `consumer_groups.ConsumerGroups` asks the right ones."""

    async def find_coordinators(self, group_ids: Collection[str]) -> Coordinators:
        """Any broker tells."""
        return await self.call(groups.find_coordinators(group_ids))

    async def list_groups(self) -> tuple[GroupListing, ...]:
        """Those that the asked broker coordinates."""
        return await self.call(groups.list_groups())

    async def describe_classic_group(self, group_id: str) -> GroupView:
        return await self.call(groups.describe_classic(group_id))

    async def describe_consumer_group(self, group_id: str) -> GroupView:
        """Raises GROUP_ID_NOT_FOUND for a group of another type too."""
        return await self.call(groups.describe_consumer(group_id))

    async def delete_group(self, group_id: str) -> None:
        await self.call(groups.delete(group_id))

    async def fetch_offsets(self, group_id: str) -> dict[Partition, int]:
        return await self.call(offsets.fetch_offsets(group_id))

    async def commit_offsets(self, group_id: str, committed: Mapping[Partition, int]) -> dict[Partition, str]:
        """Returns Kafka's name of the error for each that was refused."""
        return await self.call(offsets.commit_offsets(group_id, committed))

    async def list_offsets(self, of: Collection[Partition], time_ms: int) -> dict[Partition, int]:
        """Without those that the asked broker does not lead."""
        return await self.call(offsets.list_offsets(of, time_ms))


class AdminApi(TopicAdmin, BrokerAdmin, DamageAdmin, GroupAdmin):
    """All that can be asked of a cluster."""
