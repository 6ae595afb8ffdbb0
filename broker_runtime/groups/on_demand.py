"""The group coordinator of a broker, imported when it is first needed (decision 45). Shell."""

from collections.abc import Callable, Collection, Iterator, Mapping
from types import ModuleType
from typing import TYPE_CHECKING
from uuid import UUID

from broker_runtime.clock import Clock
from broker_runtime.config.keys.broker import BrokerConfig
from broker_runtime.coordination.replicated_log import LedPartition
from broker_runtime.coordination.service_on_demand import ServiceOnDemand
from broker_runtime.groups.members_room import MembersRoom
from broker_runtime.groups.partition_leaders import PartitionLeaders
from broker_runtime.groups.tally import Census, CoordinatorMetrics, Tally
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.on_demand import Importer

if TYPE_CHECKING:
    from broker_runtime.groups.service import GroupCoordinatorService
    from broker_runtime.groups.state import CommittedOffsets, GroupsState

SERVICE = "broker_runtime.groups.service"
EndsMadeOf = tuple[int, Callable[[str, int, int], int | None], PartitionLeaders]
"""The arguments of `epoch_ends.EpochEnds` besides the image.

They are the id of this broker, the ends of its own logs, and the connections to other leaders.
"""


class GroupsOnDemand:
    """The group coordinator of this broker, imported when it is needed, and the led partitions before that.

    Implements `replication.led_replicas.LeadershipObserver`. All calls are made on the event loop. Its state is not
    durable.
    """

    def __init__(
        self,
        config: Callable[[], BrokerConfig],
        image: MetadataImage,
        clock: Clock,
        importer: Importer,
        ends_made_of: EndsMadeOf,
        is_to_lead: Callable[[str, int], bool],
    ) -> None:
        """`config` returns the configuration in force; `is_to_lead` is the ReplicaManager's method."""
        self._made_of = config, image, clock
        self._is_to_lead = is_to_lead
        self._ends_made_of = ends_made_of
        self._on_demand: ServiceOnDemand[GroupCoordinatorService] = ServiceOnDemand(
            SERVICE, self._made, importer, "groups"
        )
        self._no_tally = Tally()
        self._no_room = MembersRoom()
        self.census = Census(self.states, self._room)

    @property
    def _service(self) -> "GroupCoordinatorService | None":
        return self._on_demand.existing

    def coordinator(self) -> "GroupCoordinatorService":
        """Return the coordinator of groups. The first call imports its module and creates it."""
        return self._on_demand.service()

    def _made(self, module: ModuleType) -> "GroupCoordinatorService":
        node_id, own_end, leaders = self._ends_made_of
        ends = module.EpochEnds(node_id, self._made_of[1], own_end, leaders)
        made: GroupCoordinatorService = module.GroupCoordinatorService(self._is_to_lead, *self._made_of, ends)
        return made

    def leads(self, leader: LedPartition) -> None:
        self._on_demand.leads(leader)

    def leads_no_more(self, topic: str, index: int) -> None:
        self._on_demand.leads_no_more(topic, index)

    def topics_changed(self, changed: Collection[str], removed: Mapping[str, UUID]) -> None:
        """Notify all active terms of topics that were created, resized or deleted, if the coordinator is loaded."""
        if self._service is not None:
            self._service.topics_changed(changed, removed)

    def figures(self) -> CoordinatorMetrics:
        if self._service is None:
            return CoordinatorMetrics(len(self._on_demand.led), 0, 0, 0, 0)
        return self._service.figures()

    def _room(self) -> MembersRoom:
        return self._no_room if self._service is None else self._service.members_room

    @property
    def tally(self) -> Tally:
        return self._no_tally if self._service is None else self._service.tally

    @property
    def push_consumers(self) -> int:
        """Return the number of consumers of the push protocol that are registered with this broker."""
        return 0 if self._service is None else len(self._service.callers)

    def notes(self) -> list[str]:
        """Return the notes of the service, or the reason why it cannot be imported."""
        if self._service is not None:
            return self._service.notes()
        return [self._on_demand.problem] if self._on_demand.problem else []

    def states(self) -> "Iterator[GroupsState]":
        return iter(()) if self._service is None else self._service.states()

    def committed(self) -> "Iterator[CommittedOffsets]":
        """Yield the committed offsets of each partition of __consumer_offsets that is active here."""
        return (state.offsets for state in self.states())

    async def close(self) -> None:
        await self._on_demand.close()
