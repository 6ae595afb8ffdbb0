"""Read the controllers' view of the brokers, from every controller at once, and send fence orders.

Each controller is queried at its own address. A controller that was deposed a moment ago may still answer 200, so the
newest of several answers counts. A missing view is a value (`unseen`), not an exception: callers continue without it.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from sluicegate_operator.fleet.kafka.http_get import http_get
from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.kafka_admin.errors import KafkaApiError
from sluicegate_operator.kafka_admin.security.client_security import PLAINTEXT, ClientSecurity
from sluicegate_operator.planning.layout.cluster_layout import CONTROLLER_PORT, HTTP_PORT
from sluicegate_operator.planning.registrations.fencing import FenceOrder
from sluicegate_operator.planning.registrations.overview import (
    ClusterOverview,
    OverviewError,
    parse_active_controller,
    parse_overview,
)

VIEW_PATH = "/brokers"
ASK_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True, order=True)
class ControllerPlace:
    """The address of one controller.

    `cluster_id`: the id of the controller's cluster, empty if unknown. Another cluster's controller may have got the
    address of a pod that is gone.
    """

    node_id: int
    host: str
    port: int = CONTROLLER_PORT
    http_port: int = HTTP_PORT
    cluster_id: str = ""


@dataclass(frozen=True, slots=True)
class ControllerView:
    """The view of the active controller. Without an answer, `overview` is None and `unseen` has the cause."""

    overview: ClusterOverview | None = None
    active: ControllerPlace | None = None
    unseen: str = ""


async def controller_view(controllers: Sequence[ControllerPlace], timeout_s: float = ASK_TIMEOUT_S) -> ControllerView:
    if not controllers:
        return ControllerView(unseen="no controller has an address yet")
    answers = await asyncio.gather(*(_ask(place, timeout_s) for place in sorted(controllers)))
    views = [answer for answer in answers if answer.overview is not None]
    if not views:
        return ControllerView(unseen="; ".join(answer.unseen for answer in answers))
    return max(views, key=_age)


async def newer_view(active: ControllerPlace, version: str, wait_s: float) -> ControllerView:
    """Return the view of the controller `active` when the view is newer than `version`, or after `wait_s`."""
    return await _ask(active, wait_s + ASK_TIMEOUT_S, f"{VIEW_PATH}?after={quote(version)}&wait={wait_s:g}")


def _age(view: ControllerView) -> tuple[int, int]:
    assert view.overview is not None, "only answers are compared"
    return view.overview.controller_epoch, view.overview.metadata_offset


async def _ask(place: ControllerPlace, timeout_s: float, path: str = VIEW_PATH) -> ControllerView:
    name = f"controller {place.node_id}"
    try:
        answer = await http_get((place.host, place.http_port), path, timeout_s=timeout_s)
        if answer.status == 200:
            return _of_own_cluster(ControllerView(parse_overview(answer.body), place), place)
        if answer.status == 503:
            active = parse_active_controller(answer.body)
            return ControllerView(unseen=f"{name} is not active" + ("" if active is None else f", {active} is"))
        return ControllerView(unseen=f"{name} answers {answer.status} to {VIEW_PATH}")
    except TimeoutError:
        return ControllerView(unseen=f"{name} does not answer within {timeout_s:g} s")
    except (OSError, OverviewError) as error:
        return ControllerView(unseen=f"{name}: {error}")


def _of_own_cluster(view: ControllerView, place: ControllerPlace) -> ControllerView:
    """Return the view; without an overview if the controller belongs to another cluster."""
    assert view.overview is not None, "an answer"
    found = view.overview.cluster_id
    if not place.cluster_id or found == place.cluster_id:
        return view
    return ControllerView(
        unseen=f"the address {place.host} of controller {place.node_id} belongs to a controller of the cluster with"
        f" cluster.id {found}, and not {place.cluster_id}: nothing of its answer is used"
    )


async def fence(
    active: ControllerPlace,
    orders: Sequence[FenceOrder],
    may_write: Callable[[], bool] = lambda: True,
    security: ClientSecurity = PLAINTEXT,
) -> dict[FenceOrder, KafkaApiError]:
    """Report to the controller that these brokers are gone. Return the refused orders.

    The sessions of these brokers end at once. Raises KafkaAdminError if the controller does not answer.
    """
    refused = {}
    async with AdminClient([(active.host, active.port)], may_write=may_write, security=security) as client:
        handle = client.broker(active.host, active.port)
        for order in orders:
            try:
                await handle.fence_broker(order.broker_id, order.epoch)
            except KafkaApiError as error:
                refused[order] = error
    return refused
