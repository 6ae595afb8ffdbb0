"""One node of a cluster on this machine: what its process was started with, and what it should run."""

from dataclasses import dataclass
from typing import Any

from sluicegate_operator.fleet.local.local_data import LOOPBACK
from sluicegate_operator.fleet.local.local_process import Child
from sluicegate_operator.fleet.protocol import Incarnation
from sluicegate_operator.planning.layout.cluster_layout import Role
from sluicegate_operator.planning.layout.restart_reasons import NodeRevision, restart_reasons
from sluicegate_operator.planning.rolls.roll import NodeView

NodeKey = tuple[str, int]
"""The name of a cluster, and the id of a node."""


@dataclass(frozen=True, slots=True)
class LocalNode:
    """A broker or controller that `sluicegate up` runs as a process.

    `properties` is the text of its server.properties.
    """

    key: NodeKey
    role: Role
    ports: dict[str, int]
    http_port: int
    properties: str
    revision: NodeRevision

    @property
    def name(self) -> str:
        return f"{self.role} {self.key[1]} of {self.key[0]}"


@dataclass(slots=True)
class RunningNode:
    """A broker or controller with its process.

    `node` is what the process was started with, `wanted` what it should run. `leaving`: the process is not restarted.
    """

    node: LocalNode
    wanted: LocalNode
    child: Child
    leaving: bool = False

    @property
    def incarnation(self) -> Incarnation:
        return Incarnation(str(self.child.pid))

    async def view(self) -> NodeView:
        """Return the node as the planning of rolls sees it.

        A process that waits for its next start counts as present: another configuration may fix it.
        """
        problem = await self.child.why_not_ready()
        return NodeView(
            name=self.node.name,
            role=self.node.role,
            node_id=self.node.key[1],
            ready=problem is None,
            failing=self.child.failing,
            reasons=restart_reasons(self.node.revision, self.wanted.revision),
        )

    def describe(self) -> dict[str, Any]:
        """Return plain data about the node for state.json."""
        return {
            "id": self.node.key[1],
            "role": str(self.node.role),
            "pid": self.child.pid,
            "restarts": self.child.restarts,
            "failing": self.child.failing,
            "listeners": {name: f"{LOOPBACK}:{port}" for name, port in self.node.ports.items()},
            "http": f"{LOOPBACK}:{self.node.http_port}",
        }
