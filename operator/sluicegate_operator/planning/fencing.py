"""Brokers that the operator knows to be gone, for the controller to fence without waiting for their sessions.

Pure. What makes it safe is the order of looking: the controller's view is read first, the pods after it. A session
that the controller spoke of belongs to a pod that was there then; if the pod is gone or is another one later, that
session's process has ended, and the epoch in the order keeps it from hitting a newer one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sluicegate_operator.planning.overview import BrokerOverview, ClusterOverview

SILENT_NODE_S = 3.0
"""A Kubernetes node that is lost may only be cut off from the API server while its brokers serve: the controller must
not have heard of the broker for this long either. A live broker sends a heartbeat every 2 s."""


@dataclass(frozen=True, slots=True)
class BrokerPod:
    """`host` is empty before the pod has an address. `node_lost`: the Kubernetes node is gone or not heard of."""

    name: str
    broker_id: int
    host: str = ""
    node_lost: bool = False


@dataclass(frozen=True, slots=True, order=True)
class FenceOrder:
    """`why` is a sentence for the Event."""

    broker_id: int
    epoch: int
    why: str


def plan_fencing(overview: ClusterOverview, pods: Sequence[BrokerPod]) -> tuple[FenceOrder, ...]:
    """`overview` must have been read before `pods`; pods that are being deleted are still there."""
    by_id = {pod.broker_id: pod for pod in pods}
    orders = []
    for broker in overview.brokers:
        if broker.has_session and (why := _gone(broker, by_id)):
            orders.append(FenceOrder(broker.id, broker.epoch, why))
    return tuple(orders)


def _gone(broker: BrokerOverview, pods: Mapping[int, BrokerPod]) -> str:
    pod = pods.get(broker.id)
    if pod is None:
        return f"the pod of broker {broker.id} is gone"
    if broker.host is not None and pod.host != broker.host:
        return f"the pod of broker {broker.id} at {broker.host} is gone, {pod.name} is its successor"
    silent = broker.heartbeat_age_s is not None and broker.heartbeat_age_s >= SILENT_NODE_S
    if pod.node_lost and silent:
        return (
            f"the node of {pod.name} is lost, and the controller has not heard of broker {broker.id} for"
            f" {broker.heartbeat_age_s:.0f} s"
        )
    return ""
