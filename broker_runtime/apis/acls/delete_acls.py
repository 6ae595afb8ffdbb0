"""DeleteAcls (31), versions 1 to 3: this broker has no authorizer, and answers SECURITY_DISABLED for each filter."""

from broker_runtime.apis.acls.create_acls import refused
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, NodeContext
from broker_runtime.wire.reader import RequestReader
from broker_runtime.wire.reply import Reply
from broker_runtime.wire.versions import DELETE_ACLS
from broker_runtime.wire.writer import array_length


def handle(reader: RequestReader, call: Call, context: NodeContext) -> Reply:
    return refused(reader, call, array_length(0, call.flexible))


API = ApiSpec(DELETE_ACLS, "DeleteAcls", (1, 3), handle, reads="frame")
