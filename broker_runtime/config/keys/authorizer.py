"""The keys of the authorizer, under Kafka's names. Pure."""

from broker_runtime.config.declaring.allowed import at_least, between
from broker_runtime.config.declaring.declaration import Config, static
from broker_runtime.config.declaring.definition import Key, Type, Value

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ANONYMOUS = "User:ANONYMOUS"
"""The principal of clients and brokers without authentication."""


def _class_problem(value: Value) -> str | None:
    if value in ("", STANDARD_AUTHORIZER):
        return None
    return (
        f"must be empty, for no authorizer, or {STANDARD_AUTHORIZER}; this broker implements that one itself and "
        "cannot run other classes"
    )


def principals(value: Value) -> frozenset[str]:
    """Return the principals of a list that is separated by semicolons, because names may contain commas."""
    return frozenset(text for item in str(value).split(";") if (text := item.strip()))


def _principals_problem(value: Value) -> str | None:
    wrong = sorted(text for text in principals(value) if not all(text.partition(":")))
    if wrong:
        return f"must have principals such as User:alice, separated by semicolons; {wrong[0]} is not one"
    return None


class AuthorizerConfig(Config):
    """Configuration keys of the authorizer, which checks access control lists."""

    authorizer_class_name: Key[str] = static(
        "authorizer.class.name",
        Type.STRING,
        "",
        f"{STANDARD_AUTHORIZER} to check each request against the cluster's ACLs; empty allows everything and has no "
        "ACLs. Give all nodes of a cluster the same value.",
        _class_problem,
    )
    super_users: Key[str] = static(
        "super.users",
        Type.STRING,
        "",
        "Principals that may do everything, such as User:alice;User:CN=broker,O=example, separated by semicolons. The "
        "brokers' own principal must be one of them; without authentication it is User:ANONYMOUS.",
        _principals_problem,
    )
    allow_everyone_if_no_acl_found: Key[bool] = static(
        "allow.everyone.if.no.acl.found",
        Type.BOOLEAN,
        False,
        "Whether every client may use a resource that no ACL names.",
    )
    sluicegate_acls_max: Key[int] = static(
        "sluicegate.acls.max",
        Type.INT,
        100_000,
        "ACLs of the cluster; CreateAcls refuses more with POLICY_VIOLATION.",
        between(1, 1_000_000),
    )
    sluicegate_acls_text_bytes_max: Key[int] = static(
        "sluicegate.acls.text.bytes.max",
        Type.INT,
        50_000_000,
        "Bytes of the names, principals and hosts of all ACLs; CreateAcls refuses more with POLICY_VIOLATION. Each "
        "node has them in memory.",
        at_least(1_000),
    )
    sluicegate_acls_decisions_max: Key[int] = static(
        "sluicegate.acls.decisions.max",
        Type.INT,
        10_000,
        "Decisions about clients and resources that a node keeps until an ACL changes. About 300 bytes each.",
        at_least(1),
    )
