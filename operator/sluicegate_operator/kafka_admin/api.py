"""The admin methods, the same for one broker and for a whole cluster; the subclass chooses which broker answers."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

from kio.static.protocol import ResponsePayload

from sluicegate_operator.kafka_admin import (
    broker_metadata,
    cluster,
    configs,
    log_damage,
    partitions,
    quotas,
    registration,
    topics,
)
from sluicegate_operator.kafka_admin.connecting.exchange import Exchange
from sluicegate_operator.kafka_admin.errors import KafkaApiError, UnsupportedApiError
from sluicegate_operator.kafka_admin.groups import groups, offsets
from sluicegate_operator.kafka_admin.groups.group_views import Coordinators, GroupListing, GroupView
from sluicegate_operator.kafka_admin.security.scram import ScramCredential, ScramMechanism
from sluicegate_operator.kafka_admin.users import acls, scram_credentials
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
from sluicegate_operator.planning.limits.limits import CONNECTION_CREATION_RATE, IP, Entity, QuotaKey
from sluicegate_operator.planning.users.acl_rules import AclRule

Reply = TypeVar("Reply", bound=ResponsePayload)
Result = TypeVar("Result")
Item = TypeVar("Item")


def batched(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


class Caller(ABC):
    """Base class of the clients that send Kafka's admin requests.

    The subclass chooses which broker answers: one broker, or any of a cluster.

    Every method here and in subclasses raises a KafkaAdminError; a write returns when the broker has confirmed it.
    """

    @abstractmethod
    async def call(self, exchange: Exchange[Reply, Result]) -> Result: ...


class TopicAdmin(Caller):
    """The admin methods for topics, their partitions and their configuration."""

    async def describe_topics(self, names: Collection[str] | None = None) -> dict[str, TopicView]:
        """Return topics by name; without `names` all topics. The view of an unknown name has an error."""
        return await self.call(topics.describe(names))

    async def create_topic(self, topic: NewTopic) -> UUID | None:
        """Return the id of the new topic; None if the broker does not report it."""
        return await self.call(topics.create(topic))

    async def create_partitions(self, name: str, total: int) -> None:
        """Grow a topic to `total` partitions."""
        await self.call(topics.grow(name, total))

    async def delete_topic(self, name: str, topic_id: UUID | None = None) -> None:
        """Delete the topic of that name.

        With `topic_id` only the topic with that id is deleted, and no later topic of its name.
        """
        await self.call(topics.delete(name, topic_id))

    async def describe_topic_configs(self, name: str, keys: Collection[str] | None = None) -> Configs:
        return await self.call(configs.describe_topic(name, keys))

    async def describe_configs_of_topics(
        self, names: Collection[str], keys: Collection[str] | None = None
    ) -> Mapping[str, Configs]:
        """Return the configuration of topics, with one request for each page of topics; without `keys` all of it.

        A topic that was deleted meanwhile is left out.
        """
        found: dict[str, Configs] = {}
        for page in batched(sorted(names), configs.TOPICS_A_PAGE):
            told: Mapping[str, Configs] = await self.call(configs.describe_topics(page, keys))
            found |= told
        return found

    async def describe_min_isr(self, names: Collection[str]) -> dict[str, int]:
        """Return the effective `min.insync.replicas` of each topic; a deleted topic is left out."""
        told = await self.describe_configs_of_topics(names, (configs.MIN_ISR,))
        return {name: configs.min_isr(name, found) for name, found in told.items()}

    async def alter_topic_configs(self, name: str, change: configs.ConfigChange) -> None:
        await self.call(configs.alter_topic(name, change))


class ClusterAdmin(Caller):
    """The admin methods for the nodes of a cluster."""

    async def describe_cluster(self) -> ClusterView:
        return await self.call(cluster.describe())

    async def describe_cluster_with_fenced(self) -> ClusterView:
        """Return the description of the cluster, including fenced brokers.

        A release before 4.0 does not report fenced brokers, so they appear unregistered.
        """
        try:
            return await self.call(cluster.describe_with_fenced())
        except UnsupportedApiError:
            return await self.describe_cluster()

    async def describe_features(self) -> Mapping[str, int]:
        """Return the finalized level of each feature (KIP-584)."""
        return await self.call(cluster.describe_features())

    async def describe_quorum(self) -> QuorumView:
        return await self.call(cluster.describe_quorum())


class BrokerAdmin(ClusterAdmin):
    """The admin methods for brokers, and what all topics share.

    That is registrations, replica placement, brokers' configuration, and quotas.
    """

    async def describe_brokers(self, broker_ids: Collection[int] = ()) -> tuple[BrokerDescription, ...]:
        """Return the brokers' reports about themselves, including offline brokers; without ids those of all brokers.

        Only brokers of this project serve this API. Another broker may close the connection, and then other requests on
        the connection are lost as well.
        """
        return await self.call(broker_metadata.describe(broker_ids))

    async def fence_broker(self, broker_id: int, epoch: int) -> None:
        """Report on the broker's behalf that this incarnation is gone.

        Only the active controller accepts the report: use its own handle. Raises STALE_BROKER_EPOCH if a newer
        incarnation has registered.
        """
        await self.call(registration.fence(broker_id, epoch))

    async def unregister_broker(self, broker_id: int) -> None:
        await self.call(registration.unregister(broker_id))

    async def alter_reassignments(self, targets: Mapping[Partition, Collection[int]]) -> dict[Partition, str]:
        """Set the replicas that each partition should have. Return the reason for each refused partition."""
        return await self.call(partitions.reassign(targets))

    async def list_reassignments(self) -> Mapping[Partition, ReassignmentView]:
        """Return the reassignments of partitions that are under way."""
        return await self.call(partitions.reassignments())

    async def describe_broker_configs(
        self, broker_id: int, keys: Collection[str] | None = None, *, with_documentation: bool = False
    ) -> Configs:
        """Return the effective configuration of a broker. Only the broker itself knows it: use its own handle."""
        return await self.call(configs.describe_broker(broker_id, keys, with_documentation=with_documentation))

    async def incremental_alter_configs(self, broker_id: int | None, change: configs.ConfigChange) -> None:
        """Alter one broker's dynamic configuration; None stands for the default of all brokers."""
        await self.call(configs.alter_broker(broker_id, change))

    async def describe_quotas(self, entity_type: str, *, strict: bool = True) -> Mapping[QuotaKey, float]:
        """Return the quotas of all entities that have this type. With `strict`, the entities have no other type."""
        return await self.call(quotas.describe_all(entity_type, strict=strict))

    async def describe_ip_quotas(self) -> dict[str | None, float]:
        """Return `connection_creation_rate` by address; None is the default of all addresses."""
        found = await self.describe_quotas(IP)
        return {entity[0][1]: rate for (entity, key), rate in found.items() if key == CONNECTION_CREATION_RATE}

    async def describe_quotas_of(self, entity: Entity) -> Mapping[QuotaKey, float]:
        return await self.call(quotas.describe_one(entity))

    async def alter_quotas(self, values: Mapping[QuotaKey, float | None]) -> dict[QuotaKey, KafkaApiError]:
        """Set client quotas; None removes a value. Return the errors of refused quotas; the others are altered."""
        refused: dict[QuotaKey, KafkaApiError] = {}
        for page in quotas.requests(values):
            answered: dict[QuotaKey, KafkaApiError] = await self.call(quotas.alter(page))
            refused |= answered
        return refused


