"""CreateAcls (30), versions 1 to 3 (KIP-140, KIP-290), with one result for each ACL in the order of the request.

Brokers forward the request. Without an authorizer, every node answers SECURITY_DISABLED itself.
"""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from broker_runtime.apis.request.access import denied
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext, ControllerContext
from broker_runtime.apis.request.forwarding import active_only, forwarded
from broker_runtime.controller.clients.acls import AclLimits, create_acls
from broker_runtime.errors import ErrorCode, KafkaError, ProtocolError
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.security.acls.model import Acl
from broker_runtime.slicing.steps import Steps, each
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import CreateAclsRequest
from broker_runtime.wire.versions import CREATE_ACLS

NO_AUTHORIZER = KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


async def handle(request: CreateAclsRequest, call: Call, context: ControllerContext) -> Fields | Steps[Fields]:
    access = call.access
    if access is None:
        return _refused(request, NO_AUTHORIZER)
    if not access.cluster():
        return _refused(request, denied(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    acls = await call.completion.slices.finish(each(request.creations, _acl))
    config = context.settings.config
    limits = AclLimits(config.sluicegate_acls_max, config.sluicegate_acls_text_bytes_max)

    def decide(image: MetadataImage) -> Steps[tuple[Sequence[MetadataRecord], Sequence[Fields]]]:
        records, results = yield from create_acls(acls, image, uuid4, limits)
        return records, (yield from each(results, _result))

    try:
        return {"results": await context.controller.submit(decide)}
    except KafkaError as error:
        return _refused(request, error)


def _acl(creation: Any) -> Acl:
    """Return the ACL of one item. Raises ProtocolError if a number is 0, with which Kafka closes the connection."""
    acl = Acl(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )
    if 0 in (acl.resource, acl.pattern, acl.operation, acl.permission):
        raise ProtocolError("invalid-request", "CreateAcls contains an ACL with an UNKNOWN element")
    return acl


def _refused(request: CreateAclsRequest, error: KafkaError) -> Steps[Fields]:
    return {"results": (yield from each(request.creations, lambda _: _result(error)))}


def _result(error: KafkaError | None) -> Fields:
    return {
        "error_code": ErrorCode.NONE if error is None else error.code,
        "error_message": "" if error is None else error.message,
    }


def _before_forwarding(request: CreateAclsRequest, call: Call, context: BrokerContext) -> Steps[Fields | None]:
    """Check the request before it is forwarded. Returns the refusal if there is no authorizer, else None.

    Raises ProtocolError for an invalid ACL: here it ends the client's connection, at the controller it would end this
    broker's.
    """
    if call.access is None:
        return (yield from _refused(request, NO_AUTHORIZER))
    yield from each(request.creations, _acl)
    return None


ON_CONTROLLER = active_only(ApiSpec(CREATE_ACLS, "CreateAcls", (1, 3), handle))
API = forwarded(ON_CONTROLLER, _before_forwarding)
