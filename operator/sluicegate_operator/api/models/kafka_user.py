"""KafkaUser: a user of a cluster, with a password, ACLs and quotas."""

import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sluicegate_operator.api.models.parts.audit_landing import object_name_rule
from sluicegate_operator.api.schema.addresses import is_ip
from sluicegate_operator.api.schema.metadata import (
    CLUSTER_COLUMN,
    CONDITION_COLUMNS,
    GROUP,
    ClusterRef,
    PrinterColumn,
    Resource,
    Status,
)
from sluicegate_operator.api.schema.rules import Model, Rule, TransitionRule, cluster_ref_stays, own_name_stays

FINALIZER = f"{GROUP}/kafka-user"
"""On every KafkaUser until its credential, ACLs and quotas are removed: see engine.users.leaving_users."""
ROTATE = f"{GROUP}/rotate"
"""Annotation of a KafkaUser: each new value makes a new password."""
NAME_MAX = 63
USER_NAME_PATTERN = r"^[^*\x00-\x1f\x7f]{1,249}$"
RATE_MAX = 2**53 - 1
"""Kafka stores quotas as doubles, which are exact up to here."""
ACLS_MAX, OPERATIONS_MAX, RULES_MAX = 64, 13, 256
Operation = Literal[
    "All",
    "Read",
    "Write",
    "Create",
    "Delete",
    "Alter",
    "Describe",
    "ClusterAction",
    "DescribeConfigs",
    "AlterConfigs",
    "IdempotentWrite",
    "TwoPhaseCommit",
]


class PasswordKey(Model):
    rules: ClassVar = (object_name_rule("name", "Secret"),)

    name: str = Field(min_length=1, max_length=253)
    """Name of a Secret in the same namespace."""
    key: str = Field(min_length=1, max_length=253)
    """Key of the Secret whose value is the password."""


class PasswordSource(Model):
    secret_key_ref: PasswordKey
    """The key of a Secret."""


class UserPassword(Model):
    value_from: PasswordSource
    """Source of the password."""


class UserAuthentication(Model):
    type: Literal["scram-sha-512"]
    """scram-sha-512 gives the user a password, in a Secret with the name of the KafkaUser: keys username, password and
    sasl.jaas.config."""
    password: UserPassword | None = None
    """The password; the operator makes one of 32 characters if absent."""


class AclResource(Model):
    rules: ClassVar = (
        Rule(
            cel="(self.type == 'cluster') != has(self.name)",
            message="name is required for type topic, group and transactionalId, and must be absent for type cluster,"
            " of which there is one",
            allows=lambda resource: (resource.type == "cluster") != (resource.name is not None),
            field="name",
        ),
        Rule(
            cel="self.type != 'cluster' || self.patternType == 'literal'",
            message="patternType prefix is not for type cluster: remove it",
            allows=lambda resource: resource.type != "cluster" or resource.pattern_type == "literal",
            field="patternType",
        ),
    )

    type: Literal["topic", "group", "cluster", "transactionalId"]
    """Kind of the resource."""
    name: str | None = Field(default=None, min_length=1, max_length=249)
    """Name of the resource, or its beginning with patternType prefix. `*` with patternType literal is any name."""
    pattern_type: Literal["literal", "prefix"] = "literal"
    """How the name is compared."""


class AclEntry(Model):
    rules: ClassVar = (
        Rule(
            cel="self.host == '*' || isIP(self.host)",
            message="host must be one IPv4 or IPv6 address, or *: brokers compare it with the client's address, so that"
            " a name or a range matches no client",
            allows=lambda entry: entry.host == "*" or is_ip(entry.host),
            field="host",
        ),
    )

    resource: AclResource
    """What the ACL is about."""
    operations: Annotated[tuple[Operation, ...], Field(min_length=1, max_length=OPERATIONS_MAX)]
    """Operations that are allowed or denied. Read, Write, Delete and Alter include Describe."""
    host: str = Field(default="*", min_length=1, max_length=64)
    """Address from which the user connects; `*` is any address."""
    type: Literal["allow", "deny"] = "allow"
    """Effect of the ACL. A deny wins over every allow."""


class UserAuthorization(Model):
    rules: ClassVar = (
        Rule(
            cel=f"self.acls.map(x, x.operations.size()).sum() <= {RULES_MAX}",
            message=f"acls must have at most {RULES_MAX} operations together: use patternType prefix, or All",
            allows=lambda model: sum(len(entry.operations) for entry in model.acls) <= RULES_MAX,
            field="acls",
        ),
    )

    type: Literal["simple"] = "simple"
    """Kafka's own authorizer; the only type."""
    acls: Annotated[tuple[AclEntry, ...], Field(min_length=1, max_length=ACLS_MAX)]
    """What the user may do."""


