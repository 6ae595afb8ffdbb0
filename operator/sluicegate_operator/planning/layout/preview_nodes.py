"""Preview which nodes would restart if a cluster's manifests changed, and why, with `restart_reasons`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.broker_listener import BrokerListener
from sluicegate_operator.planning.layout.canonical import process_revision
from sluicegate_operator.planning.layout.children import wanted_revision
from sluicegate_operator.planning.layout.cluster_layout import (
    FIRST_CONTROLLER_ID,
    NodePlace,
    Role,
    node_overrides,
    plan_cluster,
)
from sluicegate_operator.planning.layout.images import Images
from sluicegate_operator.planning.layout.restart_reasons import (
    NodeRevision,
    RestartReason,
    decode_revision,
    restart_reasons,
)
from sluicegate_operator.resources.labels import node_set_name

Listeners = Sequence[BrokerListener]
_LOOPBACK = "127.0.0.1"


class NodeKind(StrEnum):
    """The kind of nodes: pods, or processes on one machine. Only processes are restarted for changed listeners."""

    POD = "pod"
    PROCESS = "process"


@dataclass(frozen=True, slots=True)
class RunningNodes:
    """The running brokers and controllers of a cluster.

    - `replicas`, `wanted`: by role, the number of nodes that the operator asks for, and the revision that it gives to
      new nodes.
    - `revisions`: by node name, the revision that each was started with; None without a revision.
    - `requested`: by node name, the restart that a user requested.
    """

    replicas: Mapping[Role, int] = field(default_factory=dict)
    wanted: Mapping[Role, str] = field(default_factory=dict)
    revisions: Mapping[str, NodeRevision | None] = field(default_factory=dict)
    requested: Mapping[str, tuple[RestartReason, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeRestart:
    """A node that would restart. `reasons` are empty if the node already waits for its restart."""

    name: str
    role: Role
    reasons: tuple[RestartReason, ...] = ()

    @property
    def why(self) -> str:
        return ", ".join(map(str, self.reasons)) or "it is already waiting for a restart"


def restart_phrases(restarts: Sequence[NodeRestart], names_max: int | None = None) -> Iterator[str]:
    """Yield `restarts NODES: why`, one for each reason.

    `names_max`: maximum number of nodes that are named; None: all.
    """
    by_reason: dict[str, list[str]] = {}
    for node in restarts:
        by_reason.setdefault(node.why, []).append(node.name)
    for why, names in by_reason.items():
        shown = names[:names_max]
        more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
        yield f"restarts {', '.join(shown)}{more}: {why}"


@dataclass(frozen=True, slots=True)
class RestartsPreview:
    """The nodes that would restart.

    `by_manifests`: the running operator would give nodes other revisions than this version (it is another version, or
    has its own images). So manifests are compared instead of nodes.
    """

    restarts: tuple[NodeRestart, ...] = ()
    by_manifests: bool = False


def preview_restarts(
    before: tuple[BrokerCluster, Listeners],
    after: tuple[BrokerCluster, Listeners],
    running: RunningNodes | None,
    kind: NodeKind,
) -> RestartsPreview:
    """Return the restarts of existing nodes that manifests `after` in place of `before` would cause.

    Each of the two is a cluster with its listeners. Without `running`, the state of the nodes is unknown, and the
    manifests alone are compared. Nodes that would be added or removed are left out.
    """
    restarts: list[NodeRestart] = []
    by_manifests = False
    images = _images(before[0], running)
    waiting = before[0].status.rollout.waiting if before[0].status.rollout is not None else ()
    for role in Role:
        base, want = (
            revision(images.of_cluster(cluster), listeners, role, kind) for cluster, listeners in (before, after)
        )
        exact = running is not None and running.wanted.get(role) == base.encode()
        by_manifests = by_manifests or (running is not None and not exact)
        for ordinal in range(min(_count(before[0], role, running), _count(after[0], role, None))):
            name = _name(after[0], role, ordinal, kind)
            if exact and running is not None:
                # A missing node starts with what is wanted then.
                reasons = restart_reasons(running.revisions[name], want) if name in running.revisions else ()
            else:
                reasons = restart_reasons(base, want)
            reasons += running.requested.get(name, ()) if running is not None else ()
            if reasons or (not exact and name in waiting):
                restarts.append(NodeRestart(name, role, reasons))
    return RestartsPreview(tuple(restarts), by_manifests)


def _name(cluster: BrokerCluster, role: Role, ordinal: int, kind: NodeKind) -> str:
    if kind is NodeKind.POD:
        return f"{node_set_name(cluster.name, role)}-{ordinal}"
    node_id = ordinal if role is Role.BROKER else FIRST_CONTROLLER_ID + ordinal
    return f"{role} {node_id} of {cluster.name}"


def revision(cluster: BrokerCluster, listeners: Listeners, role: Role, kind: NodeKind) -> NodeRevision:
    """Return the revision with which nodes would be started."""
    layout = plan_cluster(cluster, listeners)
    if kind is NodeKind.POD:
        return wanted_revision(cluster, layout, role)
    ports = {port.name: port.port for port in layout.role_listeners(role)}
    place = NodePlace(_LOOPBACK, _LOOPBACK, "data", (), ports=ports)
    return process_revision({**layout.properties(role), **node_overrides(layout, 0, role, place)})


def _images(cluster: BrokerCluster, running: RunningNodes | None) -> Images:
    """Return the operator's own image, found from the nodes of a cluster that names no image."""
    given = decode_revision(running.wanted.get(Role.BROKER)) if running is not None else None
    if given is None or not given.image or cluster.spec.image is not None:
        return Images()
    return Images(nodes=given.image, landing=f"{given.image}-landing")


def _count(cluster: BrokerCluster, role: Role, running: RunningNodes | None) -> int:
    if running is not None and role in running.replicas:
        return running.replicas[role]
    if role is Role.CONTROLLER:
        return cluster.spec.controller_count
    return cluster.spec.broker_count
