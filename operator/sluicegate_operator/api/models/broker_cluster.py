"""BrokerCluster: brokers and their controllers, or an external Apache Kafka cluster that is managed.

This module owns the spec, its rules and the status. `planning.layout.cluster_layout` decides the layout of the nodes.
"""

import re
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from pydantic.alias_generators import to_snake

from sluicegate_operator.api.configs import config_keys as keys
from sluicegate_operator.api.configs.config_orders import BROKER_ORDERS, config_order_rule
from sluicegate_operator.api.models.parts.audit_landing import AuditLanding, AuditSettings
from sluicegate_operator.api.models.parts.broker_cluster_status import BrokerClusterStatus
from sluicegate_operator.api.models.parts.broker_tags import TAG_PREFIX, Tags, TagsFromNodeLabels, tag_rules
from sluicegate_operator.api.models.parts.cluster_ca import CLUSTER_CA_STAYS, ClusterCa
from sluicegate_operator.api.models.parts.external_access import ExternalAccess
from sluicegate_operator.api.models.parts.pod_settings import LABEL_KEY_PATTERN, PodSettings
from sluicegate_operator.api.schema.config_values import (
    LONG_MAX,
    OthersKeys,
    WholeNumber,
    config_keys_rule,
    config_value_rules,
)
from sluicegate_operator.api.schema.images import PullSecrets, image_rule, pull_secrets_rule
from sluicegate_operator.api.schema.metadata import (
    CONDITION_COLUMNS,
    INT_MAX,
    PrinterColumn,
    Resource,
    ScaleSubresource,
)
from sluicegate_operator.api.schema.names import OBJECT_NAME_PATTERN
from sluicegate_operator.api.schema.quantities import QUANTITY_PATTERN, Quantity, amount, is_quantity
from sluicegate_operator.api.schema.resource_amounts import Resources
from sluicegate_operator.api.schema.rules import Model, Rule, TransitionRule

NAME_PATTERN = "^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$"
CLUSTER_ID_PATTERN = "^[-_A-Za-z0-9]{22}$"
SERVER_PATTERN = r"^([-._A-Za-z0-9]+|\[[:0-9A-Fa-f.]+\]):[1-9][0-9]{0,4}$"
STORAGE_MIN = "1Mi"
CONTROLLER_STORAGE_SIZE = "1Gi"


class Storage(Model):
    rules: ClassVar = (
        Rule(
            cel=f"self.size.matches('{QUANTITY_PATTERN}')"
            f" && quantity(self.size).compareTo(quantity('{STORAGE_MIN}')) >= 0",
            message=f"size must be a Kubernetes quantity of at least {STORAGE_MIN}, for example 10Gi",
            allows=lambda storage: is_quantity(storage.size) and amount(storage.size) >= amount(STORAGE_MIN),
            field="size",
        ),
        Rule(
            cel=f"!has(self.storageClassName) || self.storageClassName.matches('{OBJECT_NAME_PATTERN}')",
            message="storageClassName must be the name of a StorageClass: lower-case letters, digits, '-' and '.'",
            allows=lambda storage: (
                storage.storage_class_name is None
                or re.fullmatch(OBJECT_NAME_PATTERN, storage.storage_class_name) is not None
            ),
            field="storageClassName",
        ),
    )
    transitions: ClassVar = (
        TransitionRule(
            cel="(has(self.storageClassName) ? self.storageClassName : '')"
            " == (has(oldSelf.storageClassName) ? oldSelf.storageClassName : '')",
            message="storageClassName cannot be changed after creation: create a new BrokerCluster with the other"
            " storage class",
            allows=lambda old, new: new.storage_class_name == old.storage_class_name,
            field="storageClassName",
        ),
    )

    size: Quantity
    """Size of the volume of one node, as a Kubernetes quantity, for example 10Gi."""
    storage_class_name: str | None = Field(default=None, min_length=1, max_length=253)
    """StorageClass of the volumes; the default class of the Kubernetes cluster if absent."""


