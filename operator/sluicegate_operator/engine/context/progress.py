"""The findings of a cluster's queues, for the one queue that writes the cluster's status.

They are soft state: lost with the operator, and found again at the first reconcile of each queue.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sluicegate_operator.planning.registrations.racks import RacksPlan
from sluicegate_operator.planning.registrations.registrations import BrokerWords
from sluicegate_operator.planning.rolls.roll import NoRoll, RollStep
from sluicegate_operator.planning.rolls.scale import ScaleStep
from sluicegate_operator.planning.status.log_damage import BrokerDamage


@dataclass(slots=True)
class ClusterProgress:
    """The findings of the queues about one BrokerCluster, for its status."""

    roll: RollStep | None = None
    no_roll: NoRoll | None = None
    """Why the last reconcile planned no roll; None if one was planned, and before the first reconcile."""
    roll_generation: int = 0
    """Generation of the BrokerCluster from which `roll` and `scale` were derived."""
    rolling: bool | None = None
    """Whether nodes were being restarted at the last reconcile; None before the first one."""
    scale: ScaleStep | None = None
    racks: RacksPlan | None = None
    config_generation: int = 0
    """Generation of the BrokerCluster from which `config_lagging` and `config_refused` were derived."""
    config_lagging: Mapping[int, str] = field(default_factory=dict)
    config_refused: str = ""
    described: Mapping[int, BrokerWords] = field(default_factory=dict)
    """The last reports of brokers about themselves, by broker id."""
    damage: Mapping[int, BrokerDamage] | None = None
    """Damaged offsets by broker id; None before a broker has answered."""
    controller_id: int | None = None
    """Id of the last known active controller.

    None before a controller was seen, -1 after none has answered for a minute.
    """
    silence: str = ""
    """Why the active controller is unknown.

    Empty if a controller answers, and before none has answered for a minute.
    """
    gate_refused: str = ""
    """Why the readiness gate of a broker's pod is not set; empty unless the API server refuses that for good."""
    unreachable: Mapping[int, str] = field(default_factory=dict)
    """Brokers that have not answered the quota path for long, with the cause."""