class UserQuotas(Model):
    """Quotas of the user at each broker, over all of its connections."""

    producer_byte_rate: int | None = Field(default=None, ge=1, le=RATE_MAX)
    """Bytes a second that the user may produce to a broker."""
    consumer_byte_rate: int | None = Field(default=None, ge=1, le=RATE_MAX)
    """Bytes a second that the user may fetch from a broker."""
    request_percentage: int | None = Field(default=None, ge=1, le=100_000)
    """Share of the time of a broker's request threads, in percent of one thread."""
    controller_mutation_rate: float | None = Field(default=None, gt=0, le=1_000_000)
    """Partitions a second that the user may create and delete."""


class KafkaUserSpec(Model):
    """One principal of a cluster: how it authenticates, what it may do, and its client quotas."""

    rules: ClassVar = (
        Rule(
            cel=f"!has(self.userName) || self.userName.matches(r'{USER_NAME_PATTERN}')",
            message="userName must be 1 to 249 characters without '*' and control characters",
            allows=lambda spec: spec.user_name is None or re.fullmatch(USER_NAME_PATTERN, spec.user_name) is not None,
            field="userName",
        ),
        Rule(
            cel="has(self.authentication) || has(self.authorization) || has(self.quotas)",
            message="a KafkaUser needs at least one of authentication, authorization and quotas",
            allows=lambda spec: any((spec.authentication, spec.authorization, spec.quotas)),
        ),
    )
    transitions: ClassVar = (cluster_ref_stays("create a new KafkaUser"),)

    cluster_ref: ClusterRef
    """The BrokerCluster of the user, bundled or external."""
    user_name: str | None = Field(default=None, min_length=1, max_length=249)
    """Kafka's name of the user, if it differs from metadata.name: the subject of a client certificate, for example
    CN=billing,O=shop, or system:serviceaccount:NAMESPACE:NAME."""
    authentication: UserAuthentication | None = None
    """How the user authenticates; absent for users of client certificates, tokens and service accounts, whose
    credentials others make."""
    authorization: UserAuthorization | None = None
    """ACLs of the user. Without it, ACLs that others have set stay."""
    quotas: UserQuotas | None = None
    """Quotas of the user."""


class KafkaUserStatus(Status):
    user_name: str = Field(default="", max_length=249)
    """Kafka's name of the user."""
    secret: str = Field(default="", max_length=253)
    """Name of the Secret with the password."""
    acls: int = 0
    """Number of ACLs that brokers have as specified, one for each operation."""
    acls_set: tuple[Annotated[str, Field(max_length=1280)], ...] = Field(default=(), max_length=2 * RULES_MAX)
    """ACLs that the operator has set for this object, and that it removes with it."""
    quotas_set: tuple[Annotated[str, Field(max_length=64)], ...] = Field(default=(), max_length=16)
    """Quotas that the operator has set for this object, and that it removes with it."""
    credential_set: str = Field(default="", max_length=128)
    """Version of the Secret whose password brokers have."""


class KafkaUser(Resource):
    """A user of a cluster."""

    plural: ClassVar = "kafkausers"
    short_name: ClassVar = "usr"
    columns: ClassVar = (
        CLUSTER_COLUMN,
        PrinterColumn(name="User", json_path=".status.userName"),
        PrinterColumn(name="Authentication", json_path=".spec.authentication.type"),
        PrinterColumn(name="ACLs", json_path=".status.acls", type="integer"),
        *CONDITION_COLUMNS,
    )
    rules: ClassVar = (
        Rule(
            cel=f"self.metadata.name.size() <= {NAME_MAX}",
            message=f"the name of a KafkaUser must have at most {NAME_MAX} characters; use spec.userName for a longer"
            " one",
            allows=lambda model: len(model.metadata.name) <= NAME_MAX,
        ),
    )

    transitions: ClassVar = (
        TransitionRule(
            cel=own_name_stays("userName"),
            message="spec.userName cannot be changed, because ACLs and quotas belong to the name: create a new"
            " KafkaUser",
            allows=lambda old, new: old.user_name == new.user_name,
        ),
    )

    kind: Literal["KafkaUser"] = "KafkaUser"
    spec: KafkaUserSpec
    """The desired state of the user."""
    status: KafkaUserStatus = Field(default_factory=KafkaUserStatus)
    """The state of the user that the operator last observed."""

    @property
    def user_name(self) -> str:
        return self.spec.user_name or self.metadata.name
