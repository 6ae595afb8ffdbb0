"""Plan what brings a user to its KafkaUser: credential, ACLs, quotas. Pure.

A user may be older than its KafkaUser. Only what was set for the KafkaUser is ever removed, so the status has a list of
it, which is written before anything is set. Two KafkaUsers may name one user: the oldest governs it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, ip_address

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.kafka_user import AclEntry, KafkaUser
from sluicegate_operator.planning.limits.limits import Entity
from sluicegate_operator.planning.status.missing_cluster import cluster_missing_words
from sluicegate_operator.planning.status.seniority import seniority
from sluicegate_operator.planning.users.acl_rules import (
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
    AclRule,
)

CLUSTER_NAME = "kafka-cluster"
"""The only name of a resource of the type cluster."""
_RESOURCES = {
    "topic": AclResourceType.TOPIC,
    "group": AclResourceType.GROUP,
    "cluster": AclResourceType.CLUSTER,
    "transactionalId": AclResourceType.TRANSACTIONAL_ID,
}
_OPERATIONS = {operation.name.replace("_", "").lower(): operation for operation in AclOperation}
_QUOTAS = {
    "producer_byte_rate": "producer_byte_rate",
    "consumer_byte_rate": "consumer_byte_rate",
    "request_percentage": "request_percentage",
    "controller_mutation_rate": "controller_mutation_rate",
}
"""Kafka's keys of client quotas by the fields of spec.quotas."""


@dataclass(frozen=True, slots=True)
class ObservedUser:
    """The state of a user on the brokers. A field that was not read is None.

    `rules` is empty if the brokers have no authorizer, and `unauthorized` then says so.
    """

    has_credential: bool | None = None
    rules: frozenset[AclRule] | None = None
    quotas: Mapping[str, float] | None = None
    unauthorized: str = ""


@dataclass(frozen=True, slots=True)
class SetForUser:
    """The settings made for a KafkaUser: ACLs, keys of quotas, and the version of the password's Secret."""

    rules: frozenset[AclRule] = frozenset()
    quotas: tuple[str, ...] = ()
    credential: str = ""

    @classmethod
    def of(cls, user: KafkaUser) -> "SetForUser":
        """Return the settings that the status lists, without entries that this operator cannot parse."""
        status = user.status
        rules = (decode_rule(text) for text in status.acls_set)
        return cls(frozenset(rule for rule in rules if rule is not None), status.quotas_set, status.credential_set)

    def fields(self) -> dict[str, object]:
        """Return the fields of the KafkaUser's status."""
        return {
            "aclsSet": sorted(map(encode_rule, self.rules)),
            "quotasSet": list(self.quotas),
            "credentialSet": self.credential,
        }

    def __bool__(self) -> bool:
        return bool(self.rules or self.quotas or self.credential)


@dataclass(frozen=True, slots=True)
class UserPlan:
    """The changes of a KafkaUser's credentials, ACLs and quotas on the brokers.

    `remembered` is written into the status before the changes, `settled` after them.
    """

    create: frozenset[AclRule] = frozenset()
    delete: frozenset[AclRule] = frozenset()
    quotas: Mapping[str, float | None] = field(default_factory=dict)
    set_credential: bool = False
    delete_credential: bool = False
    remembered: SetForUser = SetForUser()
    settled: SetForUser = SetForUser()

    @property
    def changes(self) -> str:
        """Return words about the changes for an Event; empty without a change."""
        words = [f"{rule}" for rule in sorted(self.create)]
        words += [f"removed: {rule}" for rule in sorted(self.delete)]
        words += [f"{key}={'default' if value is None else f'{value:g}'}" for key, value in sorted(self.quotas.items())]
        if self.set_credential:
            words.append("a password")
        if self.delete_credential:
            words.append("removed: the password")
        return "; ".join(words)


def principal(user: KafkaUser) -> str:
    return f"User:{user.user_name}"


def user_entity(user: KafkaUser) -> Entity:
    """Return the entity of the user's client quotas."""
    return (("user", user.user_name),)


def wanted_rules(user: KafkaUser) -> frozenset[AclRule]:
    entries = user.spec.authorization.acls if user.spec.authorization is not None else ()
    return frozenset(rule for entry in entries for rule in _rules(principal(user), entry))


def _rules(principal_: str, entry: AclEntry) -> list[AclRule]:
    resource = entry.resource
    return [
        AclRule(
            _RESOURCES[resource.type],
            resource.name or CLUSTER_NAME,
            AclPatternType.PREFIXED if resource.pattern_type == "prefix" else AclPatternType.LITERAL,
            principal_,
            entry.host,
            _OPERATIONS[operation.lower()],
            AclPermission.DENY if entry.type == "deny" else AclPermission.ALLOW,
        )
        for operation in entry.operations
    ]


def wanted_quotas(user: KafkaUser) -> dict[str, float]:
    quotas = user.spec.quotas
    found = {key: getattr(quotas, attribute) for attribute, key in _QUOTAS.items()} if quotas is not None else {}
    return {key: float(value) for key, value in found.items() if value is not None}