class Rack(Model):
    """The source of the brokers' racks: replicas of a partition are placed on different racks if there are enough."""

    rules: ClassVar = (
        Rule(
            cel=f"self.topologyKey.matches('{LABEL_KEY_PATTERN}')",
            message="topologyKey must be the key of a node label, for example topology.kubernetes.io/zone",
            allows=lambda model: re.fullmatch(LABEL_KEY_PATTERN, model.topology_key) is not None,
            field="topologyKey",
        ),
    )

    topology_key: str = Field(max_length=317)
    """Label of Kubernetes nodes whose value is the rack of the brokers there, for example topology.kubernetes.io/zone.
    Brokers run only on nodes that have the label, spread over its values, and wait for their rack before they start."""


class Brokers(Model):
    rules: ClassVar = tag_rules()

    replicas: int = Field(ge=1, le=100)
    """Number of brokers; their ids are 0 to replicas - 1. If the number is reduced, the brokers with the highest ids
    are removed as soon as they have no replicas."""
    storage: Storage
    """The volume of each broker."""
    resources: Resources | None = None
    """Requests and limits of each broker's container. A resource that is in neither gets the operator's defaults:
    requests of 100m cpu and 128Mi memory, limits of 2 cpu and 1Gi memory."""
    pod: PodSettings | None = None
    """Scheduling and further labels of the brokers' pods. A change rolls the brokers."""
    drain: bool = False
    """Whether replicas are moved off brokers that are to be removed: true moves them to the other brokers first, false
    waits until they have been moved by hand."""
    rack: Rack | None = None
    """Assigns each broker the rack or zone of its Kubernetes node; brokers have no rack if absent. A change rolls the
    brokers, and moves no existing replica."""
    tags: Tags | None = None
    """Tags that every broker publishes to clients through BrokerMetadata, by name (team: payments). A change restarts
    no broker."""
    tags_from_node_labels: TagsFromNodeLabels | None = None
    """Tags of each broker from labels of its Kubernetes node: the tag's name, then the label's key (zone:
    topology.kubernetes.io/zone). Without the label on its node, a broker does not have the tag. A change restarts no
    broker."""


class VolumeClaims(Model):
    """The fate of the volumes of all nodes."""

    delete_claims: bool = False
    """Whether the volume claims are deleted with the cluster: false keeps them and their data when the BrokerCluster is
    deleted, true deletes them. Claims of brokers that were removed by scaling stay until then."""


class Rollout(Model):
    """The way in which nodes are restarted after a change that needs it."""

    paused: bool = False
    """While true, no node is restarted; everything else continues. The condition Paused is True while a restart is
    pending."""
    strategy: Literal["Broker", "Rack"] = "Broker"
    """How many brokers are restarted at once. Broker restarts one. Rack restarts all brokers of one rack if every
    partition keeps min.insync.replicas without them, else one. Rack needs brokers.rack."""


class Controllers(Model):
    rules: ClassVar = (
        Rule(
            cel="self.replicas % 2 == 1",
            message="controllers.replicas must be odd: one, or one active and an even number of standbys (3, 5, ...)",
            allows=lambda model: model.replicas % 2 == 1,
            field="replicas",
        ),
    )

    replicas: int = Field(default=1, ge=1, le=9)
    """Number of controllers: 1, 3, 5, 7 or 9. A single controller keeps its journal on its own volume. With more, one
    is active, the journal is in the Kubernetes API, and a standby takes over if the active controller is lost."""
    storage: Storage | None = None
    """The volume of each controller, which stores only metadata; 1Gi of the default class if absent."""
    resources: Resources | None = None
    """Requests and limits of each controller's container. A resource that is in neither gets the operator's defaults:
    requests of 50m cpu and 64Mi memory, limits of 1 cpu and 512Mi memory."""
    pod: PodSettings | None = None
    """Scheduling and further labels of the controllers' pods. A change rolls the controllers."""


