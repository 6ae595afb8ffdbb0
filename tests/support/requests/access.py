"""Authorizers for tests of handlers."""

from collections.abc import Callable
from uuid import UUID

from broker_runtime.apis.request.access import Authorization
from broker_runtime.apis.request.authorization.access_table import operations_of
from broker_runtime.apis.request.denials import Denials
from broker_runtime.metadata.areas.acls import AccessControlEntryRecord, Acls
from broker_runtime.metadata.changes import Changes
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.security.acls.authorizer import StandardAuthorizer
from broker_runtime.security.acls.model import (
    CLUSTER_NAME,
    Acl,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
)
from broker_runtime.security.principal import ANONYMOUS


def allow(
    resource: AclResource, operation: AclOperation, name: str = CLUSTER_NAME, pattern: AclPattern = AclPattern.LITERAL
) -> Acl:
    return Acl(resource, name, pattern, str(ANONYMOUS), "*", operation, AclPermission.ALLOW)


def authorization_of(*acls: Acl) -> Authorization:
    """An authorizer with just these ACLs."""
    area = Acls()
    for number, acl in enumerate(acls):
        area.apply(AccessControlEntryRecord(UUID(int=number), *acl), None, Changes())
    return Authorization(StandardAuthorizer(lambda: area.index), Denials(lambda: 0.0), operations_of)


def authorization_by(image: Callable[[], MetadataImage], super_users: frozenset[str] = frozenset()) -> Authorization:
    """An authorizer with the ACLs of the metadata."""
    return Authorization(
        StandardAuthorizer(lambda: image().acls.index, super_users), Denials(lambda: 0.0), operations_of
    )
