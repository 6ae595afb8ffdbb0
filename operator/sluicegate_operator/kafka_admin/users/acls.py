"""DescribeAcls, CreateAcls and DeleteAcls (KIP-140, KIP-290): the rules of one principal."""

from collections.abc import Collection

from kio.schema.create_acls.v2.request import AclCreation, CreateAclsRequest
from kio.schema.create_acls.v2.response import CreateAclsResponse
from kio.schema.delete_acls.v2.request import DeleteAclsFilter, DeleteAclsRequest
from kio.schema.delete_acls.v2.response import DeleteAclsResponse
from kio.schema.describe_acls.v2.request import DescribeAclsRequest
from kio.schema.describe_acls.v2.response import DescribeAclsResponse
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8

from sluicegate_operator.kafka_admin.connecting.exchange import Exchange
from sluicegate_operator.kafka_admin.errors import KafkaAdminError, KafkaApiError, check
from sluicegate_operator.planning.users.acl_rules import (
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
    AclRule,
)

_ANY = i8(1)
ACLS_A_REQUEST = 200
"""Maximum number of ACLs that one request creates or deletes."""


def describe(principal: str | None) -> Exchange[DescribeAclsResponse, frozenset[AclRule]]:
    """Return the request that describes the ACLs of a principal; None for all principals.

    ACLs with codes that are newer than this client are left out.
    """
    request = DescribeAclsRequest(
        resource_type_filter=_ANY,
        resource_name_filter=None,
        pattern_type_filter=_ANY,
        principal_filter=principal,
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )

    def read(reply: DescribeAclsResponse) -> frozenset[AclRule]:
        check(reply.error_code, reply.error_message, f"describing the ACLs of {principal or 'all principals'}")
        found = set()
        for resource in reply.resources:
            for acl in resource.acls:
                codes = (resource.resource_type, resource.pattern_type, acl.operation, acl.permission_type)
                if principal in (None, acl.principal) and (
                    rule := _rule(resource.resource_name, acl.principal, acl.host, codes)
                ):
                    found.add(rule)
        return frozenset(found)

    return Exchange(request, DescribeAclsResponse, read)


def _rule(name: str, principal: str, host: str, codes: tuple[int, int, int, int]) -> AclRule | None:
    resource_type, pattern_type, operation, permission = codes
    try:
        return AclRule(
            AclResourceType(resource_type),
            name,
            AclPatternType(pattern_type),
            principal,
            host,
            AclOperation(operation),
            AclPermission(permission),
        )
    except ValueError:
        return None


def create(rules: Collection[AclRule]) -> Exchange[CreateAclsResponse, dict[AclRule, KafkaApiError]]:
    """Return the request that creates ACLs. Its result has the errors of refused ones.

    An ACL that exists is not an error.
    """
    asked = tuple(rules)
    creations = tuple(
        AclCreation(
            resource_type=i8(rule.resource_type),
            resource_name=rule.name,
            resource_pattern_type=i8(rule.pattern_type),
            principal=rule.principal,
            host=rule.host,
            operation=i8(rule.operation),
            permission_type=i8(rule.permission),
        )
        for rule in asked
    )

    def read(reply: CreateAclsResponse) -> dict[AclRule, KafkaApiError]:
        outcomes = [(result.error_code, result.error_message) for result in reply.results]
        return _refused(asked, outcomes, "creating")

    return Exchange(CreateAclsRequest(creations=creations), CreateAclsResponse, read)


def delete(rules: Collection[AclRule]) -> Exchange[DeleteAclsResponse, dict[AclRule, KafkaApiError]]:
    """Return the request that deletes exactly these ACLs. Its result has the errors of refused ones.

    An ACL that does not exist is not an error.
    """
    asked = tuple(rules)
    filters = tuple(
        DeleteAclsFilter(
            resource_type_filter=i8(rule.resource_type),
            resource_name_filter=rule.name,
            pattern_type_filter=i8(rule.pattern_type),
            principal_filter=rule.principal,
            host_filter=rule.host,
            operation=i8(rule.operation),
            permission_type=i8(rule.permission),
        )
        for rule in asked
    )

    def read(reply: DeleteAclsResponse) -> dict[AclRule, KafkaApiError]:
        outcomes = [(result.error_code, result.error_message) for result in reply.filter_results]
        return _refused(asked, outcomes, "deleting")

    return Exchange(DeleteAclsRequest(filters=filters), DeleteAclsResponse, read)


def _refused(
    asked: tuple[AclRule, ...], outcomes: list[tuple[ErrorCode, str | None]], what: str
) -> dict[AclRule, KafkaApiError]:
    if len(outcomes) != len(asked):
        raise KafkaAdminError(f"{what} {len(asked)} ACLs: the broker sent {len(outcomes)} results")
    return {
        rule: KafkaApiError(int(code), message, f"{what} the ACL {rule}")
        for rule, (code, message) in zip(asked, outcomes, strict=True)
        if code is not ErrorCode.none
    }