class ConnectionQuotaSettings(Model):
    """The way in which connection rates are measured, and the fate of connections of an address over its rate."""

    strategy: Literal["windowed", "token-bucket"] = "windowed"
    """token-bucket is recommended: it admits one second's worth of connections at once, and then the rate, evenly.
    windowed averages over all samples, as Apache Kafka does: it admits ten seconds' worth at once, and then about one
    connection a second until the window has passed."""
    ip_action: Literal["delay", "drop"] = "delay"
    """What happens to a connection of an address over its rate: delay keeps it open without reading it and then closes
    it, drop closes it at once."""
    window_num: int = Field(default=11, ge=1, le=1000)
    """Number of samples over which a rate is measured, including the current one."""
    window_size_seconds: int = Field(default=1, ge=1, le=3600)
    """Length of one sample in seconds; also the longest delay."""


WHEEL_PATTERN = "^[A-Za-z0-9][A-Za-z0-9._+-]*[.]whl$"


class ObserverWheels(Model):
    rules: ClassVar = (
        Rule(
            cel=f"self.files.all(x, x.matches('{WHEEL_PATTERN}'))",
            message="each of files must be the file name of a wheel without a folder, for example"
            " traffic-1.0-py3-none-any.whl",
            allows=lambda wheels: all(re.fullmatch(WHEEL_PATTERN, file) for file in wheels.files),
            field="files",
        ),
    )

    claim_name: str = Field(min_length=1, max_length=253)
    """Name of a PersistentVolumeClaim in the same namespace that all brokers can read at the same time."""
    files: Annotated[
        tuple[Annotated[str, Field(min_length=5, max_length=200)], ...], Field(min_length=1, max_length=16)
    ]
    """Names of the wheels on it that brokers may import. They must contain only Python code; they are not unpacked."""


class ObserversSettings(Model):
    """Permissions of ObserverPlugins on these brokers."""

    rules: ClassVar = (
        Rule(
            cel=f"!has(self.secretNames) || self.secretNames.all(x, x.matches('{OBJECT_NAME_PATTERN}'))",
            message="each of secretNames must be the name of a Secret: lower-case letters, digits, '-' and '.'",
            allows=lambda settings: all(
                re.fullmatch(OBJECT_NAME_PATTERN, name) for name in settings.secret_names or ()
            ),
            field="secretNames",
        ),
    )

    allow_config_map_code: bool = False
    """Whether brokers run code from ConfigMaps, with all of the brokers' own rights. Every user who may write
    ConfigMaps and ObserverPlugins in this namespace then controls what the brokers do. A change rolls the brokers."""
    wheels: ObserverWheels | None = None
    """Wheels with classes of observers, on a volume that every broker mounts. A change rolls the brokers."""
    secret_names: (
        Annotated[tuple[Annotated[str, Field(min_length=1, max_length=253)], ...], Field(max_length=16)] | None
    ) = None
    """Names of Secrets in the same namespace that observers read as files, /etc/sluicegate-observers/NAME/KEY; an
    ObserverPlugin names the file. Brokers start even if a Secret is missing. A change rolls the brokers."""


ConfigValue = Annotated[str, Field(max_length=4096)]
_OPERATORS_OWN = tuple(key for key in keys.OPERATOR_KEYS if not key.startswith("sluicegate."))
_LIMITS = OthersKeys(
    "a connection limit (max.connection... or listener.name...)",
    "use a ConnectionQuota instead",
    keys.LIMIT_KEYS,
    keys.LISTENER_PREFIX,
)
_CONFIG_KEYS = config_keys_rule(
    tuple(keys.BROKER_CONFIG),
    (
        OthersKeys(
            "a key that the operator sets for each node",
            f"remove it ({', '.join(_OPERATORS_OWN)}, sluicegate...)",
            keys.OPERATOR_KEYS,
        ),
        _LIMITS,
        OthersKeys("a key of an observer (observer...)", "use an ObserverPlugin instead", prefix=keys.OBSERVER_PREFIX),
        OthersKeys("a tag (tag...)", "use brokers.tags instead", prefix=TAG_PREFIX),
        OthersKeys(
            "a key of the quota window",
            "use spec.connectionQuota instead (strategy, ipAction, windowNum, windowSizeSeconds)",
            keys.WINDOW_KEYS,
        ),
        OthersKeys("a key of TLS", "use spec.tls of the BrokerListener instead", keys.TLS_KEYS),
        OthersKeys(
            "a key of authentication",
            "use spec.authentication of the BrokerListener instead",
            keys.AUTHENTICATION_KEYS,
        ),
    ),
    OthersKeys("a key that the broker does not know", "docs/reference/broker-configuration.md lists them"),
)


