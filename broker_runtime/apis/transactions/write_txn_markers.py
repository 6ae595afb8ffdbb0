"""WriteTxnMarkers (27), versions 1 and 2 (KIP-98, KIP-1228): the ends of transactions, in partitions led here.

Coordinators send it; administrators send it to end a transaction that hangs (KIP-664). The answer comes when all
markers are on all in-sync replicas, or cannot be.
"""

from collections.abc import Awaitable

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.errors import ErrorCode
from broker_runtime.security.acls.model import AclOperation
from broker_runtime.slicing.steps import Steps
from broker_runtime.transactions.markers.requests import PartitionsOfMarker, answer_of, markers_in
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import WriteTxnMarkersRequest
from broker_runtime.wire.versions import WRITE_TXN_MARKERS


def handle(
    request: WriteTxnMarkersRequest, call: Call, context: BrokerContext
) -> Steps[Fields | Awaitable[Steps[Fields]]]:
    markers = yield from markers_in(request, call.version)
    access = call.access
    if access is not None and not (
        access.cluster(AclOperation.CLUSTER_ACTION, hides=True) or access.cluster(AclOperation.ALTER)
    ):
        call.error = denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return (yield from answer_of(markers, [dict.fromkeys(places, denied) for _, places in markers]))
    return _written(markers, context)


async def _written(markers: list[PartitionsOfMarker], context: BrokerContext) -> Steps[Fields]:
    return answer_of(markers, await context.local_markers.write(markers))


API = ApiSpec(key=WRITE_TXN_MARKERS, name="WriteTxnMarkers", versions=(1, 2), handle=handle)
