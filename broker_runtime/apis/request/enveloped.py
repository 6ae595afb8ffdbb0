"""Forwards a client's request to the controller in an envelope, with the client's identity (KIP-590)."""

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ControllerRequests
from broker_runtime.errors import KafkaError
from broker_runtime.wire.envelope import VERSION, Envelope, client_frame, pack_envelope, read_enveloped
from broker_runtime.wire.versions import ENVELOPE


async def forward_in_envelope(body: memoryview, call: Call, link: ControllerRequests) -> memoryview:
    """Return the body of the controller's answer. Raises KafkaError."""
    api_key, version, connection = call.api.key, call.version, call.connection
    frame = client_frame(api_key, version, call.client_id, body)
    packed = pack_envelope(Envelope(frame, connection.principal, connection.peer[0]))
    response = await link.forward(ENVELOPE, VERSION, memoryview(packed))
    answer, code = read_enveloped(response, api_key, version)
    if answer is None:
        raise KafkaError(
            code,
            f"the controller refused a {call.api.name} request of {connection.principal} from this broker; the brokers'"
            " principal must be in super.users of the controllers, or have CLUSTER_ACTION on the cluster",
        )
    return answer
