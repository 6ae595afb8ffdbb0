"""DeleteAcls (31), versions 1 to 3 (KIP-140, KIP-290), with one result for each filter in the order of the request.

Brokers forward the request. Without an authorizer, every node answers SECURITY_DISABLED itself.
"""

from collections.abc import Sequence
from typing import Any

from broker_runtime.apis.acls.create_acls import NO_AUTHORIZER
from broker_runtime.apis.request.access import denied
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext, ControllerContext
from broker_runtime.apis.request.forwarding import active_only, forwarded
from broker_runtime.controller.clients.acls import delete_acls
from broker_runtime.errors import ErrorCode, KafkaError, ProtocolError
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.security.acls.model import Acl, AclFilter
from broker_runtime.slicing.steps import Steps, each
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import DeleteAclsRequest
from broker_runtime.wire.versions import DELETE_ACLS


async def handle(request: DeleteAclsRequest, call: Call, context: ControllerContext) -> Fields | Steps[Fields]:
    access = call.access
    if access is None:
        return _refused(request, NO_AUTHORIZER)
    if not access.cluster():
        return _refused(request, denied(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    filters = await call.completion.slices.finish(each(request.filters, acl_filter))

    def decide(image: MetadataImage) -> Steps[tuple[Sequence[MetadataRecord], Sequence[Sequence[Acl]]]]:
        return (yield from delete_acls(filters, image))

    try:
        return _deleted(await context.controller.submit(decide))
    except KafkaError as error:
        return _refused(request, error)


def acl_filter(item: Any) -> AclFilter:
    """Return the filter of a DescribeAcls request, or of an item of DeleteAcls.

    Raises ProtocolError if a number is 0, with which Kafka closes the connection.
    """
    found = AclFilter(
        item.resource_type_filter,
        item.resource_name_filter,
        item.pattern_type_filter,
        item.principal_filter,
        item.host_filter,
        item.operation,
        item.permission_type,
    )
    if found.is_unknown:
        raise ProtocolError("invalid-request", "a filter of ACLs has an UNKNOWN element")
    return found


def _deleted(results: Sequence[Sequence[Acl]]) -> Steps[Fields]:
    answers = []
    for found in results:
        matching = yield from each(found, _match)
        answers.append({"error_code": ErrorCode.NONE, "error_message": None, "matching_acls": matching})
        yield
    return {"filter_results": answers}


def _match(acl: Acl) -> Fields:
    return {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "resource_type": acl.resource,
        "resource_name": acl.name,
        "pattern_type": acl.pattern,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission,
    }


def _refused(request: DeleteAclsRequest, error: KafkaError) -> Steps[Fields]:
    answer: Fields = {"error_code": error.code, "error_message": error.message, "matching_acls": []}
    return {"filter_results": (yield from each(request.filters, lambda _: answer))}


def _before_forwarding(request: DeleteAclsRequest, call: Call, context: BrokerContext) -> Steps[Fields | None]:
    """Answer without an authorizer. Raises ProtocolError as `acl_filter`: it must not end the broker's link."""
    if call.access is None:
        return (yield from _refused(request, NO_AUTHORIZER))
    yield from each(request.filters, acl_filter)
    return None


ON_CONTROLLER = active_only(ApiSpec(DELETE_ACLS, "DeleteAcls", (1, 3), handle))
API = forwarded(ON_CONTROLLER, _before_forwarding)
