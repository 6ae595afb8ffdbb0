"""The brokers' side of APIs that only the active controller can serve: requests and answers are forwarded unchanged.

The broker parses a request first, because an invalid one must not reach the link that all its clients share. The
request travels in an envelope with the client's identity (KIP-590), also from a broker without an authorizer: the
controller may have one, and must not take the client for the broker. The throttle time of the answer is the longer one
of the broker and of the controller.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

from broker_runtime.apis.request.call import Call, ForwardedClient
from broker_runtime.apis.request.context import (
    ApiSpec,
    BrokerContext,
    ControllerContext,
    ControllerRequests,
    ReadRequest,
)
from broker_runtime.errors import ProtocolError
from broker_runtime.slicing.steps import Steps
from broker_runtime.wire.messages import Fields, throttle_ms_of, with_throttle_time
from broker_runtime.wire.reply import Parts, Reply

ENVELOPED = "broker_runtime.apis.request.enveloped"
"""The module `enveloped`, imported with the first forwarded request."""

Instead = Callable[[Any, Call, BrokerContext], Steps[Awaitable[Fields] | Fields | None]]
"""A function that returns the broker's own answer to a request; None if the request is to be forwarded."""


def forwarded(api: ApiSpec[ControllerContext], instead: Instead | None = None) -> ApiSpec[BrokerContext]:
    """Return the broker's version of the controller's `api`: it forwards requests to the active controller."""

    def handle(read: ReadRequest, call: Call, context: BrokerContext) -> Steps[Awaitable[Fields | Reply] | Fields]:
        request, body = read
        if instead is not None and (answer := (yield from instead(request, call, context))) is not None:
            return answer
        link = context.slow_controller if (yield from api.slow(request)) else context.controller
        return _forward(memoryview(body), call, link)

    return ApiSpec(api.key, api.name, api.versions, handle, reads="entity and body")


async def to_controller(body: memoryview, call: Call, link: ControllerRequests) -> Parts:
    """Send a request of the call's API and version to the controller, and return the body of its answer.

    With an authorizer, the request is never sent without its client. Raises KafkaError.
    """
    client = client_of(call)
    forward = import_module(ENVELOPED).forward_in_envelope
    answer: Parts = await forward(call.api.key, call.version, body, client, link, is_required=call.access is not None)
    return answer


async def _forward(body: memoryview, call: Call, link: ControllerRequests) -> Reply:
    answer = await to_controller(body, call, link)
    throttle_ms = throttle_ms_of(call.api.key, call.version, answer[0]) if answer else 0
    if throttle_ms > call.throttle_ms:
        call.throttle(throttle_ms)
        return call.packed_of(answer)
    return call.packed_of(with_throttle_time(call.api.key, call.version, call.throttle_ms, answer))


def client_of(call: Call) -> ForwardedClient:
    """Return the client of a call, for the controller."""
    connection = call.connection
    return ForwardedClient(connection.principal, call.client_id, connection.peer[0])


def active_only(api: ApiSpec[ControllerContext]) -> ApiSpec[ControllerContext]:
    """Return the controller's version of `api`, which only the active controller answers.

    If its answers cannot report that this controller is on standby, the connection is closed, so that the client tries
    the next controller at once.
    """
    if api.on_standby:
        return api

    def handle(request: Any, call: Call, context: ControllerContext) -> Any:
        if not context.controller.active:
            raise ProtocolError("not-controller", "this controller is not the active one; try the next one")
        return api.handle(request, call, context)

    return replace(api, handle=handle)
