"""DescribeCluster (60), versions 0 to 2 (KIP-700, KIP-919 endpoint types, KIP-1073 fenced brokers).

Brokers' listeners describe brokers, and the controller's listeners describe controllers. A request for the other kind
gets MISMATCHED_ENDPOINT_TYPE. If a request asks for authorized operations, a node without an authorizer returns all.
With an authorizer, a controller answers only clients that may alter the cluster.
"""

from typing import Any

from broker_runtime.apis.request.access import WHY
from broker_runtime.apis.request.authorization.authorized_operations import NOT_ASKED, ON_CLUSTER
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, NodeContext
from broker_runtime.errors import ErrorCode
from broker_runtime.security.acls.model import CLUSTER_NAME, AclOperation, AclResource
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import DescribeClusterRequest
from broker_runtime.wire.versions import DESCRIBE_CLUSTER

_BROKERS, _CONTROLLERS = 1, 2
_KINDS = {_BROKERS: "BROKER", _CONTROLLERS: "CONTROLLER"}


def handle(request: DescribeClusterRequest, call: Call, context: NodeContext) -> Fields:
    asked = request.endpoint_type if call.version >= 1 else _BROKERS
    mine = _CONTROLLERS if call.listener in context.settings.controller_listeners else _BROKERS
    if asked not in _KINDS:
        return _refused(context, mine, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {asked}")
    if asked != mine:
        return _refused(
            context,
            mine,
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            f"The request was sent to an endpoint of type {_KINDS[mine]}, but we wanted an endpoint of type "
            f"{_KINDS[asked]}",
        )
    operations = ON_CLUSTER if request.include_cluster_authorized_operations else NOT_ASKED
    access = call.access
    if access is not None:
        if mine == _CONTROLLERS and not access.cluster(AclOperation.ALTER):
            code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            return _refused(context, mine, code, WHY[code])
        if operations != NOT_ASKED:
            may_describe = access.cluster(AclOperation.DESCRIBE, hides=True)
            operations = access.operations(AclResource.CLUSTER, CLUSTER_NAME, ON_CLUSTER) if may_describe else 0
    if mine == _CONTROLLERS:
        found = _controllers(call, context)
        return _answer(context, mine, context.image.cluster.controller_id, found, operations)
    brokers = _brokers(call, context, call.version >= 2 and request.include_fenced_brokers)
    controller_id = min((broker["broker_id"] for broker in brokers if not broker["is_fenced"]), default=-1)
    return _answer(context, mine, controller_id, brokers, operations)


def _brokers(call: Call, context: NodeContext, with_fenced: bool) -> list[dict[str, Any]]:
    return [
        {
            "broker_id": broker.id,
            "host": endpoint.host,
            "port": endpoint.port,
            "rack": broker.rack,
            "is_fenced": broker.fenced,
        }
        for _, broker in sorted(context.image.brokers.items())
        if (with_fenced or not broker.fenced) and (endpoint := broker.endpoint(call.listener)) is not None
    ]


def _controllers(call: Call, context: NodeContext) -> list[dict[str, Any]]:
    return [
        {
            "broker_id": context.settings.node_id,
            "host": endpoint.host,
            "port": endpoint.port,
            "rack": None,
            "is_fenced": False,
        }
        for endpoint in context.settings.listeners
        if endpoint.listener == call.listener
    ]


def _answer(
    context: NodeContext, kind: int, controller_id: int, brokers: list[dict[str, Any]], operations: int
) -> Fields:
    return {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "endpoint_type": kind,
        "cluster_id": context.cluster_id,
        "controller_id": controller_id,
        "brokers": brokers,
        "cluster_authorized_operations": operations,
    }


def _refused(context: NodeContext, kind: int, code: ErrorCode, message: str) -> Fields:
    return {**_answer(context, kind, -1, [], NOT_ASKED), "error_code": code, "error_message": message}


API = ApiSpec(key=DESCRIBE_CLUSTER, name="DescribeCluster", versions=(0, 2), handle=handle, on_standby=True)