def _has_our_bounds(value: object) -> bool:
    """Return whether the bounds of a key are Sluicegate's and not Kafka's.

    This is so for numbers of threads, which Kafka does not limit.
    """
    return isinstance(value, WholeNumber) and value.high not in (INT_MAX, LONG_MAX)


_BUNDLED_CONFIG_RULES = (
    _CONFIG_KEYS,
    *config_value_rules({key: value for key, value in keys.BROKER_CONFIG.items() if _has_our_bounds(value)}),
)
_CONFIG_RULES = (
    *config_value_rules({key: value for key, value in keys.BROKER_CONFIG.items() if not _has_our_bounds(value)}),
    *(config_order_rule(order) for order in BROKER_ORDERS),
)


_LIMIT_PREFIX = "max.connection"
_OF_BUNDLED = (
    "brokers",
    "controllers",
    "storage",
    "image",
    "imagePullSecrets",
    "observers",
    "audit",
    "clusterCa",
    "connectionQuota",
    "rollout",
)
"""Fields of nodes that the operator starts."""


def _of_bundled(rule: Rule) -> Rule:
    """Return the rule for clusters whose nodes the operator starts.

    External brokers check their configuration themselves.
    """
    return replace(
        rule,
        cel=f"!has(self.brokers) || {rule.cel}",
        allows=lambda spec: spec.brokers is None or rule.allows(spec),
    )


_EXTERNAL_RULES = (
    Rule(
        cel="self.runtime != 'External' || !(" + " || ".join(f"has(self.{field})" for field in _OF_BUNDLED) + ")",
        message=f"{', '.join(_OF_BUNDLED)} are only for nodes that the operator starts, and it starts none for runtime"
        " External: remove them",
        allows=lambda spec: (
            not spec.is_external or all(getattr(spec, to_snake(field)) is None for field in _OF_BUNDLED)
        ),
    ),
    Rule(
        cel="self.runtime != 'External' || !has(self.config)"
        f" || !self.config.exists(k, k.startsWith('{_LIMIT_PREFIX}') || k.startsWith('{keys.LISTENER_PREFIX}'))",
        message=f"config contains {_LIMITS.what}; {_LIMITS.advice}",
        allows=lambda spec: (
            not spec.is_external
            or not any(key.startswith((_LIMIT_PREFIX, keys.LISTENER_PREFIX)) for key in spec.config or {})
        ),
        field="config",
    ),
)


