"""Access control lists as clients and the metadata name them (KIP-11, KIP-290). Pure.

The numbers are the protocol's. A number that is not listed here is treated like UNKNOWN.
"""

from enum import IntEnum
from typing import NamedTuple


class AclResource(IntEnum):
    """The types of resources in ACLs."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclPattern(IntEnum):
    """The pattern type of an ACL: how its name covers the names of resources. ANY and MATCH are for filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """The operations in ACLs. Bit n of a set of operations stands for the operation with number n (KIP-430)."""

    UNKNOWN = 0
    ANY = 1
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
    """The permission of an ACL: to allow or to deny. ANY is for filters only."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


CLUSTER_NAME = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""
WILDCARD = "*"
"""The wildcard. As a literal name it means every resource of the type, and as a host every host."""
EVERYONE = "User:*"
"""The principal of an ACL that applies to every client."""


class Acl(NamedTuple):
    """One access control list, identified by all its fields.

    `principal` is like User:alice, `host` an address or `*`.
    """

    resource: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int

    @property
    def text_bytes(self) -> int:
        """Return the number of bytes of the ACL's texts."""
        return len(self.name.encode()) + len(self.principal.encode()) + len(self.host.encode())


class AclFilter(NamedTuple):
    """A filter of DescribeAcls and DeleteAcls. A text of None matches every text, and ANY every number."""

    resource: int
    name: str | None
    pattern: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    @property
    def is_unknown(self) -> bool:
        """Return whether the resource type, pattern type, operation or permission is UNKNOWN (0)."""
        return 0 in (self.resource, self.pattern, self.operation, self.permission)

    @property
    def is_exact(self) -> bool:
        """Return whether the filter has the identity of one ACL, so that it matches this one at most."""
        return None not in self and self.pattern != AclPattern.MATCH and AclOperation.ANY not in self

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource in (AclResource.ANY, acl.resource)
            and self._matches_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (AclPermission.ANY, acl.permission)
        )

    def _matches_name(self, acl: Acl) -> bool:
        if self.pattern not in (AclPattern.ANY, AclPattern.MATCH, acl.pattern):
            return False
        if self.name is None:
            return True
        if self.pattern != AclPattern.MATCH:
            return self.name == acl.name
        if acl.pattern == AclPattern.PREFIXED:
            return self.name.startswith(acl.name)
        return acl.name in (self.name, WILDCARD)
