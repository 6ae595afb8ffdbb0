"""What the operator has observed of a BrokerCluster: the input of `cluster_status`, grouped by subject. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sluicegate_operator.api.models.parts.broker_cluster_status import ListenerAddresses
from sluicegate_operator.planning.certificates.cluster_ca_status import CertificatesSeen
from sluicegate_operator.planning.layout.volumes import VolumesSeen
from sluicegate_operator.planning.registrations.racks import RacksPlan
from sluicegate_operator.planning.rolls.roll import NoRoll, RollStep
from sluicegate_operator.planning.rolls.scale import ScaleStep
from sluicegate_operator.planning.rolls.start_failures import NodesNotStarting
from sluicegate_operator.planning.status.log_damage import BrokerDamage


@dataclass(frozen=True, slots=True)
class PodsSeen:
    """The observed pods of a cluster.

    - `not_starting`: what prevents a node from starting, if anything.
    - `broker_pods`: number of broker pods that exist.
    - `away`: a sentence about nodes that are lost, see planning.rolls.lost_nodes.
    """

    brokers_expected: int
    brokers_ready: int
    controllers_expected: int = 0
    controllers_ready: int = 0
    broker_pods: int = 0
    not_starting: NodesNotStarting | None = None
    away: str = ""

    @property
    def brokers(self) -> str:
        """Return the ready and the expected brokers, as `2/3`."""
        return f"{self.brokers_ready}/{self.brokers_expected}"

    @property
    def controllers(self) -> str:
        """Return the ready and the expected controllers, as `2/3`."""
        return f"{self.controllers_ready}/{self.controllers_expected}"

    @property
    def brokers_are_ready(self) -> bool:
        return self.brokers_ready >= self.brokers_expected

    @property
    def controllers_are_ready(self) -> bool:
        return self.controllers_ready >= self.controllers_expected


@dataclass(frozen=True, slots=True)
class AccessSeen:
    """The observed ways in which clients and the operator reach a cluster.

    - `silence`: why the active controller is unknown, after none has answered for a minute; empty otherwise.
    - `unreachable`: brokers whose pods are ready and that have not answered for long, with the cause.
    - `listeners`: those that clients can use.
    - `version`: the lowest and the highest release of the brokers; None before a broker has reported it.
    """

    cluster_id: str = ""
    controller_id: int | None = None
    silence: str = ""
    unreachable: Mapping[int, str] = field(default_factory=dict)
    listeners: tuple[ListenerAddresses, ...] = ()
    version: str | None = None


@dataclass(frozen=True, slots=True)
class ObstaclesSeen:
    """The reasons why a cluster's children are not applied; a field is empty if that reason does not exist.

    - `refusal`: the API server's message if it permanently refuses a child object.
    - `not_applied`: the API server's message if the refusal may pass and has lasted.
    - `name_taken`: which child's name is used by an object that the cluster does not own, and what to do.
    - `claims_taken`: why the cluster must not use volume claims that are older than its nodes.
    - `unreadable`: objects that the children depend on and that cannot be read.
    - `gate_refused`: why the readiness gate of a broker's pod is not set, if the API server refuses it for good.
    """

    refusal: str = ""
    not_applied: str = ""
    name_taken: str = ""
    claims_taken: str = ""
    unreadable: str = ""
    gate_refused: str = ""


@dataclass(frozen=True, slots=True)
class StepsSeen:
    """The steps that the other queues have planned for a cluster's nodes.

    - `followed_generation`: generation of the spec from which `roll`, `scale` and the configuration were derived; None
      is the present one.
    - `roll`, `scale`: the steps of planning.rolls.roll and planning.rolls.scale.
    - `no_roll`: why the operator planned no roll; None before its first reconcile of the nodes.
    - `racks`: the plan of planning.registrations.racks, if the cluster has racks.
    """

    followed_generation: int | None = None
    roll: RollStep | None = None
    no_roll: NoRoll | None = None
    scale: ScaleStep | None = None
    racks: RacksPlan | None = None


@dataclass(frozen=True, slots=True)
class SettingsSeen:
    """The dynamic configuration of a cluster's brokers.

    - `config_lagging`: brokers without all of it, with what they lack.
    - `config_refused`: the brokers' message about a value that they refuse.
    """

    config_lagging: Mapping[int, str] = field(default_factory=dict)
    config_refused: str = ""


@dataclass(frozen=True, slots=True)
class ObservedCluster:
    """The input of `cluster_status`.

    - `volumes`: None if they have not been checked.
    - `damage`: damaged offsets by broker id; None before a broker has answered.
    - `certificates`: the cluster's own, with spec.clusterCa.
    """

    nodes: PodsSeen
    access: AccessSeen = field(default_factory=AccessSeen)
    obstacles: ObstaclesSeen = field(default_factory=ObstaclesSeen)
    steps: StepsSeen = field(default_factory=StepsSeen)
    settings: SettingsSeen = field(default_factory=SettingsSeen)
    volumes: VolumesSeen | None = None
    damage: Mapping[int, BrokerDamage] | None = None
    certificates: CertificatesSeen | None = None