class DamageAdmin(Caller):
    """The admin methods for damaged offsets in the logs of the broker that answers."""

    async def describe_log_damage(self) -> LogDamage:
        """Return the offsets that this broker cannot read.

        Only brokers of this project serve the API; others may close the connection.
        """
        return await self.call(log_damage.describe())

    async def accept_log_loss(self, topic: str, partition: int, first: int, last: int) -> None:
        """Make consumers skip the offsets from `first` to `last`, permanently. Use the partition leader's handle."""
        await self.call(log_damage.accept(topic, partition, first, last))


class GroupAdmin(Caller):
    """Sends Kafka's admin requests about groups and their offsets.

    Each method needs the right broker: a group's coordinator or a partition's leader. `consumer_groups.ConsumerGroups`
    chooses the right broker.
    """

    async def find_coordinators(self, group_ids: Collection[str]) -> Coordinators:
        """Return the groups' coordinators, which any broker knows."""
        return await self.call(groups.find_coordinators(group_ids))

    async def list_groups(self) -> tuple[GroupListing, ...]:
        """Return the groups that this broker coordinates."""
        return await self.call(groups.list_groups())

    async def describe_classic_group(self, group_id: str) -> GroupView:
        return await self.call(groups.describe_classic(group_id))

    async def describe_consumer_group(self, group_id: str) -> GroupView:
        """Return the description of a KIP-848 group. Raises GROUP_ID_NOT_FOUND also for a group of another type."""
        return await self.call(groups.describe_consumer(group_id))

    async def delete_group(self, group_id: str) -> None:
        await self.call(groups.delete(group_id))

    async def fetch_offsets(self, group_id: str) -> dict[Partition, int]:
        return await self.call(offsets.fetch_offsets(group_id))

    async def commit_offsets(self, group_id: str, committed: Mapping[Partition, int]) -> dict[Partition, str]:
        """Commit offsets of a group. Return Kafka's name of the error for each refused partition."""
        return await self.call(offsets.commit_offsets(group_id, committed))

    async def list_offsets(self, of: Collection[Partition], time_ms: int) -> dict[Partition, int]:
        """Return the offsets at a time, without partitions that this broker does not lead."""
        return await self.call(offsets.list_offsets(of, time_ms))