def with_hosts_of_brokers(user: KafkaUser, *, external: bool) -> KafkaUser:
    """Return the KafkaUser with the hosts of its ACLs as brokers spell the addresses of clients.

    Brokers compare texts: an ACL for 2001:DB8::7 would match no client. Apache Kafka, which `external` brokers are,
    writes all eight numbers of an IPv6 address.
    """
    if user.spec.authorization is None:
        return user
    acls = tuple(
        entry.model_copy(update={"host": _host(entry.host, external=external)})
        for entry in user.spec.authorization.acls
    )
    authorization = user.spec.authorization.model_copy(update={"acls": acls})
    return user.model_copy(update={"spec": user.spec.model_copy(update={"authorization": authorization})})


def _host(text: str, *, external: bool) -> str:
    if text == "*":
        return text
    address = ip_address(text)
    if isinstance(address, IPv4Address) or not external:
        return address.compressed
    return ":".join(f"{int(number, 16):x}" for number in address.exploded.split(":"))


def plan_user(user: KafkaUser, observed: ObservedUser, secret_version: str) -> UserPlan:
    """Return the changes for a KafkaUser that governs its user.

    `secret_version` is that of the Secret with the password; empty without a password.
    """
    own, rules, quotas = SetForUser.of(user), wanted_rules(user), wanted_quotas(user)
    there = observed.rules or frozenset()
    create, delete = rules - there, (own.rules & there) - rules
    set_there = observed.quotas or {}
    changed: dict[str, float | None] = {key: value for key, value in quotas.items() if set_there.get(key) != value}
    changed |= {key: None for key in own.quotas if key in set_there and key not in quotas}
    lacks = bool(secret_version) and (observed.has_credential is False or own.credential != secret_version)
    own_rules = (own.rules & rules) | create
    own_quotas = tuple(sorted({*(key for key in own.quotas if key in quotas), *(k for k in quotas if k in changed)}))
    return UserPlan(
        create=create,
        delete=delete,
        quotas=changed,
        set_credential=lacks,
        delete_credential=bool(own.credential) and not secret_version,
        remembered=SetForUser(
            own_rules | delete,
            tuple(sorted({*own_quotas, *(key for key in own.quotas if key in changed)})),
            # Before the password is set, the version must not claim that brokers have it.
            _UNCONFIRMED if lacks else own.credential,
        ),
        settled=SetForUser(own_rules, own_quotas, secret_version),
    )


_UNCONFIRMED = "unconfirmed"


def after_refusal(user: KafkaUser, plan: UserPlan, observed: ObservedUser) -> SetForUser:
    """Return the settings to remember after the brokers have refused a part of the plan.

    Refused settings are not remembered: if another client makes them later, they must outlive the KafkaUser.
    """
    own, there, values = SetForUser.of(user), observed.rules or frozenset(), observed.quotas or {}
    return SetForUser(
        plan.remembered.rules & (own.rules | there),
        tuple(key for key in plan.remembered.quotas if key in own.quotas or values.get(key) == plan.quotas.get(key)),
        plan.remembered.credential,
    )


def encode_rule(rule: AclRule) -> str:
    """Return the line of status.aclsSet for an ACL. The name is last, because it may contain blanks."""
    parts = (rule.permission, rule.operation, rule.resource_type, rule.pattern_type)
    return f"{' '.join(part.name for part in parts)} {_word(rule.host)} {_word(rule.principal)} {rule.name}"


def _word(text: str) -> str:
    """Return a text without blanks."""
    return text.replace("%", "%25").replace(" ", "%20")


def _text(word: str) -> str:
    return word.replace("%20", " ").replace("%25", "%")


def decode_rule(text: str) -> AclRule | None:
    """Return the ACL in a line of status.aclsSet; None if this version cannot read the line."""
    try:
        permission, operation, resource_type, pattern_type, host, principal_, name = text.split(" ", 6)
        return AclRule(
            AclResourceType[resource_type],
            name,
            AclPatternType[pattern_type],
            _text(principal_),
            _text(host),
            AclOperation[operation],
            AclPermission[permission],
        )
    except (KeyError, ValueError):
        return None


def judge_users(cluster: BrokerCluster | None, users: Sequence[KafkaUser]) -> dict[str, tuple[str, str]]:
    """Return reason and message by metadata.name of KafkaUsers that govern nothing."""
    if cluster is None:
        return {user.name: ("ClusterMissing", cluster_missing_words(user)) for user in users}
    found: dict[str, tuple[str, str]] = {}
    rulers: dict[str, str] = {}
    for user in sorted(users, key=seniority):
        ruler = rulers.setdefault(user.user_name, user.name)
        if ruler != user.name:
            message = f"user {user.user_name} already belongs to KafkaUser {ruler}; delete one of them"
            found[user.name] = ("Conflicted", message)
    return found


def unmanaged(user: KafkaUser, observed: ObservedUser) -> Collection[AclRule]:
    """Return ACLs of the user that other clients have set and that stay."""
    return (observed.rules or frozenset()) - wanted_rules(user) - SetForUser.of(user).rules
