"""The cluster's metadata as a coordinator's shard: loading, the start of a term, and consequences of records."""

import logging
from collections.abc import Sequence

from broker_runtime.clock import Clock
from broker_runtime.config import BrokerSettings
from broker_runtime.controller.history import History, ReplayError
from broker_runtime.controller.journal_log import JournalLog
from broker_runtime.controller.partitions import elections
from broker_runtime.controller.partitions.rebalancing import LeaderRebalancing
from broker_runtime.controller.sessions import Sessions
from broker_runtime.coordination.seam import Decision, Refusal
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.cluster import ClusterRecord, ControllerChange
from broker_runtime.metadata.codec import encode_record
from broker_runtime.metadata.image import ConfigLimits, ElectionDefaults, MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.slicing.steps import Steps
from broker_runtime.storage.records.batching import KeyValue

log = logging.getLogger(__name__)


class MetadataShard:
    """The controller as a shard: implements `coordination.seam.Shard` for MetadataImage and Record.

    Owns the brokers' sessions, which are soft state: each term begins with fresh ones.
    """

    def __init__(
        self,
        history: History,
        durable: JournalLog,
        rebalancing: LeaderRebalancing,
        settings: BrokerSettings,
        clock: Clock,
        cluster_id: str,
        own_broker: int | None,
    ) -> None:
        """`own_broker` is the broker in this process: it ends with the process, so after a start it is not alive."""
        self._history = history
        self._durable = durable
        self._rebalancing = rebalancing
        self._settings = settings
        self._clock = clock
        self._cluster_id = cluster_id
        self._own_broker = own_broker
        self.first_records: Sequence[MetadataRecord] = ()
        """Records that follow the first one of a new cluster."""
        self.sessions = Sessions(settings.config.broker_session_timeout_ms / 1000)

    async def load(self) -> MetadataImage:
        """Load the metadata image from the journal. Raises ReplayError, JournalError."""
        image = await self._history.load()
        config = self._settings.config
        image.defaults = ElectionDefaults(
            config.unclean_leader_election_enable, config.min_insync_replicas, config.sluicegate_broker_replicas_max
        )
        image.limits = ConfigLimits(config, config.sluicegate_config_resources_max)
        if image.cluster.id not in (None, self._cluster_id):
            raise ReplayError(f"the metadata journal belongs to cluster {image.cluster.id}, not {self._cluster_id}")
        self._durable.epoch = image.cluster.controller_epoch + 1
        return image

    def opening(self, state: MetadataImage) -> Sequence[Decision[MetadataImage, MetadataRecord, None]]:
        # The properties file may differ from that of the previous controller.
        return [self._begin_epoch, _review]

    def _begin_epoch(self, image: MetadataImage) -> tuple[Sequence[MetadataRecord], None]:
        """Write this controller's epoch.

        Until this is durable nothing else is decided, and the previous controller cannot commit.
        """
        first: list[MetadataRecord] = []
        if image.cluster.id is None:
            first = [ClusterRecord(self._cluster_id), *self.first_records]
        return [*first, ControllerChange(self._settings.node_id, self._durable.epoch)], None

    def loaded(self, state: MetadataImage) -> None:
        self.sessions.renew_all(state, self._clock.monotonic(), but=self._own_broker)
        self._rebalancing.begin()
        log.info(
            "controller %d is active with epoch %d at metadata offset %d",
            self._settings.node_id,
            state.cluster.controller_epoch,
            state.offset,
        )

    def encode(self, record: MetadataRecord) -> KeyValue:
        return None, encode_record(record)

    def applied(self, record: MetadataRecord, state: MetadataImage) -> None:
        if elections.preferred_waits(record, state):
            self._rebalancing.leader_waits()

    def consequences(self, records: Sequence[MetadataRecord], state: MetadataImage) -> Steps[Sequence[MetadataRecord]]:
        return elections.consequences(records, state)

    def committed(self, state: MetadataImage) -> None:
        self._history.take_snapshot_when_due(state)

    def refuse(self, why: Refusal) -> KafkaError:
        if why is Refusal.QUEUE_FULL:
            return KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, "controller.request.queue.max requests wait for the controller; try again"
            )
        return KafkaError(ErrorCode.NOT_CONTROLLER, "this controller is not the active one")


def _review(image: MetadataImage) -> Steps[tuple[Sequence[MetadataRecord], None]]:
    return (yield from elections.reviewed(image)), None
