"""A slow authorizer: it checks every ACL for every question, as KIP-11 and KIP-290 describe the decision."""

from collections.abc import Collection, Iterable

from broker_runtime.security.acls.model import Acl, AclOperation, AclPattern, AclPermission

_DESCRIBING = {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}


def is_allowed(
    acls: Collection[Acl],
    principal: str,
    host: str,
    operation: AclOperation,
    resource: int,
    name: str,
    *,
    allow_everyone: bool = False,
    super_users: Collection[str] = (),
) -> bool:
    if principal in super_users:
        return True
    naming = [acl for acl in acls if acl.resource == resource and _covers(acl, name)]
    if not naming:
        return allow_everyone
    applying = [acl for acl in naming if acl.principal in (principal, "User:*") and acl.host in (host, "*")]
    denies = [acl for acl in applying if acl.permission == AclPermission.DENY]
    allows = [acl for acl in applying if acl.permission == AclPermission.ALLOW]
    if any(acl.operation in (operation, AclOperation.ALL) for acl in denies):
        return False
    return any(acl.operation in _granting(operation) for acl in allows)


def is_any_allowed(acls: Collection[Acl], principal: str, host: str, operation: int, resource: int) -> bool:
    """Whether some name exists on which the operation, which nothing implies, is allowed and not denied."""
    mine = [
        acl
        for acl in acls
        if acl.resource == resource
        and acl.principal in (principal, "User:*")
        and acl.host in (host, "*")
        and acl.operation in (operation, AclOperation.ALL)
    ]
    denies = [acl for acl in mine if acl.permission == AclPermission.DENY]
    allows = [acl for acl in mine if acl.permission == AclPermission.ALLOW]
    return any(not _dominated(acl, denies) for acl in allows)


def _dominated(allow: Acl, denies: Iterable[Acl]) -> bool:
    for deny in denies:
        if deny.pattern == AclPattern.LITERAL:
            if deny.name == "*" or (allow.pattern == AclPattern.LITERAL and deny.name == allow.name):
                return True
        elif allow.name.startswith(deny.name) and not (allow.pattern == AclPattern.LITERAL and allow.name == "*"):
            return True
    return False


def _covers(acl: Acl, name: str) -> bool:
    if acl.pattern == AclPattern.PREFIXED:
        return name.startswith(acl.name)
    return acl.name in (name, "*")


def _granting(operation: AclOperation) -> set[AclOperation]:
    granting = {operation, AclOperation.ALL}
    if operation == AclOperation.DESCRIBE:
        granting |= _DESCRIBING
    if operation == AclOperation.DESCRIBE_CONFIGS:
        granting.add(AclOperation.ALTER_CONFIGS)
    return granting
