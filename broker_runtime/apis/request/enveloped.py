"""Forwards a client's request to the controller in an envelope, with the client's identity (KIP-590).

During an upgrade, the active controller may be older and not know envelopes. It charges no client then, so the request
is forwarded without an envelope, but not if this broker has an authorizer: an older controller authorizes nobody.
ApiVersions tells which controller it is: one more round trip.
"""

from broker_runtime.apis.request.call import ForwardedClient
from broker_runtime.apis.request.context import ControllerRequests
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.wire.envelope import VERSION, Envelope, client_frame, pack_envelope, read_enveloped
from broker_runtime.wire.messages import Entity, Fields, decode_response, encode_request_body
from broker_runtime.wire.reply import Parts, joined
from broker_runtime.wire.versions import API_VERSIONS, ENVELOPE


async def forward_in_envelope(
    api_key: int,
    version: int,
    body: memoryview,
    client: ForwardedClient,
    link: ControllerRequests,
    *,
    is_required: bool = False,
) -> Parts:
    """Send a client's request in an envelope, and return the body of the controller's answer.

    Raises KafkaError, also if the controller does not know envelopes and `is_required` is set.
    """
    known = decode_response(API_VERSIONS, 0, joined(await link.forward(API_VERSIONS, 0, memoryview(b""))))
    if all(api.api_key != ENVELOPE for api in known.api_keys):
        if is_required:
            why = "the controller is of a release without authorization; update it before the brokers get an authorizer"
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, why)
        return await link.forward(api_key, version, body)
    frame = client_frame(api_key, version, client.client_id, body)
    packed = pack_envelope(Envelope(memoryview(frame), client.principal, client.address))
    response = await link.forward(ENVELOPE, VERSION, memoryview(packed))
    answer, code = read_enveloped(response, api_key, version)
    if answer is None:
        raise KafkaError(
            code,
            f"the controller refused a request of {client.principal} (API key {api_key}) from this broker; the brokers'"
            " principal must be in super.users of the controllers, or have CLUSTER_ACTION on the cluster",
        )
    return answer


async def request_in_envelope(
    api_key: int, version: int, content: Fields, client: ForwardedClient, link: ControllerRequests
) -> Entity:
    """Send a request of the broker in the name of a client, and return the answer. Raises KafkaError."""
    body = memoryview(encode_request_body(api_key, version, content))
    return decode_response(api_key, version, joined(await forward_in_envelope(api_key, version, body, client, link)))
