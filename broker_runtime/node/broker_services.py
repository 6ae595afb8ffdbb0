"""Services for the handlers of a broker: its `BrokerContext`."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from random import Random
from typing import TYPE_CHECKING, TypeVar

from broker_runtime.apis.fetch_sessions.fetch_sessions import FetchSessionCache
from broker_runtime.apis.fetch_sessions.repeated_fetch import RepeatedFetches
from broker_runtime.apis.produce.producer_ids import ProducerIdBlocks
from broker_runtime.apis.request.answer_cache import AnswerCache
from broker_runtime.apis.request.context import ControllerRequests, OwnListeners
from broker_runtime.apis.topics.auto_topic_creation import AutoTopicCreation
from broker_runtime.apis.topics.internal_topics import made_as
from broker_runtime.clock import Clock, Timer
from broker_runtime.config import BrokerSettings
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.on_demand import GroupsOnDemand
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.replication.manager import ReplicaManager
from broker_runtime.slicing.slices import Slices
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.log_dir.manager import LogManager
from broker_runtime.transactions.on_demand import TransactionsOnDemand

if TYPE_CHECKING:
    from broker_runtime.apis.request.client_telemetry import ClientTelemetry
    from broker_runtime.apis.request.verification import VerifiesTransactions
    from broker_runtime.groups.service import GroupCoordinatorService
    from broker_runtime.transactions.markers.local_markers import LocalMarkers
    from broker_runtime.transactions.service import TransactionCoordinatorService
    from kafka_bytes.control import Marker

_ASIDE_THREADS = 2
T = TypeVar("T")


class BrokerServices:
    """The parts of the broker that handlers use: implements `BrokerContext`. Nothing is durable.

    Owns the fetch sessions, the block of producer ids, the threads that validate records, and the controller requests
    for automatic topic creation. All other parts belong to other objects.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        clock: Clock,
        cluster_id: str,
        image: MetadataImage,
        logs: LogManager,
        replicas: ReplicaManager,
        controllers: tuple[ControllerRequests, ControllerRequests],
    ) -> None:
        """Create the services.

        `controllers`: the usual client of the controller, and one for requests that would block others.
        """
        self.settings = settings
        self.clock = clock
        self.cluster_id = cluster_id
        self.image = image
        self.logs = logs
        self.controller, self.slow_controller = controllers
        self.note_on_config: Callable[[str], str | None] = _nothing
        self.listeners: OwnListeners
        self.groups_on_demand: GroupsOnDemand
        self.transactions_on_demand: TransactionsOnDemand
        self.slices = slices = Slices(
            clock.monotonic,
            settings.config.sluicegate_network_turn_max_us / 1_000_000,
            settings.config.sluicegate_requests_long_max_bytes,
        )
        self.all_topics = AnswerCache()
        self._telemetry: ClientTelemetry | None = None
        self._local_markers: LocalMarkers | None = None
        self.fetch_sessions = FetchSessionCache(
            settings.config, Random(clock.wall_ms()), slices.do, self._session_partitions_of
        )
        self.repeated_fetches = RepeatedFetches(settings.config.sluicegate_fetch_repeated_partitions_max, slices.do)
        self.producer_ids = ProducerIdBlocks(settings.node_id, image, self.controller)
        self.auto_topic_creation = AutoTopicCreation(
            self.controller,
            clock,
            settings.config.request_timeout_ms,
            settings.config.controller_request_queue_max,
            lambda name: made_as(name, image, settings.config),
        )
        # The bound method itself: one call less for each partition of a produce request.
        self.led = replicas.led_replicas.led
        self._leaders = replicas.led_replicas.leaders
        self.replica_log = replicas.replica_log
        self.offline_replicas = replicas.offline
        self._repairs = replicas.repairs
        self._loop = asyncio.get_running_loop()
        self._offload_threads = ThreadPoolExecutor(_ASIDE_THREADS, "aside")
        self._offloaded = 0

    @property
    def telemetry(self) -> "ClientTelemetry":
        """Return the telemetry state, which the first request for it creates.

        The handler of that request has imported the module (decision 45).
        """
        if self._telemetry is None:
            self._telemetry = import_module("broker_runtime.apis.request.client_telemetry").ClientTelemetry(self.image)
        return self._telemetry

    @property
    def local_markers(self) -> "LocalMarkers":
        """Return the writer of markers, which the first request for it creates.

        Its module has been imported (decision 45).
        """
        if self._local_markers is None:
            kind = import_module("broker_runtime.transactions.markers.local_markers").LocalMarkers
            timeout_s = self.settings.config.request_timeout_ms / 1000
            self._local_markers = kind(self.led, self._end_in_groups, self.slices, self.call_later, timeout_s)
        return self._local_markers

    async def _end_in_groups(self, index: int, marker: "Marker") -> None:
        await self.groups.end_transaction(index, marker)

    @property
    def groups(self) -> "GroupCoordinatorService":
        return self.groups_on_demand.coordinator()

    @property
    def transaction_verifier(self) -> "VerifiesTransactions":
        return self.transactions_on_demand.verifier()

    @property
    def transactions(self) -> "TransactionCoordinatorService":
        return self.transactions_on_demand.coordinator()

    def _session_partitions_of(self, broker_id: int) -> int:
        """Return the maximum of partitions in this follower's fetch sessions.

        It is more than the follower can fetch here, whether or not this broker leads them already.
        """
        if broker_id not in self.image.brokers:
            return 0
        return max(self.settings.config.sluicegate_fetch_session_partitions_max, 2 * len(self._leaders))

    def led_log(self, topic: str, partition: int) -> tuple[Log, int]:
        leader = self.led(topic, partition)
        return leader.log, leader.leader_epoch

    def repair_state(self, topic: str, partition: int) -> str:
        return self._repairs.state_of((topic, partition))

    def offload(self, work: Callable[[], T]) -> asyncio.Future[T]:
        if self._offloaded >= self.settings.config.sluicegate_record_validation_queue_max:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "too many checks of records are queued; try again")
        self._offloaded += 1
        done = self._loop.run_in_executor(self._offload_threads, work)
        done.add_done_callback(self._note_offload_done)
        return done

    def _note_offload_done(self, done: asyncio.Future[T]) -> None:
        del done
        self._offloaded -= 1

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        return self._loop.call_later(delay_s, callback)

    async def close(self) -> None:
        self.producer_ids.close()
        await self.auto_topic_creation.close()
        self._offload_threads.shutdown(wait=False, cancel_futures=True)


def _nothing(_: str) -> None:
    return None
