"""Routes of a process's HTTP listener beside /metrics and /readyz. Shell.

docs/reference/connection-groups.md documents the responses about quotas.
"""

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TYPE_CHECKING

from broker_runtime.cluster.membership import Membership
from broker_runtime.config.declaring.addresses import canonical_address
from broker_runtime.controller.overview import not_active, overview, view_version
from broker_runtime.http_listener import (
    WAIT_MAX_S,
    HttpAnswer,
    HttpRequest,
    LongPolls,
    Route,
    json_answer,
    text_answer,
    wanted_wait_s,
)
from broker_runtime.node.node_parts import NodeParts

if TYPE_CHECKING:
    from broker_runtime.network.quotas.limits_held import LimitsHeld
    from broker_runtime.network.quotas.why_held import WhyHeld
    from connection_limits.cluster_rates import ClusterRates

LIMITS_HELD = "broker_runtime.network.quotas.limits_held"
WHY_HELD = "broker_runtime.network.quotas.why_held"
"""The module `why_held`, imported with the first request for it."""


class HttpRoutes:
    """The answers to requests about the brokers and the quotas, and about a controlled shutdown.

    `leave` begins the shutdown, and returns whether the controller has released this broker.
    """

    def __init__(self, parts: NodeParts, leave: Callable[[Membership], Awaitable[bool]]) -> None:
        self._parts = parts
        self._leave = leave
        self._views_waited_for = LongPolls()

    def by_path(self) -> dict[tuple[str, str], Route]:
        """Return the routes that the roles of this process have, by method and path."""
        routes: dict[tuple[str, str], Route] = {("GET", "/tls"): self._show_tls}
        if self._parts.settings.is_controller:
            routes["GET", "/brokers"] = self._show_brokers
        if self._parts.settings.is_broker:
            routes["POST", "/controlled-shutdown"] = self._leave_by_request
            routes["GET", "/connection-quotas"] = self._show_quotas
            routes["GET", "/connection-limits"] = self._show_limits
        return routes

    async def _show_brokers(self, request: HttpRequest) -> HttpAnswer:
        """Show the brokers. With `after`, a version of the view, wait for a newer one, at most `wait` seconds."""
        clock, controller = self._parts.clock, self._parts.controller
        if controller is None:
            return json_answer(503, not_active(None))
        service = controller.controller
        wait_s = wanted_wait_s(request)
        if wait_s is None:
            return text_answer(400, f"wait must be a number of seconds, at most {WAIT_MAX_S}")

        def nothing_new() -> bool:
            version = view_version(service.image, service.sessions, clock.monotonic())
            return service.active and version == request.query.get("after")

        await self._views_waited_for.wait_while(nothing_new, wait_s)
        if not service.active:
            return json_answer(503, not_active(service.active_controller_id))
        shown = overview(service.image, service.sessions, clock.monotonic(), self._parts.settings.inter_broker_listener)
        return json_answer(200, shown)

    @property
    def _cluster_rates(self) -> "ClusterRates | None":
        sharing = self._parts.connection_shares
        return None if sharing is None else sharing.rates

    async def _show_quotas(self, request: HttpRequest) -> HttpAnswer:
        """Show the quotas of one address, of one connection group, or of all groups after a name."""
        clock, broker = self._parts.clock, self._parts.broker
        if broker is None:
            return text_answer(503, "this broker is starting")
        address, group = request.query.get("address"), request.query.get("group")
        now_ms = int(clock.monotonic() * 1000)
        why: WhyHeld = import_module(WHY_HELD).WhyHeld(
            broker.server.quotas, now_ms, clock.wall_ms(), self._cluster_rates
        )
        if address is not None:
            known = canonical_address(address)
            if known is None:
                return text_answer(400, "address must be one IPv4 or IPv6 address, such as 10.0.0.1")
            return json_answer(200, why.address(known))
        if group is not None:
            found = why.group(group)
            return text_answer(404, "this broker enforces no such group") if found is None else json_answer(200, found)
        return json_answer(200, why.groups(request.query.get("after", "")))

    async def _show_limits(self, request: HttpRequest) -> HttpAnswer:
        """Show the limits of this broker, its listeners and addresses; with `held=true` of those that refused any."""
        broker = self._parts.broker
        if broker is None:
            return text_answer(503, "this broker is starting")
        now_ms = int(self._parts.clock.monotonic() * 1000)
        limits: LimitsHeld = import_module(LIMITS_HELD).LimitsHeld(broker.server.quotas, now_ms, self._cluster_rates)
        if request.query.get("held") == "true":
            return json_answer(200, limits.held())
        return json_answer(200, limits.page(request.query.get("after", "")))

    async def _show_tls(self, request: HttpRequest) -> HttpAnswer:
        """Show which certificates are in force: those of listeners, and those of connections to other nodes."""
        listeners = [
            {"listener": name, **found} for tls in self._parts.tls for name, found in sorted(tls.report().items())
        ]
        return json_answer(200, {"listeners": listeners})

    async def _leave_by_request(self, request: HttpRequest) -> HttpAnswer:
        """Run a controlled shutdown for a pod's preStop hook: a later SIGTERM finds it done."""
        if not request.same_host:
            return text_answer(403, "a controlled shutdown may only be requested from this host")
        membership = self._parts.membership
        if membership is None:
            return text_answer(200, "not a member of the cluster yet")
        if await self._leave(membership):
            return text_answer(200, "the controller has released this broker")
        return text_answer(504, "the controller has not released this broker; it may stop anyway")
