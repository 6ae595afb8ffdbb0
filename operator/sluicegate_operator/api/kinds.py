"""The table of Sluicegate's custom resources. A new kind needs a model, a planner, a reconciler, and a line here.

All code that iterates over kinds reads this table: CRDs and their reference page, manifests, paths of the API server,
the operator's rights, the watched kinds, snapshots of a cluster, `sluicegate up`. `handlers/watch.py` marks the queues,
and names the queues for all other kinds, such as pods and children.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from sluicegate_operator.api.models.audit_pipeline import AuditPipeline
from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.broker_listener import BrokerListener
from sluicegate_operator.api.models.broker_registration import BrokerRegistration
from sluicegate_operator.api.models.connection_quota import ConnectionQuota
from sluicegate_operator.api.models.kafka_user import KafkaUser
from sluicegate_operator.api.models.observer_plugin import ObserverPlugin
from sluicegate_operator.api.models.topic import Topic
from sluicegate_operator.api.queues import Queue
from sluicegate_operator.api.schema.metadata import Resource


@dataclass(frozen=True, slots=True)
class CustomKind:
    """A kind of custom resources.

    Each change that users make to an object marks `queues`, in this order. They are empty for a kind that only the
    operator writes: see handlers/watch.py. `owns_children`: its objects own others, which Kubernetes deletes after
    them. `not_on_laptop`: the sentence of `sluicegate up` about a kind that it does not run; empty for others.
    """

    model: type[Resource]
    queues: tuple[Queue, ...] = ()
    owns_children: bool = False
    not_on_laptop: str = ""

    @property
    def name(self) -> str:
        return self.model.__name__

    @property
    def plural(self) -> str:
        return self.model.plural

    @property
    def by_users(self) -> bool:
        """Return whether users write objects of the kind. The operator reacts to each change of these objects."""
        return bool(self.queues)


_TABLE = (
    CustomKind(
        AuditPipeline,
        (Queue.PIPELINES,),
        owns_children=True,
        not_on_laptop="`sluicegate up` does not run it; use `sluicegate audit build`",
    ),
    CustomKind(BrokerCluster, tuple(Queue), owns_children=True),
    CustomKind(BrokerListener, (Queue.QUOTAS, Queue.LISTENERS, Queue.CLUSTERS, Queue.ROLLS), owns_children=True),
    CustomKind(BrokerRegistration),
    CustomKind(ConnectionQuota, (Queue.QUOTAS,)),
    CustomKind(KafkaUser, (Queue.USERS,), owns_children=True),
    CustomKind(ObserverPlugin, (Queue.OBSERVERS,)),
    CustomKind(Topic, (Queue.TOPICS,)),
)
KINDS: Final[Mapping[str, CustomKind]] = MappingProxyType({kind.name: kind for kind in _TABLE})