class BrokerClusterSpec(Model):
    """The brokers and controllers of a cluster, or the existing Apache Kafka that the operator governs."""

    rules: ClassVar = (
        Rule(
            cel="self.runtime != 'Bundled' || has(self.brokers)",
            message="runtime Bundled needs brokers: set brokers.replicas and brokers.storage.size",
            allows=lambda spec: spec.runtime != "Bundled" or spec.brokers is not None,
        ),
        Rule(
            cel="(self.runtime == 'External') == has(self.bootstrapServers)",
            message="runtime External needs bootstrapServers, and only runtime External can have them: set both or"
            " neither",
            allows=lambda spec: spec.is_external == (spec.bootstrap_servers is not None),
            field="bootstrapServers",
        ),
        Rule(
            cel=f"!has(self.bootstrapServers) || self.bootstrapServers.all(x, x.matches(r'{SERVER_PATTERN}'))",
            message="each of bootstrapServers must be host:port, for example kafka.example.org:9092 or"
            " [2001:db8::1]:9092",
            allows=lambda spec: all(re.fullmatch(SERVER_PATTERN, server) for server in spec.bootstrap_servers or ()),
            field="bootstrapServers",
        ),
        Rule(
            cel="self.runtime == 'External' || !has(self.external)",
            message="external is only for runtime External: remove it, or change runtime",
            allows=lambda spec: spec.is_external or spec.external is None,
            field="external",
        ),
        *_EXTERNAL_RULES,
        Rule(
            cel="!has(self.rollout) || !has(self.rollout.strategy) || self.rollout.strategy != 'Rack'"
            " || (has(self.brokers) && has(self.brokers.rack))",
            message="rollout.strategy Rack needs brokers.rack.topologyKey, because brokers have no rack without it",
            allows=lambda spec: (
                spec.rollout is None
                or spec.rollout.strategy != "Rack"
                or (spec.brokers is not None and spec.brokers.rack is not None)
            ),
            field="rollout",
        ),
        image_rule("sluicegate"),
        Rule(
            cel=f"!has(self.clusterId) || self.clusterId.matches('{CLUSTER_ID_PATTERN}')",
            message="clusterId must be a cluster id in Kafka's form: 22 letters, digits, '-' and '_'",
            allows=lambda spec: (
                spec.cluster_id is None or re.fullmatch(CLUSTER_ID_PATTERN, spec.cluster_id) is not None
            ),
            field="clusterId",
        ),
        pull_secrets_rule(),
        *map(_of_bundled, _BUNDLED_CONFIG_RULES),
        *_CONFIG_RULES,
    )
    transitions: ClassVar = (
        TransitionRule(
            cel="self.runtime == oldSelf.runtime",
            message="runtime cannot be changed: create a new BrokerCluster, and move the topics of this one to it"
            " (docs/scaling.md)",
            allows=lambda old, new: old.runtime == new.runtime,
            field="runtime",
        ),
        TransitionRule(
            cel="((has(self.controllers) ? self.controllers.replicas : 1) == 1)"
            " == ((has(oldSelf.controllers) ? oldSelf.controllers.replicas : 1) == 1)",
            message="controllers.replicas cannot change from 1 to more or back, because the journal would be in"
            " another place; keep the number, or create a new BrokerCluster",
            allows=lambda old, new: (new.controller_count == 1) == (old.controller_count == 1),
            field="controllers",
        ),
        CLUSTER_CA_STAYS,
    )

    runtime: Literal["Bundled", "External"] = "Bundled"
    """Bundled runs Sluicegate's own brokers. External manages an Apache Kafka cluster that Sluicegate does not run: its
    limits, topics and dynamic configuration."""
    bootstrap_servers: (
        Annotated[tuple[Annotated[str, Field(max_length=270)], ...], Field(min_length=1, max_length=32)] | None
    ) = None
    """host:port of some brokers of an external cluster, on a listener whose protocol `external` describes. The operator
    learns the other brokers from them."""
    external: ExternalAccess | None = None
    """How the operator connects to the brokers of an external cluster. If absent, the listener is PLAINTEXT."""
    brokers: Brokers | None = None
    """The brokers; required for runtime Bundled."""
    storage: VolumeClaims | None = None
    """What happens to volumes when the cluster is deleted; they are kept if absent."""
    cluster_id: str | None = Field(default=None, max_length=64)
    """Kafka's id of the cluster. Set it to reuse volumes of an earlier BrokerCluster: the id is in the annotation
    sluicegate.dev/cluster-id of their claims. If absent, it is made from the object's uid. It is fixed once nodes have
    started. With runtime External it is the only cluster that is managed; if absent, the first cluster that answers."""
    controllers: Controllers | None = None
    """The controllers; one with 1Gi of storage if absent."""
    image: str | None = Field(default=None, min_length=1, max_length=512)
    """Container image of brokers and controllers; the operator's own version if absent."""
    image_pull_secrets: PullSecrets | None = None
    """Names of Secrets in the same namespace with which the image is pulled."""
    config: Annotated[dict[str, ConfigValue], Field(max_length=100)] | None = None
    """Further broker configuration under Kafka's names, with strings as values (num.partitions: "3"). A key that is
    dynamic in Kafka (log.retention.ms) takes effect without a restart, any other rolls the nodes. Connection limits
    cannot be set here; use ConnectionQuota, which never restarts a broker. With runtime External, keys that are not
    dynamic are refused."""
    observers: ObserversSettings | None = None
    """What ObserverPlugins may do to these brokers."""
    audit: AuditSettings | None = None
    """Where the audit log is stored that an ObserverPlugin with builtIn audit-log makes these brokers write. A change
    rolls the brokers."""
    connection_quota: ConnectionQuotaSettings | None = None
    """How connection limits are enforced; a change rolls the brokers. The limits themselves are ConnectionQuota
    objects."""
    cluster_ca: ClusterCa | None = None
    """Lets nodes and operator connect to each other by TLS, each with a certificate of this authority. Nodes and
    operator are then super users if there is an authorizer. It cannot be added to a cluster, or removed from it. If
    absent, they connect without TLS as User:ANONYMOUS. It needs the chart's rbac.secrets=true."""
    rollout: Rollout | None = None
    """How nodes are restarted after a change that needs it; one by one if absent."""
    network_policies: bool = True
    """Whether the operator creates NetworkPolicies. They allow connections to the nodes' internal ports (9091 and 9093)
    only from nodes of this cluster and from the operator; listeners of clients and metrics stay open to all. Set false
    for an operator that runs outside the Kubernetes cluster, or to use your own policies."""
    paused: bool = False
    """While true, the operator changes neither this cluster nor any object that refers to it; the condition Paused is
    True. It still releases volume claims if storage.deleteClaims is not true."""
    resync_seconds: int = Field(default=60, ge=5, le=3600)
    """Interval in seconds at which the operator checks for limits that were changed by hand on a broker, and restores
    them."""

    @property
    def deletes_claims(self) -> bool:
        return self.storage is not None and self.storage.delete_claims

    @property
    def allows_config_map_code(self) -> bool:
        return self.observers is not None and self.observers.allow_config_map_code

    @property
    def observer_wheels(self) -> tuple[str, ...]:
        """Names of the wheels that brokers may import."""
        return self.observers.wheels.files if self.observers is not None and self.observers.wheels else ()

    @property
    def observer_secrets(self) -> tuple[str, ...]:
        """Names of Secrets that brokers mount as files."""
        return (self.observers.secret_names or ()) if self.observers is not None else ()

    @property
    def landing(self) -> AuditLanding | None:
        return self.audit.landing if self.audit is not None else None

    @property
    def topology_key(self) -> str | None:
        """The label of Kubernetes nodes that gives the brokers' rack."""
        return self.brokers.rack.topology_key if self.brokers and self.brokers.rack else None

    @property
    def broker_count(self) -> int:
        return self.brokers.replicas if self.brokers else 0

    @property
    def controller_count(self) -> int:
        return self.controllers.replicas if self.controllers else 1

    @property
    def shares_journal(self) -> bool:
        """Whether controllers keep their journal in the Kubernetes API."""
        return self.controller_count > 1

    @property
    def is_external(self) -> bool:
        return self.runtime == "External"


