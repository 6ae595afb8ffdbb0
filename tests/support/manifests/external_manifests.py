"""Manifests of clusters that run elsewhere, as in `bad_manifests`."""

from tests.support.manifests.bad_manifests import BadChange, BadManifest, GoodManifest, cluster, external, without

GOOD_EXTERNAL = (
    GoodManifest("a cluster that runs elsewhere", external()),
    GoodManifest("one by an IPv6 address", external(bootstrapServers=["[2001:db8::1]:9092", "10.0.0.1:9092"])),
    GoodManifest("one with keys that bundled brokers do not know", external(config={"log.cleaner.x": "1"})),
    GoodManifest("one whose id is said", external(clusterId="MkU3OEVBNTcwNTJENDM2Qk", paused=True, resyncSeconds=5)),
)

BAD_EXTERNAL = (
    BadManifest(
        "a cluster that runs elsewhere, with nodes",
        external(brokers={"replicas": 3, "storage": {"size": "10Gi"}}),
        "spec",
        "connectionQuota, rollout are only for nodes that the operator starts",
    ),
    BadManifest(
        "a cluster that runs elsewhere, with an image",
        external(image="x:1"),
        "spec",
        "it starts none for runtime External: remove them",
    ),
    BadManifest(
        "a cluster that runs nobody knows where",
        without(external(), "spec", "bootstrapServers"),
        "spec.bootstrapServers",
        "runtime External needs bootstrapServers",
    ),
    BadManifest(
        "a bootstrap server without a port",
        external(bootstrapServers=["kafka.example.org"]),
        "spec.bootstrapServers",
        "each of bootstrapServers must be host:port",
    ),
    BadManifest(
        "a limit in the config of a cluster that runs elsewhere",
        external(config={"max.connections": "5"}),
        "spec.config",
        "use a ConnectionQuota instead",
    ),
    BadManifest(
        "a listener's key in the config of a cluster that runs elsewhere",
        external(config={"listener.name.external.num.network.threads": "5"}),
        "spec.config",
        "use a ConnectionQuota instead",
    ),
)

BAD_EXTERNAL_CHANGES = (BadChange("a cluster that is taken over", cluster(), external(), "runtime cannot be changed"),)
