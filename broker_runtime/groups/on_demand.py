"""The group coordinator of a broker, imported when it is first needed (decision 45). Shell.

It is needed when this broker first leads a partition of __consumer_offsets, or when a client first sends it a request
for a coordinator. Until then, the broker loads no code of groups and of their protocols.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING
from uuid import UUID

from broker_runtime.clock import Clock
from broker_runtime.config.keys.broker import BrokerConfig
from broker_runtime.coordination.replicated_log import LedPartition
from broker_runtime.groups.coordinator_metrics import CoordinatorMetrics
from broker_runtime.groups.members_room import MembersRoom
from broker_runtime.groups.partition_leaders import PartitionLeaders
from broker_runtime.groups.tally import Census, Tally
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.on_demand import Importer, imported

if TYPE_CHECKING:
    from broker_runtime.groups.service import GroupCoordinatorService
    from broker_runtime.groups.state import CommittedOffsets, GroupsState

log = logging.getLogger(__name__)

SERVICE = "broker_runtime.groups.service"
_RETRY_S = 5.0
EndsMadeOf = tuple[int, Callable[[str, int, int], int | None], PartitionLeaders]
"""The arguments of `epoch_ends.EpochEnds` besides the image: the id of this broker, the ends of its own logs, and the
connections to other leaders."""


class GroupsOnDemand:
    """Owns the GroupCoordinatorService once it is needed, and until then the partitions that this broker leads.

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
        self._importer = importer
        self._service: GroupCoordinatorService | None = None
        self._led: dict[int, LedPartition] = {}
        """Led partitions by their number, until the service exists."""
        self._importing: asyncio.Task[None] | None = None
        self._problem = ""
        self._closed = False
        self._no_tally = Tally()
        self._no_room = MembersRoom()
        self.census = Census(self.states, self._room)

    def coordinator(self) -> "GroupCoordinatorService":
        """Return the service. The first call imports its module and creates it."""
        if self._service is None:
            module = import_module(SERVICE)
            node_id, own_end, leaders = self._ends_made_of
            ends = module.EpochEnds(node_id, self._made_of[1], own_end, leaders)
            self._service = module.GroupCoordinatorService(self._is_to_lead, *self._made_of, ends)
            self._problem = ""
            for leader in self._led.values():
                self._service.leads(leader)
            self._led.clear()
        return self._service

    def leads(self, leader: LedPartition) -> None:
        if self._service is None and imported(SERVICE) is None:
            self._led[leader.index] = leader
            self._import_soon()
        else:
            self.coordinator().leads(leader)

    def leads_no_more(self, topic: str, index: int) -> None:
        self._led.pop(index, None)
        if self._service is not None:
            self._service.leads_no_more(topic, index)

    def _import_soon(self) -> None:
        if self._importing is None and not self._closed:
            self._importing = asyncio.get_running_loop().create_task(self._import(), name="import of groups")

    async def _import(self) -> None:
        """Import the service's module.

        Retries until that succeeds: it may fail while no file can be opened, for example.
        """
        while True:
            try:
                await self._importer.load(SERVICE)
                break
            except Exception as error:
                self._problem = f"groups are not coordinated because their code cannot be loaded: {error!r}"
                log.exception("the group coordinator cannot be loaded; retrying in %g s", _RETRY_S)
            await asyncio.sleep(_RETRY_S)
        self._importing = None
        if not self._closed:
            self.coordinator()

    def topics_changed(self, changed: Collection[str], removed: Mapping[str, UUID]) -> None:
        """Notify all active terms of topics that were created, resized or deleted, if the code is loaded."""
        if self._service is not None:
            self._service.topics_changed(changed, removed)

    def figures(self) -> CoordinatorMetrics:
        if self._service is None:
            return CoordinatorMetrics(len(self._led), 0, 0, 0, 0)
        return self._service.figures()

    def _room(self) -> MembersRoom:
        return self._no_room if self._service is None else self._service.members_room

    @property
    def tally(self) -> Tally:
        return self._no_tally if self._service is None else self._service.tally

    @property
    def push_consumers(self) -> int:
        """Number of consumers of the push protocol that are registered here."""
        return 0 if self._service is None else len(self._service.callers)

    def notes(self) -> list[str]:
        """Return the notes of the service, or the reason why it cannot be imported."""
        if self._service is not None:
            return self._service.notes()
        return [self._problem] if self._problem else []

    def states(self) -> "Iterator[GroupsState]":
        return iter(()) if self._service is None else self._service.states()

    def committed(self) -> "Iterator[CommittedOffsets]":
        """Return the committed offsets of the same partitions."""
        return (state.offsets for state in self.states())

    async def close(self) -> None:
        self._closed = True
        if self._importing is not None:
            self._importing.cancel()
        if self._service is not None:
            await self._service.close()
