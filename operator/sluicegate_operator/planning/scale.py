"""Scaling brokers: how many the StatefulSet should have now, and what must happen before it may have fewer.

Pure and without memory. A broker may go only when it holds no replica, so the StatefulSet never has fewer than the
highest holder needs; if a replica lands on a broker while it goes, the broker comes back with its volume, and the drain
goes on. A broker is unregistered when its pod is gone and the controller has it Offline: one that still runs would
register again.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sluicegate_operator.planning.overview import ClusterOverview
from sluicegate_operator.planning.roll import PartitionState

REASSIGNMENTS_MAX = 20
"""Partitions that are moved at the same time: replication of all at once would starve the clients."""


@dataclass(frozen=True, slots=True)
class ScaleView:
    """`current`: replicas that the StatefulSet asks for now, 0 before there is one. `pods`: ids of brokers that have a
    pod, read after `overview`. `moving`: (topic, index) of reassignments under way, with their replicas in `partitions`
    being those of before and after together, as Kafka shows them."""

    wanted: int
    current: int
    drain: bool
    overview: ClusterOverview | None
    partitions: Sequence[PartitionState] | None
    pods: Collection[int] = ()
    moving: Collection[tuple[str, int]] = ()
    unseen: str = ""


@dataclass(frozen=True, slots=True)
class Move:
    topic: str
    index: int
    replicas: tuple[int, ...]


class ScaleReason(StrEnum):
    SCALED = "Scaled"
    SCALING_UP = "ScalingUp"
    SCALING_DOWN = "ScalingDown"
    DRAINING = "Draining"
    REPLICAS_REMAIN = "ReplicasRemain"
    TOO_FEW_BROKERS = "TooFewBrokers"
    UNKNOWN = "ReplicasUnknown"
    UNREGISTERING = "Unregistering"


BLOCKING = frozenset({ScaleReason.REPLICAS_REMAIN, ScaleReason.TOO_FEW_BROKERS, ScaleReason.UNKNOWN})


@dataclass(frozen=True, slots=True)
class ScaleStep:
    """`replicas` is what the StatefulSet should ask for now. `moves` and `unregister` are to be carried out; `message`
    is the sentence for the status."""

    replicas: int
    reason: ScaleReason
    message: str = ""
    moves: tuple[Move, ...] = ()
    unregister: tuple[int, ...] = ()

    @property
    def blocked(self) -> bool:
        return self.reason in BLOCKING


def plan_scale(view: ScaleView) -> ScaleStep:
    """Raises NotImplementedError until the next commit for clusters that shrink."""
    if view.wanted >= view.current:
        reason = ScaleReason.SCALED if view.wanted == view.current else ScaleReason.SCALING_UP
        return ScaleStep(view.wanted, reason)
    raise NotImplementedError("brokers that go")
