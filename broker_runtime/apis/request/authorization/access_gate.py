"""Refuses whole requests of clients that may not make them, before their handler (`access_table.GATE`)."""

from broker_runtime.apis.request.access import WHY
from broker_runtime.apis.request.authorization.access_table import GATE, code_of
from broker_runtime.apis.request.call import Call
from broker_runtime.errors import ProtocolError
from broker_runtime.security.acls.model import AclResource
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.messages import with_throttle_time
from broker_runtime.wire.refusal import refusal
from broker_runtime.wire.reply import Reply

FORWARDED = "entity and body"


def access_gate(call: Call) -> Reply | None:
    """Return the refusal of a request, or None. The controller checks forwarded requests.

    Raises ProtocolError if no answer of the API can carry the error.
    """
    check = GATE.get(call.api.key)
    access = call.access
    if check is None or access is None or getattr(call.api, "reads", None) == FORWARDED:
        return None
    if check.resource == AclResource.CLUSTER:
        allowed = access.cluster(check.operation)
    else:
        allowed = access.group(_group_id(call.request), check.operation)
    if allowed:
        return None
    code = code_of(call.api.key, check.resource)
    body = refusal(call.api.key, call.version, code, WHY[code])
    if body is None:
        raise ProtocolError("not-authorized", f"{call.api.name}: {WHY[code]}")
    call.error = code
    return call.packed_of(with_throttle_time(call.api.key, call.version, call.throttle_ms, (body,)))


def _group_id(request: object) -> str:
    """Return the group id, which is the first field of all these requests. Restores a reader's position."""
    assert isinstance(request, RequestReader)
    place, counts = request.position, request.counts
    group_id = request.string()
    request.go_back(place, counts)
    return group_id
