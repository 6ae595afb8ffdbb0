"""What the queues of one cluster have found, for the one of them that writes the cluster's status.

Soft state: lost with the operator and found again at the first look of each queue.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sluicegate_operator.planning.log_damage import BrokerDamage
from sluicegate_operator.planning.racks import RacksPlan
from sluicegate_operator.planning.registrations import BrokerWords
from sluicegate_operator.planning.roll import NoRoll, RollStep
from sluicegate_operator.planning.scale import ScaleStep


@dataclass(slots=True)
class ClusterProgress:
    """The findings of the queues about one BrokerCluster, for its status."""

    roll: RollStep | None = None
    no_roll: NoRoll | None = None
    """Why the last look planned no roll; None if it planned one, and before the first look."""
    roll_generation: int = 0
    """Of the BrokerCluster that `roll` and `scale` follow from."""
    rolling: bool | None = None
    """Whether nodes were being restarted at the last look; None before the first one."""
    scale: ScaleStep | None = None
    racks: RacksPlan | None = None
    config_generation: int = 0
    """Of the BrokerCluster that `config_lagging` and `config_refused` follow from."""
    config_lagging: Mapping[int, str] = field(default_factory=dict)
    config_refused: str = ""
    told: Mapping[int, BrokerWords] = field(default_factory=dict)
    """What brokers said of themselves when they were asked last."""
    damage: Mapping[int, BrokerDamage] | None = None
    """Damaged offsets by broker id; None before a broker has answered."""
    controller_id: int | None = None
    """The active controller that was seen last; None before one was, -1 once none has answered for a minute."""
    silence: str = ""
    """Why the active controller is not known; empty if one answers, and before none has answered for a minute."""
    unreachable: Mapping[int, str] = field(default_factory=dict)
    """Brokers that have not answered the quota path for long, with why."""
