"""Several controllers over one store in memory, in virtual time; each has its own log and its own store client."""

from collections.abc import Mapping
from pathlib import Path

from broker_runtime.config import TopicConfig, broker_settings
from broker_runtime.controller.journal.choice import JournalParts, backing
from broker_runtime.controller.service import ControllerService
from broker_runtime.metadata.areas.configs import ConfigRecord
from broker_runtime.metadata.topic_names import METADATA_TOPIC, METADATA_TOPIC_ID
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.log_dir.manager import LogManager
from tests.support.fakes.disks.memory_filesystem import MemoryFileSystem
from tests.support.fakes.inline_executor import InlineExecutor
from tests.support.fakes.journal_store import MemoryStore, SharedObjects
from tests.support.fakes.manual_clock import ManualClock

LEASE_MS = 4_000


class Standbys:
    """Controllers with a shared store. `standby(1)` builds a controller, which tests start and stop."""

    def __init__(
        self, clock: ManualClock, properties: Mapping[str, str] | None = None, snapshot_every: int | None = None
    ) -> None:
        """A snapshot is due after `snapshot_every` commits; None for the journal's own number."""
        self.clock = clock
        self._snapshot_every = snapshot_every
        self.shared = SharedObjects()
        self.stores: dict[int, MemoryStore] = {}
        self._properties = dict(properties or {})
        self._processes = 0

    def standby(self, node_id: int) -> ControllerService:
        self._processes += 1
        settings = broker_settings(
            {
                "node.id": str(node_id),
                "process.roles": "controller",
                "listeners": "CONTROLLER://127.0.0.1:0",
                "controller.listener.names": "CONTROLLER",
                "sluicegate.controller.journal": "kubernetes",
                "sluicegate.controller.journal.name": "metadata",
                "sluicegate.controller.lease.duration.ms": str(LEASE_MS),
            }
            | self._properties
        )
        self.stores[node_id] = MemoryStore(self.shared)
        parts = JournalParts(InlineExecutor(), f"p{self._processes}", self.stores[node_id])
        built = backing(settings, self._log(), self.clock, parts)
        if self._snapshot_every is not None:
            built.journal.batches_between_snapshots = self._snapshot_every
        return ControllerService(built, settings, self.clock, "cluster")

    def _log(self) -> Log:
        logs = LogManager(Path("/data"), fs=MemoryFileSystem(), clock=self.clock)
        logs.open(lambda _topic: TopicConfig())
        return logs.create(METADATA_TOPIC, 0, METADATA_TOPIC_ID, TopicConfig(retention_ms=-1))


async def write(controller: ControllerService, number: int) -> None:
    """Commit one change of configuration."""
    await controller.submit(lambda image: ([ConfigRecord(4, "", "max.connections", str(number))], None))


def written(controller: ControllerService) -> str | None:
    return controller.image.configs.of_broker(None).get("max.connections")
