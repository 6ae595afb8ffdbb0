"""One ACL as brokers store it, with Kafka's codes. Pure."""

from dataclasses import dataclass
from enum import IntEnum


class AclResourceType(IntEnum):
    """The kinds of Kafka resources that an ACL is about."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclPatternType(IntEnum):
    """The way in which an ACL's name is compared: equal to the resource's name, or its beginning."""

    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """The operations that an ACL allows or denies."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(IntEnum):
    """The effect of an ACL. A denial wins over any permission."""

    DENY = 2
    ALLOW = 3


@dataclass(frozen=True, slots=True, order=True)
class AclRule:
    """One access control list. `principal` is type:name, `host` an address or `*`."""

    resource_type: AclResourceType
    name: str
    pattern_type: AclPatternType
    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission

    def __str__(self) -> str:
        """Return words for users: permission, operation, resource, and host unless it is any."""
        pattern = "*" if self.pattern_type is AclPatternType.PREFIXED else ""
        where = "" if self.host == "*" else f" from {self.host}"
        resource = self.resource_type.name.lower()
        return f"{self.permission.name.lower()} {self.operation.name} on {resource} {self.name}{pattern}{where}"
