"""DescribeAcls (29), versions 1 to 3 (KIP-140, KIP-290): every node answers from its metadata.

Without an authorizer the answer is SECURITY_DISABLED, as in Apache Kafka. Tools that copy or list ACLs, such as
MirrorMaker 2, know this code and treat it as an empty list.
"""

from collections.abc import Mapping

from broker_runtime.apis.acls.delete_acls import acl_filter
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, NodeContext
from broker_runtime.apis.request.forwarding import active_only
from broker_runtime.errors import ErrorCode
from broker_runtime.security.acls.model import Acl
from broker_runtime.slicing.steps import Steps, chosen, each, listed
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import DescribeAclsRequest
from broker_runtime.wire.versions import DESCRIBE_ACLS

_WHY = "No Authorizer is configured on the broker"


def handle(request: DescribeAclsRequest, call: Call, context: NodeContext) -> Fields | Steps[Fields]:
    if call.access is None:
        return {"error_code": ErrorCode.SECURITY_DISABLED, "error_message": _WHY, "resources": []}
    return _described(chosen(list(context.image.acls.values()), acl_filter(request).matches))


def _described(matching: Steps[list[Acl]]) -> Steps[Fields]:
    found: dict[tuple[int, str, int], list[Acl]] = {}
    for acl in (yield from matching):
        found.setdefault((acl.resource, acl.name, acl.pattern), []).append(acl)
        yield
    resources = []
    for (resource, name, pattern), acls in (yield from listed(found.items())):
        entries = yield from each(acls, _entry)
        resources.append({"resource_type": resource, "resource_name": name, "pattern_type": pattern, "acls": entries})
        yield
    return {"error_code": ErrorCode.NONE, "error_message": "", "resources": resources}


def _entry(acl: Acl) -> Mapping[str, object]:
    return {
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission,
    }


API = ApiSpec(DESCRIBE_ACLS, "DescribeAcls", (1, 3), handle)
ON_CONTROLLER = active_only(API)
