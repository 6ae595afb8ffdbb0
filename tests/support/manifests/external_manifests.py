"""Manifests of clusters that run elsewhere, as in `bad_manifests`."""

from tests.support.manifests.bad_manifests import (
    BadChange,
    BadManifest,
    GoodManifest,
    Json,
    cluster,
    external,
    without,
)

_PASSWORD: Json = {"username": "sluicegate", "passwordSecret": {"secretName": "sluicegate"}}
_PAIR: Json = {"certificateAndKey": {"secretName": "operator", "certificate": "user.crt", "key": "user.key"}}


def secured(type_: str, *, tls: bool = True, **fields: object) -> Json:
    trusted = {"tls": {"trustedCertificates": [{"secretName": "ca"}]}} if tls else {}
    return external(external={**trusted, "authentication": {"type": type_, **fields}})


GOOD_EXTERNAL = (
    GoodManifest("one with TLS by the authorities of the image", external(external={"tls": {}})),
    GoodManifest("one with a client certificate", secured("tls", **_PAIR)),
    GoodManifest("one with SCRAM without TLS", secured("scram-sha-512", tls=False, **_PASSWORD)),
    GoodManifest("one with PLAIN", secured("plain", **_PASSWORD)),
    GoodManifest("one with a token", secured("oauth", accessToken={"secretName": "sluicegate", "key": "jwt"})),
    GoodManifest("a cluster that runs elsewhere", external()),
    GoodManifest("one by an IPv6 address", external(bootstrapServers=["[2001:db8::1]:9092", "10.0.0.1:9092"])),
    GoodManifest("one with keys that bundled brokers do not know", external(config={"log.cleaner.x": "1"})),
    GoodManifest("one whose id is said", external(clusterId="MkU3OEVBNTcwNTJENDM2Qk", paused=True, resyncSeconds=5)),
)

BAD_EXTERNAL = (
    BadManifest(
        "credentials for brokers that the operator starts",
        cluster(external={"tls": {}}),
        "spec.external",
        "external is only for runtime External",
    ),
    BadManifest(
        "a user without a password",
        secured("scram-sha-512", username="sluicegate"),
        "spec.external.authentication.passwordSecret",
        "passwordSecret is required for type scram-sha-256 or scram-sha-512 or plain",
    ),
    BadManifest(
        "a user name beside a certificate",
        secured("tls", username="sluicegate", **_PAIR),
        "spec.external.authentication.username",
        "username is required for type scram-sha-256 or scram-sha-512 or plain, and only allowed there",
    ),
    BadManifest(
        "a token without its Secret",
        secured("oauth"),
        "spec.external.authentication.accessToken",
        "accessToken is required for type oauth",
    ),
    BadManifest(
        "a client certificate without TLS",
        secured("tls", tls=False, **_PAIR),
        "spec.external.authentication",
        "authentication.type tls needs tls",
    ),
    BadManifest(
        "a Secret that cannot have this name",
        external(external={"tls": {"trustedCertificates": [{"secretName": "Not_A_Name"}]}}),
        "spec.external.tls.trustedCertificates[0].secretName",
        "secretName must be the name of a Secret",
    ),
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
