"""Manifests of KafkaUsers, as in `bad_manifests`."""

from typing import Any

from tests.support.manifests.bad_manifests import BadChange, BadManifest, GoodManifest, Json, manifest

SCRAM: Json = {"type": "scram-sha-512"}


def acl(type_: str = "topic", name: str | None = "orders", *operations: str, **more: Any) -> Json:
    resource: Json = {"type": type_} | ({"name": name} if name is not None else {})
    return {"resource": resource, "operations": list(operations or ("Read",)), **more}


def kafka_user(name: str = "alice", /, *acls: Json, **spec: Any) -> Json:
    """A KafkaUser with a password, unless `spec` has another authentication."""
    authorization: Json = {"authorization": {"acls": list(acls)}} if acls else {}
    return manifest("KafkaUser", {"clusterRef": {"name": "shop"}, "authentication": SCRAM} | authorization | spec, name)


def certified(**spec: Any) -> Json:
    """A user whose credentials others make."""
    return manifest("KafkaUser", {"clusterRef": {"name": "shop"}, "userName": "CN=billing,O=shop"} | spec, "billing")


_GIVEN: Json = {"valueFrom": {"secretKeyRef": {"name": "given", "key": "word"}}}
GOOD_USERS = (
    GoodManifest("a user with a password", kafka_user()),
    GoodManifest("a user with a given password", kafka_user(authentication=SCRAM | {"password": _GIVEN})),
    GoodManifest(
        "a user with everything",
        kafka_user(
            "alice",
            acl("topic", "orders", "Read", "Describe"),
            acl("group", "shop-", "Read", host="192.0.2.7"),
            acl("cluster", None, "DescribeConfigs", type="deny"),
            acl("transactionalId", "*", "All", host="2001:db8::7"),
            quotas={
                "producerByteRate": 1_000_000,
                "consumerByteRate": 2_000_000,
                "requestPercentage": 50,
                "controllerMutationRate": 2.5,
            },
        ),
    ),
    GoodManifest("a user of a certificate", certified(authorization={"type": "simple", "acls": [acl()]})),
    GoodManifest(
        "a service account", certified(userName="system:serviceaccount:shop:billing", quotas={"requestPercentage": 5})
    ),
)

BAD_USERS = (
    BadManifest("a user for nothing", certified(), "spec", "needs at least one of authentication, authorization"),
    BadManifest(
        "all users",
        certified(userName="*", authorization={"acls": [acl()]}),
        "spec.userName",
        "userName must be 1 to 249 characters",
    ),
    BadManifest(
        "an ACL about no topic",
        kafka_user("alice", acl("topic", None)),
        "spec.authorization.acls[0].resource.name",
        "name is required for type topic, group and transactionalId",
    ),
    BadManifest(
        "an ACL about one of several clusters",
        kafka_user("alice", acl("cluster", "kafka-cluster")),
        "spec.authorization.acls[0].resource.name",
        "must be absent for type cluster",
    ),
    BadManifest(
        "an ACL about the beginning of a cluster's name",
        kafka_user("alice", {"resource": {"type": "cluster", "patternType": "prefix"}, "operations": ["All"]}),
        "spec.authorization.acls[0].resource.patternType",
        "patternType prefix is not for type cluster",
    ),
    *(
        BadManifest(
            f"an ACL of the host {host}",
            kafka_user("alice", acl(host=host)),
            "spec.authorization.acls[0].host",
            "host must be one IPv4 or IPv6 address, or *",
        )
        for host in ("192.0.2.0/24", "client.example", "192.0.2.7 ", "::ffff:192.0.2.7", "**")
    ),
    BadManifest(
        "more operations than brokers should keep for one user",
        kafka_user("alice", *(acl("topic", f"t{number}", *["Read"] * 13) for number in range(20))),
        "spec.authorization.acls",
        "acls must have at most 256 operations together",
    ),
    BadManifest("a quota of nothing", kafka_user(quotas={"producerByteRate": 0}), "spec.quotas.producerByteRate"),
    BadManifest(
        "a name that no label may have",
        kafka_user("a" * 64),
        "",
        "the name of a KafkaUser must have at most 63 characters",
    ),
)

USER_CHANGES = (
    BadChange(
        "a user moves to another cluster", kafka_user(), kafka_user(clusterRef={"name": "bank"}), "clusterRef cannot be"
    ),
    BadChange("a user is renamed", kafka_user(), kafka_user(userName="bob"), "userName cannot be changed"),
)
