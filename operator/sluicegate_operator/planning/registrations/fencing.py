"""Find brokers that are known to be gone, for the controller to fence without waiting for their sessions. Pure.

Problem: a broker whose process ended keeps its session until it times out, and its partitions have no leader meanwhile.
The operator often has proof earlier, from the pod. A wrong proof would fence a live broker.

A fence order contains the broker's epoch, which keeps it from hitting a newer registration. Two kinds of proof are
safe:

- A pod that is gone, proved by the order of reads. The controller's view is read first, the pods after it. A session in
  the view belongs to a pod that existed then. If the pod is gone or is another one later, that session's process has
  ended. It is another one if its uid differs from that of the pod in which the session was seen, or if its address is
  known and differs. An unknown address proves nothing: a process may register before the kubelet has reported its
  address.
- A container that ended inside its pod, proved by one clock. The process recorded when it started and the kubelet when
  the container ended, both on the same host. A process that started before the end is not the one that runs after it,
  however old either time is.

A lost Kubernetes node alone proves nothing, see `SILENT_NODE_S`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from sluicegate_operator.planning.registrations.overview import BrokerOverview, ClusterOverview

SessionPods = Mapping[tuple[int, int], str]
"""The uid of the pod in which a session was seen, by broker id and epoch."""

SILENT_NODE_S = 3.0
"""Seconds without a heartbeat after which a broker on a lost Kubernetes node counts as gone.

A lost node may only be cut off from the API server while its brokers serve. A live broker sends a heartbeat every 2 s.
"""


@dataclass(frozen=True, slots=True)
class ContainerEnd:
    """The end of a container.

    `at_ms` is by the clock of the Kubernetes node, in whole seconds and never later than the real end. `how` is the
    kubelet's description, for example `OOMKilled, exit code 137`.
    """

    at_ms: int
    how: str


@dataclass(frozen=True, slots=True)
class BrokerPod:
    """The pod of a broker.

    `host` is empty before the kubelet has reported an address. `node_lost`: the Kubernetes node is gone or does not
    report. `ended`: the last end of the broker's container, whatever runs in it now.
    """

    name: str
    broker_id: int
    host: str = ""
    node_lost: bool = False
    ended: ContainerEnd | None = None
    uid: str = ""
    deleting: bool = False


@dataclass(frozen=True, slots=True, order=True)
class FenceOrder:
    """An order to the controller to fence a broker's session. `why` is a sentence for the Event."""

    broker_id: int
    epoch: int
    why: str


def session_pods(
    overview: ClusterOverview, pods: Sequence[BrokerPod], known: SessionPods
) -> dict[tuple[int, int], str]:
    """Return `known` without ended sessions, plus the sessions now seen at the address of a pod."""
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
    sent: Collection[tuple[int, int]] = (),
    seen_in: SessionPods = MappingProxyType({}),
) -> tuple[FenceOrder, ...]:
    """Return the orders to fence sessions of brokers that are gone.

    `overview` must have been read before `pods`; pods that are being deleted still exist. `sent` are ids and epochs
    that were sent to the controller before. If such a session sends heartbeats again, the broker is alive: a clock may
    be wrong once, and must not keep a live broker out. So the end of its container counts again only when the broker is
    silent.
    """
    by_id = {pod.broker_id: pod for pod in pods}
    orders = []
    for broker in overview.brokers:
        session = (broker.id, broker.epoch)
        unproven = session in sent and not _is_silent(broker)
        why = why_gone(broker, by_id.get(broker.id), by_clock=not unproven, seen_in=seen_in.get(session, ""))
        if broker.has_session and why:
            orders.append(FenceOrder(broker.id, broker.epoch, why))
    return tuple(orders)


def why_gone(broker: BrokerOverview, pod: BrokerPod | None, *, by_clock: bool = True, seen_in: str = "") -> str:
    """Return why the session's process has ended; empty for a process that may exist.

    `seen_in` is the uid of the pod that had this session, empty if unknown.
    """
    if pod is None:
        return f"the pod of broker {broker.id} does not exist any more"
    elsewhere = broker.host is not None and pod.host not in ("", broker.host)
    if elsewhere or (seen_in and seen_in != pod.uid):
        at = f" at {broker.host}" if broker.host is not None else ""
        return f"the pod of broker {broker.id}{at} was replaced by {pod.name}"
    if pod.node_lost and _is_silent(broker):
        return (
            f"the node of {pod.name} is lost, and the controller has received no heartbeat of broker"
            f" {broker.id} for {broker.heartbeat_age_s:.0f} s"
        )
    if by_clock and pod.ended is not None and _began_before(broker, pod.ended):
        return f"the container of {pod.name} with the process of broker {broker.id} ended ({pod.ended.how})"
    return ""


def _is_silent(broker: BrokerOverview) -> bool:
    return broker.heartbeat_age_s is not None and broker.heartbeat_age_s >= SILENT_NODE_S


def _began_before(broker: BrokerOverview, end: ContainerEnd) -> bool:
    return broker.began_ms is not None and broker.began_ms < end.at_ms
