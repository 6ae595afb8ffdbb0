"""DescribeAcls (29), versions 1 to 3: this broker has no authorizer.

The answer is SECURITY_DISABLED, as in Apache Kafka without an authorizer. Tools that copy or list ACLs, such as
MirrorMaker 2, know this code and treat it as an empty list.
"""

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, NodeContext
from broker_runtime.errors import ErrorCode
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import DescribeAclsRequest
from broker_runtime.wire.versions import DESCRIBE_ACLS

_WHY = "No Authorizer is configured on the broker"


def handle(request: DescribeAclsRequest, call: Call, context: NodeContext) -> Fields:
    return {"error_code": ErrorCode.SECURITY_DISABLED, "error_message": _WHY, "resources": []}


API = ApiSpec(DESCRIBE_ACLS, "DescribeAcls", (1, 3), handle)
