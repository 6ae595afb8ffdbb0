"""The transaction coordinator of a broker, imported when it is first needed (decision 45). Shell."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from broker_runtime.clock import Clock, Timer
from broker_runtime.config.keys.broker import BrokerConfig
from broker_runtime.coordination.service_on_demand import ServiceOnDemand
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.on_demand import Importer
from broker_runtime.slicing.slices import Slices

if TYPE_CHECKING:
    from broker_runtime.transactions.broker_links import BrokerConnection
    from broker_runtime.transactions.markers.local_markers import LocalMarkers
    from broker_runtime.transactions.service import TransactionCoordinatorService
    from broker_runtime.transactions.shard_environment import ProducerIdSource
    from broker_runtime.transactions.verification.verifier import TransactionVerifier

ASSEMBLY = "broker_runtime.transactions.assembly"
VERIFIER = "broker_runtime.transactions.verification.verifier"


@dataclass(frozen=True, slots=True)
class CoordinatorParts:
    """Objects of a broker from which its transaction coordinator is made."""

    node_id: int
    is_to_lead: Callable[[str, int], bool]
    """The ReplicaManager's method."""
    config: Callable[[], BrokerConfig]
    """Returns the configuration in force."""
    image: MetadataImage
    clock: Clock
    slices: Slices
    call_later: Callable[[float, Callable[[], None]], Timer]
    producer_ids: "ProducerIdSource"
    local_markers: "Callable[[], LocalMarkers]"
    link_to: "Callable[[int], BrokerConnection]"
    """Returns a connection to another broker."""
    transaction_version: Callable[[], int]
    """Returns the finalized level of the feature."""


class TransactionsOnDemand:
    """The transaction coordinator of this broker, imported when it is needed, and the led partitions before that.

    Implements `replication.led_replicas.LeadershipObserver`. All calls are made on the event loop.
    """

    def __init__(self, parts: CoordinatorParts, importer: Importer) -> None:
        self._parts = parts
        self._on_demand: ServiceOnDemand[TransactionCoordinatorService] = ServiceOnDemand(
            ASSEMBLY, self._made, importer, "transactional ids"
        )
        self.leads = self._on_demand.leads
        self.leads_no_more = self._on_demand.leads_no_more
        self._verifier: TransactionVerifier | None = None

    def _made(self, module: ModuleType) -> "TransactionCoordinatorService":
        made: TransactionCoordinatorService = module.transaction_coordinator(self._parts)
        return made

    @property
    def existing(self) -> "TransactionCoordinatorService | None":
        """Return the coordinator; None until it is needed. For metrics."""
        return self._on_demand.existing

    def verifier(self) -> "TransactionVerifier":
        """Return the verifier of transactions. The first call imports its module and creates it."""
        if self._verifier is None:
            parts = self._parts
            self._verifier = import_module(VERIFIER).TransactionVerifier(
                parts.node_id,
                parts.image,
                self.coordinator,
                parts.config,
                parts.link_to,
                parts.slices,
                parts.clock,
            )
        return self._verifier

    @property
    def existing_verifier(self) -> "TransactionVerifier | None":
        """Return the verifier; None until it is needed. For metrics."""
        return self._verifier

    async def close(self) -> None:
        """Close the verifier and the coordinator, if they exist."""
        if self._verifier is not None:
            await self._verifier.close()
        await self._on_demand.close()

    def coordinator(self) -> "TransactionCoordinatorService":
        """Return the coordinator. The first call imports its module and creates it."""
        return self._on_demand.service()

    def notes(self) -> list[str]:
        """Return the notes of the service, or the reason why it cannot be imported."""
        if self._on_demand.existing is not None:
            return self._on_demand.existing.notes()
        return [self._on_demand.problem] if self._on_demand.problem else []
