"""Good and bad manifests, and changes that are refused: one table for the models and for the real API server.

The offline check and the API server must refuse the same. `says` is a part of the message that the user sees. If it is
empty, the two word the message differently (types and bounds), and only `field` is common.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

API_VERSION = "sluicegate.dev/v1alpha1"
Json = dict[str, Any]


@dataclass(frozen=True)
class GoodManifest:
    """A manifest that is accepted; `name` is a noun phrase."""

    name: str
    manifest: Json


@dataclass(frozen=True)
class BadManifest:
    """A manifest that is refused; `name` is a sentence, and `field` is part of the path that both messages name."""

    name: str
    manifest: Json
    field: str
    says: str = ""


@dataclass(frozen=True)
class BadChange:
    """A change that is refused: `before` is accepted; `after` is applied next."""

    name: str
    before: Json
    after: Json
    says: str


def manifest(kind: str, spec: Mapping[str, Any], name: str = "shop") -> Json:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": dict(spec)}


def cluster(name: str = "shop", **spec: Any) -> Json:
    bundled = {"brokers": {"replicas": 3, "storage": {"size": "10Gi"}}}
    return manifest("BrokerCluster", bundled | spec, name)


def external(**spec: Any) -> Json:
    return manifest("BrokerCluster", {"runtime": "External", "bootstrapServers": ["kafka.example.org:9092"]} | spec)


def listener(name: str = "shop-external", **spec: Any) -> Json:
    return manifest("BrokerListener", {"clusterRef": {"name": "shop"}, "name": "EXTERNAL", "port": 9094} | spec, name)


def named_listener(kafka_name: str) -> Json:
    document = listener()
    return document | {"spec": document["spec"] | {"name": kafka_name}}


def quota(target: Mapping[str, Any] | None = None, **spec: Any) -> Json:
    limits = spec or {"maxConnectionCreationRate": 50}
    return manifest(
        "ConnectionQuota", {"clusterRef": {"name": "shop"}, "target": dict(target or {"broker": {}})} | limits
    )


def topic(name: str = "orders", **spec: Any) -> Json:
    return manifest("Topic", {"clusterRef": {"name": "shop"}, "partitions": 6} | spec, name)


def observer(metadata_name: str = "orders", /, **spec: Any) -> Json:
    """An ObserverPlugin; it has a class by default."""
    which = {} if {"class", "builtIn"} & spec.keys() else {"class": "acme.observers.Orders"}
    return manifest("ObserverPlugin", {"clusterRef": {"name": "shop"}} | which | spec, metadata_name)


def registration(name: str = "shop-2", **spec: Any) -> Json:
    return manifest("BrokerRegistration", {"clusterRef": {"name": "shop"}, "brokerId": 2} | spec, name)


def without(document: Json, *path: str) -> Json:
    """A copy that lacks one field."""
    first, *rest = path
    if not rest:
        return {key: value for key, value in document.items() if key != first}
    return document | {first: without(document[first], *rest)}


def pod_settings(**changed: Any) -> Json:
    """Every setting of pods."""
    return {
        "spread": "Required",
        "nodeSelector": {"example.org/disk": "nvme", "kubernetes.io/arch": "amd64"},
        "tolerations": [
            {"key": "dedicated", "value": "kafka", "effect": "NoSchedule"},
            {
                "key": "node.kubernetes.io/unreachable",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 5,
            },
            {"operator": "Exists"},
        ],
        "priorityClassName": "brokers-first",
        "labels": {"example.org/team": "payments", "tier": ""},
        "annotations": {
            "example.org/contact": "payments@example.org, two\nlines",
            "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
        },
    } | changed


def with_brokers(**said: Any) -> Json:
    return cluster(brokers={"replicas": 1, "storage": {"size": "1Gi"}} | said)


def with_pods(**pod: Any) -> Json:
    return with_brokers(pod=pod)


_OTHERS_KEYS = "must not have keys of the domains sluicegate.dev, kubernetes.io or k8s.io"

_ZONES = {"replicas": 3, "storage": {"size": "1Gi"}, "rack": {"topologyKey": "topology.kubernetes.io/zone"}}

GOOD = (
    GoodManifest("a cluster that says only brokers", cluster()),
    GoodManifest(
        "a cluster with everything",
        cluster(
            runtime="Bundled",
            brokers={
                "replicas": 3,
                "storage": {"size": "1.5Ti", "storageClassName": "fast"},
                "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
                "pod": pod_settings(),
            },
            imagePullSecrets=["registry.example.org"],
            storage={"deleteClaims": True},
            networkPolicies=False,
            clusterId="NKr8a1QYQ0yqmZ0Jb1m7eA",
            controllers={"replicas": 1, "storage": {"size": "1Gi"}},
            image="registry.example.org/sluicegate:0.1.0",
            config={"num.partitions": "3", "log.retention.ms": "86400000"},
            connectionQuota={"strategy": "token-bucket", "ipAction": "drop", "windowNum": 5, "windowSizeSeconds": 2},
            rollout={"paused": True, "strategy": "Broker"},
            paused=True,
            resyncSeconds=5,
        ),
    ),
    *(
        GoodManifest(f"the image {image}", cluster(image=image))
        for image in (
            "sluicegate",
            "localhost:5000/team/sluice__gate:v1.2-rc.1",
            "Registry.example.org/a/b@sha256:" + "0123456789abcdef" * 4,
        )
    ),
    *(
        GoodManifest(f"{key} of {value}", cluster(config={key: value}))
        for key, value in (
            ("log.cleanup.policy", "compact, delete"),
            ("log.flush.interval.ms", "9223372036854775807"),
            ("log.retention.bytes", "-1"),
            ("unclean.leader.election.enable", "TRUE"),
            ("group.coordinator.rebalance.protocols", "consumer, classic"),
            ("group.consumer.session.timeout.ms", "60000"),
        )
    ),
    GoodManifest("a cluster with standby controllers", cluster(controllers={"replicas": 3})),
    GoodManifest(
        "a cluster that drains brokers", cluster(brokers={"replicas": 1, "storage": {"size": "1Gi"}, "drain": True})
    ),
    GoodManifest("a cluster whose brokers know their zone", cluster(brokers=_ZONES)),
    GoodManifest("a label without a prefix", cluster(brokers=_ZONES | {"rack": {"topologyKey": "Rack_1"}})),
    GoodManifest("a cluster that rolls rack by rack", cluster(brokers=_ZONES, rollout={"strategy": "Rack"})),
    GoodManifest("a registration, as the operator writes it", registration()),
    GoodManifest("a null is the same as an absent field", cluster(image=None)),
    GoodManifest("a quota of the broker", quota()),
    GoodManifest("a quota of a listener", quota({"listener": "EXTERNAL"}, maxConnections=100)),
    GoodManifest("a quota of an IPv4 address", quota({"ip": "127.0.1.7"})),
    GoodManifest("a quota of an IPv6 address", quota({"ip": "2001:db8::7"})),
    GoodManifest("a quota of all addresses", quota({"defaultIp": {}}, maxConnections=10, maxConnectionCreationRate=2)),
    GoodManifest("the largest limit", quota(maxConnectionCreationRate=2**31 - 1)),
    GoodManifest("a topic that says the least", topic()),
    GoodManifest(
        "a topic with everything",
        topic(topicName="Orders_v1.eu", replicas=3, config={"retention.ms": "60000"}, deletionPolicy="Delete"),
    ),
    GoodManifest("a lag of any length", topic(config={"min.compaction.lag.ms": "9223372036854775807"})),
)

_OWNED = "config contains a key that the operator sets"
_LIMIT = "use a ConnectionQuota instead"

BAD = (
    BadManifest("a cluster without a spec", without(cluster(), "spec"), "spec"),
    BadManifest(
        "a bundled cluster without brokers",
        without(cluster(), "spec", "brokers"),
        "spec",
        "runtime Bundled needs brokers",
    ),
    BadManifest("an unknown runtime", cluster(runtime="Docker"), "spec.runtime"),
    BadManifest(
        "bootstrapServers of a bundled cluster",
        cluster(bootstrapServers=["kafka.example.org:9092"]),
        "spec.bootstrapServers",
        "runtime External needs bootstrapServers",
    ),
    BadManifest("no broker", cluster(brokers={"replicas": 0, "storage": {"size": "1Gi"}}), "spec.brokers.replicas"),
    BadManifest(
        "too many brokers", cluster(brokers={"replicas": 101, "storage": {"size": "1Gi"}}), "spec.brokers.replicas"
    ),
    BadManifest(
        "replicas in quotes", cluster(brokers={"replicas": "3", "storage": {"size": "1Gi"}}), "spec.brokers.replicas"
    ),
    BadManifest("brokers without storage", cluster(brokers={"replicas": 1}), "spec.brokers.storage"),
    BadManifest(
        "a size that is no quantity",
        cluster(brokers={"replicas": 1, "storage": {"size": "ten"}}),
        "spec.brokers.storage.size",
        "must be a Kubernetes quantity of at least 1Mi",
    ),
    BadManifest(
        "a size of zero",
        cluster(brokers={"replicas": 1, "storage": {"size": "0Gi"}}),
        "spec.brokers.storage.size",
        "must be a Kubernetes quantity of at least 1Mi",
    ),
    BadManifest(
        "resources that are no quantities",
        cluster(brokers={"replicas": 1, "storage": {"size": "1Gi"}, "resources": {"limits": {"memory": "much"}}}),
        "spec.brokers.resources.limits",
        "must have Kubernetes quantities",
    ),
    BadManifest(
        "a size of a byte or less",
        cluster(brokers={"replicas": 1, "storage": {"size": "1m"}}),
        "spec.brokers.storage.size",
        "must be a Kubernetes quantity of at least 1Mi",
    ),
    BadManifest("an id that is none", cluster(clusterId="shop"), "spec.clusterId", "must be a cluster id in Kafka's"),
    BadManifest("claims that go in words", cluster(storage={"deleteClaims": "no"}), "spec.storage.deleteClaims"),
    BadManifest(
        "a storage class that is no name",
        cluster(brokers={"replicas": 1, "storage": {"size": "1Gi", "storageClassName": "Fast Disks"}}),
        "spec.brokers.storage.storageClassName",
        "must be the name of a StorageClass",
    ),
    BadManifest(
        "a resource that is misspelt",
        cluster(brokers={"replicas": 1, "storage": {"size": "1Gi"}, "resources": {"limits": {"memroy": "1Gi"}}}),
        "spec.brokers.resources.limits",
        "limits must name cpu, memory",
    ),
    BadManifest(
        "requests above limits",
        cluster(
            brokers={
                "replicas": 1,
                "storage": {"size": "1Gi"},
                "resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "1000M"}},
            }
        ),
        "spec.brokers.resources.requests",
        "requests must not exceed limits",
    ),
    *(
        BadManifest(f"{field} under {key}", with_pods(**{field: {key: "x"}}), f"spec.brokers.pod.{field}", _OTHERS_KEYS)
        for field in ("labels", "annotations")
        for key in ("sluicegate.dev/cluster", "app.kubernetes.io/name", "kubernetes.io/x", "a.k8s.io/x")
    ),
    *(
        BadManifest(
            f"{field} {pairs}", with_pods(**{field: pairs}), f"spec.brokers.pod.{field}", "must have keys and values in"
        )
        for field, pairs in (
            ("labels", {"a team": "x"}),
            ("labels", {"team": "two words"}),
            ("nodeSelector", {"disk": "-"}),
            ("annotations", {"/x": "y"}),
        )
    ),
    BadManifest(
        "a label of controllers' pods under a key of the operator",
        cluster(controllers={"pod": {"labels": {"sluicegate.dev/x": "y"}}}),
        "spec.controllers.pod.labels",
        _OTHERS_KEYS,
    ),
    BadManifest("pods that are spread in another way", with_pods(spread="Evenly"), "spec.brokers.pod.spread"),
    BadManifest(
        "a priority class that is no name",
        with_pods(priorityClassName="High Priority"),
        "spec.brokers.pod.priorityClassName",
        "must be the name of a PriorityClass",
    ),
    *(
        BadManifest(f"the toleration {toleration}", with_pods(tolerations=[toleration]), "spec.brokers.pod", says)
        for toleration, says in (
            ({"value": "kafka"}, "a toleration without key matches every taint"),
            ({"key": "a", "operator": "Exists", "value": "b"}, "operator Exists matches every value"),
            ({"key": "a", "tolerationSeconds": 5}, "tolerationSeconds is only for effect NoExecute"),
            ({"key": "a b"}, "key must be the key of a taint"),
            ({"key": "a", "value": "b c"}, "value must be the value of a taint"),
        )
    ),
    BadManifest(
        "a pull secret that is no name",
        cluster(imagePullSecrets=["My Secret"]),
        "spec.imagePullSecrets",
        "each of imagePullSecrets must be the name of a Secret",
    ),
    *(
        BadManifest(f"the image {image!r}", cluster(image=image), "spec.image", "must be the name of a container image")
        for image in ("Not An Image!!", "sluicegate:", "https://example.org/sluicegate", "a//b", "Sluicegate:1")
    ),
    *(
        BadManifest(
            f"{key} of {value!r}", cluster(config={"min.insync.replicas": "2", key: value}), "spec.config", says
        )
        for key, value, says in (
            ("num.partitions", "abc", "num.partitions must be a whole number from 1 to 2147483647"),
            ("num.partitions", "0", "num.partitions must be a whole number from 1"),
            ("num.partitions", "2147483648", "num.partitions must be a whole number from 1"),
            ("num.partitions", "1_000", "num.partitions must be a whole number from 1"),
            ("num.partitions", "3\n", "num.partitions must be a whole number from 1"),
            ("num.partitions", "", "num.partitions must be a whole number from 1"),
            ("log.retention.ms", "forever", "log.retention.ms must be a whole number from -1"),
            ("log.flush.interval.ms", "9223372036854775808", "log.flush.interval.ms must be a whole number from 0"),
            ("log.flush.interval.ms", "1" * 30, "log.flush.interval.ms must be a whole number from 0"),
            ("delete.topic.enable", "yes", "delete.topic.enable must be true or false"),
            ("compression.type", "brotli", "compression.type must be one of uncompressed, zstd"),
            ("log.cleanup.policy", "delete;compact", "log.cleanup.policy must be a comma-separated list of delete"),
            ("group.coordinator.rebalance.protocols", "consumer", "that contains classic"),
            (
                "group.consumer.session.timeout.ms",
                "30000",
                "group.consumer.session.timeout.ms <= group.consumer.max.session.timeout.ms must hold (45000,"
                " 30000, 60000); keys that config does not set have their defaults",
            ),
            (
                "group.min.session.timeout.ms",
                "1800001",
                "group.min.session.timeout.ms <= group.max.session.timeout.ms must hold (1800001, 1800000)",
            ),
        )
    ),
    BadManifest(
        "a heartbeat that comes no more often than a session ends",
        cluster(
            config=dict.fromkeys(
                ("group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"), "45000"
            )
        ),
        "spec.config",
        "group.consumer.heartbeat.interval.ms < group.consumer.session.timeout.ms must hold (45000, 45000)",
    ),
    BadManifest(
        "two values that are not allowed",
        cluster(config={"num.partitions": "x", "default.replication.factor": "x"}),
        "spec.config",
        "default.replication.factor must be a whole number",
    ),
    BadManifest(
        "two controllers",
        cluster(controllers={"replicas": 2}),
        "spec.controllers.replicas",
        "controllers.replicas must be odd",
    ),
    BadManifest("eleven controllers", cluster(controllers={"replicas": 11}), "spec.controllers.replicas"),
    BadManifest("an unknown rollout", cluster(rollout={"paused": "now"}), "spec.rollout.paused"),
    BadManifest("an unknown strategy", cluster(rollout={"strategy": "Zone"}), "spec.rollout.strategy"),
    BadManifest(
        "a roll by racks of brokers that have none",
        cluster(rollout={"strategy": "Rack"}),
        "spec.rollout",
        "rollout.strategy Rack needs brokers.rack.topologyKey",
    ),
    BadManifest(
        "a rack that is no label",
        cluster(brokers=_ZONES | {"rack": {"topologyKey": "topology.kubernetes.io/"}}),
        "spec.brokers.rack.topologyKey",
        "the key of a node label",
    ),
    BadManifest(
        "a rack in words",
        cluster(brokers=_ZONES | {"rack": {"topologyKey": "my zone"}}),
        "spec.brokers.rack.topologyKey",
        "the key of a node label",
    ),
    BadManifest("a rack without a label", cluster(brokers=_ZONES | {"rack": {}}), "spec.brokers.rack.topologyKey"),
    BadManifest("a rack beside config", cluster(config={"broker.rack": "a"}), "spec.config", _OWNED),
    BadManifest("a rollout paused in words", cluster(rollout={"paused": "yes"}), "spec.rollout.paused"),
    BadManifest(
        "a drain in words", cluster(brokers={"replicas": 1, "storage": {"size": "1Gi"}, "drain": "no"}), "spec.brokers"
    ),
    BadManifest("a config value that is a number", cluster(config={"num.partitions": 3}), "spec.config"),
    *(
        BadManifest(
            f"config that sets {key}, which belongs to the operator", cluster(config={key: "1"}), "spec.config", _OWNED
        )
        for key in (
            "node.id",
            "process.roles",
            "listeners",
            "advertised.listeners",
            "log.dirs",
            "controller.quorum.bootstrap.servers",
            "sluicegate.http.listener",
        )
    ),
    *(
        BadManifest(f"config that sets {key}, which is a limit", cluster(config={key: "1"}), "spec.config", _LIMIT)
        for key in (
            "max.connections",
            "max.connection.creation.rate",
            "max.connections.per.ip.overrides",
            "listener.name.external.max.connections",
        )
    ),
    BadManifest(
        "config that sets the quota window",
        cluster(config={"quota.window.num": "3"}),
        "spec.config",
        "use spec.connectionQuota instead",
    ),
    BadManifest(
        "config with a misspelt key",
        cluster(config={"num.partition": "3"}),
        "spec.config",
        "a key that the broker does not know: num.partition; docs",
    ),
    BadManifest("an unknown strategy", cluster(connectionQuota={"strategy": "leaky"}), "spec.connectionQuota.strategy"),
    BadManifest(
        "a window of no length",
        cluster(connectionQuota={"windowSizeSeconds": 0}),
        "spec.connectionQuota.windowSizeSeconds",
    ),
    BadManifest("a resync that is too frequent", cluster(resyncSeconds=1), "spec.resyncSeconds"),
    BadManifest("paused in words", cluster(paused="no"), "spec.paused"),
    BadManifest("a cluster whose name has a dot", cluster("shop.eu"), "", "the name of a BrokerCluster must be"),
    BadManifest("a cluster whose name is too long", cluster("s" * 41), "", "the name of a BrokerCluster must be"),
    BadManifest(
        "a cluster whose name begins with a digit", cluster("1shop"), "", "the name of a BrokerCluster must be"
    ),
    BadManifest("a field that is misspelt", cluster(broker={"replicas": 1}), "spec.broker"),
    BadManifest(
        "a quota without a limit",
        without(quota(), "spec", "maxConnectionCreationRate"),
        "spec",
        "set maxConnectionCreationRate, adaptive or maxConnections",
    ),
    BadManifest(
        "config that loads an observer",
        cluster(config={"observer.class.names": "a.B"}),
        "spec.config",
        "a key of an observer (observer...): observer.class.names; use an ObserverPlugin instead",
    ),
    BadManifest("a rate of zero", quota(maxConnectionCreationRate=0), "spec.maxConnectionCreationRate"),
    BadManifest("a negative rate", quota(maxConnectionCreationRate=-5), "spec.maxConnectionCreationRate"),
    BadManifest(
        "a rate beyond what Kafka can hold", quota(maxConnectionCreationRate=2**31), "spec.maxConnectionCreationRate"
    ),
    BadManifest("a rate in quotes", quota(maxConnectionCreationRate="50"), "spec.maxConnectionCreationRate"),
    BadManifest("no connections at all", quota(maxConnections=0), "spec.maxConnections"),
    BadManifest("a quota without a target", without(quota(), "spec", "target"), "spec.target"),
    BadManifest(
        "a target that says nothing",
        without(quota(), "spec", "target", "broker"),
        "spec.target",
        "target must have exactly one of",
    ),
    BadManifest(
        "two targets", quota({"broker": {}, "ip": "127.0.0.1"}), "spec.target", "target must have exactly one of"
    ),
    BadManifest(
        "a listener in lower case as target",
        quota({"listener": "external"}),
        "spec.target.listener",
        "target.listener must be at most 63 upper-case",
    ),
    BadManifest(
        "a limit on the operator's own listener",
        quota({"listener": "INTERNAL"}),
        "spec.target.listener",
        "are reserved for the operator",
    ),
    *(
        BadManifest(f"{text} as an address", quota({"ip": text}), "spec.target.ip", "must be one IPv4 or IPv6 address")
        for text in ("localhost", "10.0.0.0/8", "10.0.0.256", "010.0.0.1", "::ffff:10.0.0.1", "fe80::1%eth0")
    ),
    BadManifest("a topic without partitions", without(topic(), "spec", "partitions"), "spec.partitions"),
    BadManifest("a topic with no partition", topic(partitions=0), "spec.partitions"),
    BadManifest("a topic with too many partitions", topic(partitions=10001), "spec.partitions"),
    BadManifest("a topic with no replica", topic(replicas=0), "spec.replicas"),
    BadManifest("a topic name with a space", topic(topicName="my orders"), "spec.topicName", "topicName must be"),
    BadManifest("a topic name of dots", topic(topicName=".."), "spec.topicName", "topicName must be"),
    BadManifest("a topic of Kafka's own", topic(topicName="__consumer_offsets"), "spec.topicName", "topicName must be"),
    BadManifest("a topic name that is too long", topic(topicName="t" * 250), "spec.topicName"),
    BadManifest(
        "a Topic whose own name is too long for Kafka", topic("t" * 250), "", "spec.topicName is not set, so the name"
    ),
    BadManifest(
        "a topic with a key that topics lack",
        topic(config={"num.partitions": "3"}),
        "spec.config",
        "a key that is not a topic configuration: num.partitions; docs",
    ),
    BadManifest(
        "a topic that keeps records for ever in words",
        topic(config={"retention.ms": "forever"}),
        "spec.config",
        "retention.ms must be a whole number from -1",
    ),
    BadManifest("a registration of no broker", without(registration(), "spec", "brokerId"), "spec.brokerId"),
    BadManifest("a registration with a negative id", registration(brokerId=-1), "spec.brokerId"),
    *(
        BadManifest(
            f"a least lag of {least} above the largest of {largest}",
            topic(config={"min.compaction.lag.ms": least, "max.compaction.lag.ms": largest}),
            "spec.config",
            f"min.compaction.lag.ms <= max.compaction.lag.ms must hold ({least}, {largest})",
        )
        for least, largest in (("20000", "10000"), ("9223372036854775807", "9223372036854775806"))
    ),
    BadManifest("an unknown deletion policy", topic(deletionPolicy="Keep"), "spec.deletionPolicy"),
)

_SMALL = {"replicas": 2, "storage": {"size": "1Gi"}}

BAD_CHANGES = (
    BadChange(
        "a single controller is given standbys",
        cluster(),
        cluster(controllers={"replicas": 3}),
        "controllers.replicas cannot change from 1 to more or back",
    ),
    BadChange(
        "standby controllers are taken away",
        cluster(controllers={"replicas": 3}),
        cluster(controllers={"replicas": 1}),
        "controllers.replicas cannot change from 1 to more or back",
    ),
    BadChange(
        "a registration is given to another broker",
        registration(),
        registration(brokerId=3),
        "always belongs to the same broker",
    ),
    BadChange(
        "volumes shrink",
        cluster(brokers=_SMALL),
        cluster(brokers=_SMALL | {"storage": {"size": "1023Mi"}}),
        "brokers.storage.size cannot be less than the size that was requested for the volumes",
    ),
    BadChange(
        "volumes of controllers shrink that had no size",
        cluster(),
        cluster(controllers={"storage": {"size": "1G"}}),
        "controllers.storage.size cannot be less than the size that was requested for the volumes",
    ),
    BadChange(
        "the class of volumes is changed",
        cluster(brokers=_SMALL),
        cluster(brokers=_SMALL | {"storage": {"size": "1Gi", "storageClassName": "other"}}),
        "storageClassName cannot be changed",
    ),
    BadChange("a listener is renamed", listener(), named_listener("OTHER"), "the name of a listener cannot be changed"),
    BadChange(
        "a listener moves to another cluster",
        listener(),
        listener(clusterRef={"name": "bank"}),
        "clusterRef cannot be changed",
    ),
    BadChange(
        "an observer moves to another cluster",
        observer(),
        observer(clusterRef={"name": "bank"}),
        "clusterRef cannot be changed: delete this ObserverPlugin",
    ),
    BadChange(
        "a quota moves to another cluster",
        quota(),
        quota(clusterRef={"name": "bank"}, maxConnectionCreationRate=50),
        "clusterRef cannot be changed: delete this ConnectionQuota",
    ),
    BadChange("partitions shrink", topic(), topic(partitions=5), "partitions cannot be reduced"),
    BadChange("a topic is renamed", topic(topicName="a"), topic(topicName="b"), "topicName cannot be changed"),
    BadChange("a topic is given another name afterwards", topic(), topic(topicName="b"), "topicName cannot be changed"),
    BadChange(
        "a topic moves to another cluster", topic(), topic(clusterRef={"name": "bank"}), "clusterRef cannot be changed"
    ),
)