def _size(spec: BrokerClusterSpec, role: str) -> str | None:
    """Return the size of a node's volume; None for brokers that run elsewhere."""
    nodes: Brokers | Controllers | None = getattr(spec, role)
    if role == "brokers" and nodes is None:
        return None
    return nodes.storage.size if nodes is not None and nodes.storage is not None else CONTROLLER_STORAGE_SIZE


def _volumes_stay_as_large(role: Literal["brokers", "controllers"]) -> TransitionRule:
    """Return the rule that volumes do not shrink.

    A size that no volume was asked to have, because its StorageClass refused it, may be reverted.
    """

    def allows(old: "BrokerCluster", new: "BrokerCluster") -> bool:
        size, before = _size(new.spec, role), _size(old.spec, role)
        if size is None or before is None or size == before or not is_quantity(size):
            return True
        asked = getattr(old.status.volumes, role) if old.status.volumes is not None else None
        return amount(size) >= amount(asked or before)

    def cel_size(which: str) -> str:
        nodes = f"{which}.spec.{role}"
        if role == "brokers":
            return f"{nodes}.storage.size"
        return f"(has({nodes}) && has({nodes}.storage) ? {nodes}.storage.size : '{CONTROLLER_STORAGE_SIZE}')"

    there = "!has(self.spec.brokers) || !has(oldSelf.spec.brokers) || " if role == "brokers" else ""
    new, old, asked = cel_size("self"), cel_size("oldSelf"), f"oldSelf.status.volumes.{role}"
    return TransitionRule(
        cel=f"{there}{new} == {old} || !isQuantity({new}) || quantity({new}).compareTo(quantity("
        f"has(oldSelf.status) && has(oldSelf.status.volumes) && has({asked}) ? {asked} : {old})) >= 0",
        message=f"{role}.storage.size cannot be less than the size that was requested for the volumes"
        f" (status.volumes.{role})",
        allows=allows,
    )


