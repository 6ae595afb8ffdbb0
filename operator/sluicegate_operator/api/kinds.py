"""The one table of our kinds. A new kind is a model, what is planned of it, what is made of it, and a line here.

Everything that goes over kinds goes over this table: CRDs and their page, manifests, the API server's paths, the
operator's rights, what is watched and which queues hear of it, snapshots of a cluster, `sluicegate up`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from sluicegate_operator.api.audit_pipeline import AuditPipeline
from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.api.broker_listener import BrokerListener
from sluicegate_operator.api.broker_registration import BrokerRegistration
from sluicegate_operator.api.connection_quota import ConnectionQuota
from sluicegate_operator.api.metadata import Resource
from sluicegate_operator.api.observer_plugin import ObserverPlugin
from sluicegate_operator.api.topic import Topic


@dataclass(frozen=True, slots=True)
class CustomKind:
    """`queues` are those that a change of an object concerns, in the order in which they hear of it; none where only
    the operator writes the kind. `owns_children`: its objects own others, which Kubernetes deletes after them.
    `not_on_laptop`: what `sluicegate up` says instead of doing something; empty where it does."""

    model: type[Resource]
    queues: tuple[str, ...] = ()
    owns_children: bool = False
    not_on_laptop: str = ""

    @property
    def name(self) -> str:
        return self.model.__name__

    @property
    def plural(self) -> str:
        return self.model.plural

    @property
    def by_people(self) -> bool:
        return bool(self.queues)


_OF_CLUSTER = (
    "quotas",
    "statuses",
    "observed",
    "clusters",
    "listeners",
    "topics",
    "registrations",
    "racks",
    "rolls",
    "configs",
    "descriptions",
    "observers",
    "pipelines",
)
_TABLE = (
    CustomKind(
        AuditPipeline,
        ("pipelines",),
        owns_children=True,
        not_on_laptop="nobody runs it here: `sluicegate audit build` does",
    ),
    CustomKind(BrokerCluster, _OF_CLUSTER, owns_children=True),
    CustomKind(BrokerListener, ("quotas", "listeners", "clusters", "rolls"), owns_children=True),
    CustomKind(BrokerRegistration),
    CustomKind(ConnectionQuota, ("quotas",)),
    CustomKind(ObserverPlugin, ("observers",)),
    CustomKind(Topic, ("topics",)),
)
KINDS: Final[Mapping[str, CustomKind]] = MappingProxyType({kind.name: kind for kind in _TABLE})
BY_PEOPLE: Final = tuple(kind for kind in _TABLE if kind.by_people)
"""People write these, and each change of one is news."""
