"""All objects of one cluster that planning may use, from the API server's cache or from files."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sluicegate_operator.api.models.audit_pipeline import AuditPipeline
from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.broker_listener import BrokerListener
from sluicegate_operator.api.models.connection_quota import ConnectionQuota
from sluicegate_operator.api.models.kafka_user import KafkaUser
from sluicegate_operator.api.models.observer_plugin import ObserverPlugin
from sluicegate_operator.api.models.topic import Topic
from sluicegate_operator.api.schema.metadata import Resource
from sluicegate_operator.kube.http.kinds import Kind
from sluicegate_operator.planning.status.unreadable import UNREADABLE, unusable_words

Found = TypeVar("Found", bound=Resource)

ClusterKey = tuple[str, str]
"""The namespace and name of a BrokerCluster, whether or not it exists."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An object that this operator must not use, as the API server stores it, and why.

    `reason` is that of its conditions: the operator cannot read it, or leaves it to a newer operator.
    """

    kind: Kind
    body: Mapping[str, Any]
    why: str
    reason: str = UNREADABLE

    @property
    def name(self) -> str:
        return f"{self.kind.kind} {self.body['metadata']['name']}"

    def __str__(self) -> str:
        return unusable_words(self.name, self.why, self.reason)


class UnreadableClusterError(Exception):
    """Error for a BrokerCluster that exists and must not be used, so it must not be treated as missing."""

    def __init__(self, unreadable: Unreadable) -> None:
        super().__init__(str(unreadable))
        self.unreadable = unreadable


@dataclass(frozen=True, slots=True)
class LeavingObject:
    """A deleted object that exists until the operator removes its finalizer."""

    body: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def uid(self) -> str:
        return str(self.body["metadata"]["uid"])


@dataclass(frozen=True, slots=True)
class LeavingTopic(LeavingObject):
    """A deleted Topic that exists until the operator removes its finalizer.

    `topic` is None if the object cannot be read, and `why` then has the cause.
    """

    topic: Topic | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class LeavingUser(LeavingObject):
    """A deleted KafkaUser that exists until the operator removes its finalizer.

    `user` is None if the object cannot be read, and `why` then has the cause.
    """

    user: KafkaUser | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The objects of one cluster that one reconcile has read.

    `resources` are the readable objects that name this cluster, by model; `unreadable` are the others.
    """

    cluster: BrokerCluster | None
    resources: Mapping[type[Resource], tuple[Resource, ...]] = field(default_factory=dict)
    unreadable: tuple[Unreadable, ...] = ()
    leaving_topics: tuple[LeavingTopic, ...] = ()
    leaving_users: tuple[LeavingUser, ...] = ()

    def of_kind(self, model: type[Found]) -> tuple[Found, ...]:
        return tuple(resource for resource in self.resources.get(model, ()) if isinstance(resource, model))

    def unreadable_of(self, *kinds: Kind) -> tuple[Unreadable, ...]:
        return tuple(item for item in self.unreadable if item.kind in kinds)

    @property
    def listeners(self) -> tuple[BrokerListener, ...]:
        return self.of_kind(BrokerListener)

    @property
    def quotas(self) -> tuple[ConnectionQuota, ...]:
        return self.of_kind(ConnectionQuota)

    @property
    def topics(self) -> tuple[Topic, ...]:
        return self.of_kind(Topic)

    @property
    def users(self) -> tuple[KafkaUser, ...]:
        return self.of_kind(KafkaUser)

    @property
    def observers(self) -> tuple[ObserverPlugin, ...]:
        return self.of_kind(ObserverPlugin)

    @property
    def pipelines(self) -> tuple[AuditPipeline, ...]:
        return self.of_kind(AuditPipeline)
