"""The brokers' side of APIs that only the active controller can serve: requests and answers are forwarded unchanged.

With an authorizer, the request is sent in an envelope, and the controller authorizes the client (`envelope`).

The broker parses a request first, because an invalid one must not reach the link that all its clients share.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import (
    ApiSpec,
    BrokerContext,
    ControllerContext,
    ControllerRequests,
    ReadRequest,
)
from broker_runtime.errors import ProtocolError
from broker_runtime.slicing.steps import Steps
from broker_runtime.wire.header import prefix
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.reply import Reply

Instead = Callable[[Any, Call, BrokerContext], Steps[Awaitable[Fields] | Fields | None]]
"""The broker's own answer to a request. None if the request is forwarded."""


def forwarded(api: ApiSpec[ControllerContext], instead: Instead | None = None) -> ApiSpec[BrokerContext]:
    """Return the broker's version of `api`."""

    def handle(read: ReadRequest, call: Call, context: BrokerContext) -> Steps[Awaitable[Fields | Reply] | Fields]:
        request, body = read
        if instead is not None and (answer := (yield from instead(request, call, context))) is not None:
            return answer
        link = context.slow_controller if (yield from api.slow(request)) else context.controller
        return _forward(memoryview(body), call, link)

    return ApiSpec(api.key, api.name, api.versions, handle, reads="entity and body")


async def _forward(body: memoryview, call: Call, link: ControllerRequests) -> Reply:
    answer = await exchange(call, link, body)
    return prefix(call.correlation_id, len(answer), call.flexible), answer


async def exchange(call: Call, link: ControllerRequests, body: memoryview) -> memoryview:
    """Send a request of the call's API to the controller, and return the response body.

    With an authorizer, the request is in an envelope. Raises KafkaError.
    """
    if call.access is None:
        return await link.forward(call.api.key, call.version, body)
    answer: memoryview = await import_module("broker_runtime.apis.request.envelope").exchange(call, link, body)
    return answer


def active_only(api: ApiSpec[ControllerContext]) -> ApiSpec[ControllerContext]:
    """Return the controller's version of `api`.

    If its answers cannot report that this controller is on standby, the connection is closed, so that the client
    tries the next controller at once.
    """
    if api.on_standby:
        return api

    def handle(request: Any, call: Call, context: ControllerContext) -> Any:
        if not context.controller.active:
            raise ProtocolError("not-controller", "this controller is not the active one; try the next one")
        return api.handle(request, call, context)

    return replace(api, handle=handle)