def cluster_name_rule(field: str = "metadata.name") -> Rule:
    return Rule(
        cel=f"self.{field}.matches('{NAME_PATTERN}')",
        message="the name of a BrokerCluster must be at most 40 lower-case letters, digits and '-', begin with a"
        " letter and not end with '-', because the names of its Services and pods begin with it",
        allows=lambda model: re.fullmatch(NAME_PATTERN, model.metadata.name) is not None,
    )


class BrokerCluster(Resource):
    """Brokers that speak Kafka's protocol, and their controllers."""

    plural: ClassVar = "brokerclusters"
    short_name: ClassVar = "bc"
    columns: ClassVar = (
        PrinterColumn(name="Runtime", json_path=".spec.runtime"),
        PrinterColumn(name="Version", json_path=".status.version"),
        PrinterColumn(name="Brokers", json_path=".status.brokers"),
        PrinterColumn(name="Strategy", json_path=".spec.connectionQuota.strategy"),
        PrinterColumn(name="Bootstrap", json_path=".status.bootstrapServers"),
        *CONDITION_COLUMNS,
    )
    scale: ClassVar = ScaleSubresource(
        spec_replicas=".spec.brokers.replicas", status_replicas=".status.replicas", selector=".status.selector"
    )
    rules: ClassVar = (cluster_name_rule(),)
    transitions: ClassVar = (
        TransitionRule(
            cel="(has(self.spec.clusterId) ? self.spec.clusterId : '')"
            " == (has(oldSelf.spec.clusterId) ? oldSelf.spec.clusterId : '')"
            " || !has(oldSelf.status) || !has(oldSelf.status.clusterId) || oldSelf.status.clusterId == ''"
            " || (has(self.spec.clusterId) && self.spec.clusterId == oldSelf.status.clusterId)",
            message="spec.clusterId cannot be changed after nodes have started: their data has the id in"
            " status.clusterId",
            allows=lambda old, new: (
                new.spec.cluster_id == old.spec.cluster_id or old.status.cluster_id in ("", new.spec.cluster_id)
            ),
        ),
        _volumes_stay_as_large("brokers"),
        _volumes_stay_as_large("controllers"),
    )

    kind: Literal["BrokerCluster"] = "BrokerCluster"
    spec: BrokerClusterSpec
    """The desired state of the cluster."""
    status: BrokerClusterStatus = Field(default_factory=BrokerClusterStatus)
    """The state of the cluster that the operator last observed."""

    @property
    def cluster_name(self) -> str:
        return self.name