class UserAdmin(Caller):
    """Sends Kafka's admin requests about SCRAM credentials and ACLs.

    Quotas of users are client quotas, see BrokerAdmin.
    """

    async def describe_scram(self, users: Collection[str]) -> scram_credentials.Credentials:
        """Return the iterations of each credential of each user."""
        return await self.call(scram_credentials.describe(users))

    async def upsert_scram(self, user: str, credential: ScramCredential) -> None:
        await self.call(scram_credentials.upsert(user, credential))

    async def delete_scram(self, user: str, mechanism: ScramMechanism) -> None:
        """Delete a user's credential, if there is one."""
        await self.call(scram_credentials.delete(user, mechanism))

    async def describe_acls(self, principal: str | None) -> frozenset[AclRule]:
        """Return the ACLs of a principal, type:name, or all ACLs without one.

        Raises SECURITY_DISABLED if brokers have no authorizer.
        """
        return await self.call(acls.describe(principal))

    async def create_acls(self, rules: Collection[AclRule]) -> dict[AclRule, KafkaApiError]:
        """Create ACLs. Return the errors of refused ones."""
        refused: dict[AclRule, KafkaApiError] = {}
        for page in batched(sorted(rules), acls.ACLS_A_REQUEST):
            answered: dict[AclRule, KafkaApiError] = await self.call(acls.create(page))
            refused |= answered
        return refused

    async def delete_acls(self, rules: Collection[AclRule]) -> dict[AclRule, KafkaApiError]:
        """Delete exactly these ACLs. Return the errors of refused ones."""
        refused: dict[AclRule, KafkaApiError] = {}
        for page in batched(sorted(rules), acls.ACLS_A_REQUEST):
            answered: dict[AclRule, KafkaApiError] = await self.call(acls.delete(page))
            refused |= answered
        return refused


class AdminApi(TopicAdmin, BrokerAdmin, DamageAdmin, GroupAdmin, UserAdmin):
    """Sends all of Kafka's admin requests that the operator uses."""
