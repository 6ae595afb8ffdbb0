"""Brokers that the operator knows to be gone, for the controller to fence without waiting for their sessions.

Pure. What makes it safe, besides the epoch in the order, which keeps it from hitting a newer registration:

- A pod that is gone: the order of looking. The controller's view is read first, the pods after it. A session that the
  controller spoke of belongs to a pod that was there then; if the pod is gone or is another one later, that session's
  process has ended. It is another one when its uid differs from that of the pod in which the session was seen, or when
  its address is known and differs. An address that is not known proves nothing: a process may register before the
  kubelet has reported where it runs.
- A container that ended inside its pod: one clock. The process noted when it began and the kubelet when the container
  ended, both on the same host. What began before the end is not the process after it, however old either word is.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from sluicegate_operator.planning.overview import BrokerOverview, ClusterOverview

SessionPods = Mapping[tuple[int, int], str]
"""The uid of the pod in which a session was seen, by broker id and epoch."""

SILENT_NODE_S = 3.0
"""A Kubernetes node that is lost may only be cut off from the API server while its brokers serve: the controller must
not have heard of the broker for this long either. A live broker sends a heartbeat every 2 s."""


@dataclass(frozen=True, slots=True)
class ContainerEnd:
    """`at_ms` is by the clock of the Kubernetes node, in whole seconds and never later than the end was. `how` is the
    kubelet's word for it, for example `OOMKilled, exit code 137`."""

    at_ms: int
    how: str


@dataclass(frozen=True, slots=True)
class BrokerPod:
    """`host` is empty before the kubelet has reported an address. `node_lost`: the Kubernetes node is gone or not heard
    of. `ended`: the last end of the broker's container, whatever runs in it now."""

    name: str
    broker_id: int
    host: str = ""
    node_lost: bool = False
    ended: ContainerEnd | None = None
    uid: str = ""
    deleting: bool = False


@dataclass(frozen=True, slots=True, order=True)
class FenceOrder:
    """`why` is a sentence for the Event."""

    broker_id: int
    epoch: int
    why: str


def session_pods(
    overview: ClusterOverview, pods: Sequence[BrokerPod], known: SessionPods
) -> dict[tuple[int, int], str]:
    """`known`, without sessions that have ended and with those that are now seen in a pod: at the pod's address."""
    by_id = {pod.broker_id: pod for pod in pods}
    found = {}
    for broker in overview.brokers:
        pod, session = by_id.get(broker.id), (broker.id, broker.epoch)
        if broker.has_session and session in known:
            found[session] = known[session]
        elif broker.has_session and pod is not None and pod.host and pod.host == broker.host:
            found[session] = pod.uid
    return found


def plan_fencing(
    overview: ClusterOverview,
    pods: Sequence[BrokerPod],
    told: Collection[tuple[int, int]] = (),
    seen_in: SessionPods = MappingProxyType({}),
) -> tuple[FenceOrder, ...]:
    """`overview` must have been read before `pods`; pods that are being deleted are still there.

    `told` are ids and epochs that the controller was told of before. One that is back is heard of after all: a clock
    may err once, and must not keep a live broker out. So its container's end counts again only when it is silent.
    """
    by_id = {pod.broker_id: pod for pod in pods}
    orders = []
    for broker in overview.brokers:
        session = (broker.id, broker.epoch)
        unproven = session in told and not _is_silent(broker)
        why = why_gone(broker, by_id.get(broker.id), by_clock=not unproven, seen_in=seen_in.get(session, ""))
        if broker.has_session and why:
            orders.append(FenceOrder(broker.id, broker.epoch, why))
    return tuple(orders)


def why_gone(broker: BrokerOverview, pod: BrokerPod | None, *, by_clock: bool = True, seen_in: str = "") -> str:
    """Empty for one that may be there. `seen_in` is the uid of the pod that had this session, empty if not known."""
    if pod is None:
        return f"the pod of broker {broker.id} is gone"
    elsewhere = broker.host is not None and pod.host not in ("", broker.host)
    if elsewhere or (seen_in and seen_in != pod.uid):
        at = f" at {broker.host}" if broker.host is not None else ""
        return f"the pod of broker {broker.id}{at} is gone, {pod.name} is its successor"
    if pod.node_lost and _is_silent(broker):
        return (
            f"the node of {pod.name} is lost, and the controller has not heard of broker {broker.id} for"
            f" {broker.heartbeat_age_s:.0f} s"
        )
    if by_clock and pod.ended is not None and _began_before(broker, pod.ended):
        return f"the container of {pod.name} ended ({pod.ended.how}), and with it the process of broker {broker.id}"
    return ""


def _is_silent(broker: BrokerOverview) -> bool:
    return broker.heartbeat_age_s is not None and broker.heartbeat_age_s >= SILENT_NODE_S


def _began_before(broker: BrokerOverview, end: ContainerEnd) -> bool:
    return broker.began_ms is not None and broker.began_ms < end.at_ms
