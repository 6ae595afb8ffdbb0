"""Sends the markers of ended transactions to the leaders of their partitions, until all are written. Shell."""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence

from broker_runtime.clock import Clock, Timer
from broker_runtime.config.keys.broker import BrokerConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.slicing.slices import Slices
from broker_runtime.slicing.steps import Steps
from broker_runtime.transactions.broker_links import BrokerConnection, BrokerLinks
from broker_runtime.transactions.leaders import LeaderOf, leaders_in
from broker_runtime.transactions.markers.local_markers import LocalMarkers
from broker_runtime.transactions.markers.queues import MarkerBatch, MarkerLimits, MarkerQueues
from broker_runtime.transactions.markers.requests import (
    VERSION,
    PartitionsOfMarker,
    ResultsOfMarker,
    request_of,
    results_in,
)
from broker_runtime.transactions.seam import EndedTransaction, MarkerFigures, MarkersListener, TopicPartition
from broker_runtime.wire.versions import WRITE_TXN_MARKERS

log = logging.getLogger(__name__)

_LEAST_S = 0.001
"""Shortest pause in seconds. With none, a clock that is rounded differently than the event loop's would keep the loop
busy until the time of a retry."""

_ANSWER_S = 5.0
"""Time that the answer of another broker may take on top of the time limit of its markers."""


class MarkerDispatch:
    """Sends markers. Implements `transactions.seam.Markers`. All calls are made on the event loop.

    Owns the tasks of requests under way, at most one for each broker, and the connections of `links`.
    """

    def __init__(
        self,
        me: int,
        leader_of: LeaderOf,
        limits: MarkerLimits,
        local: LocalMarkers,
        links: BrokerLinks,
        slices: Slices,
        clock: Clock,
    ) -> None:
        """`local` writes the markers of partitions that broker `me`, this one, leads."""
        self._me = me
        self.queues = MarkerQueues(leader_of, limits)
        self._local = local
        self._links = links
        self._slices = slices
        self._now_s = clock.monotonic
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: Timer | None = None
        self._is_woken = False
        self._is_routing = False
        self._is_closed = False
        self._problems: dict[int, str] = {}
        """The last problem that was logged, by broker."""

    def send(self, ended: EndedTransaction, listener: MarkersListener) -> None:
        self.queues.send(ended, listener)
        self._wake()

    def drop(self, coordinator_partition: int) -> None:
        self.queues.drop(coordinator_partition)
        self._wake()

    def figures(self) -> MarkerFigures:
        return MarkerFigures(self.queues.transactions, *self.queues.waiting())

    def _wake(self) -> None:
        """Run a turn in the next iteration of the event loop: markers of one iteration share requests."""
        if not self._is_woken and not self._is_closed:
            self._is_woken = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._is_woken = False
        if self._is_routing or self._is_closed:
            return
        self._is_routing = True
        self._slices.do(self._route(), self._wake)

    def _route(self) -> Steps[None]:
        """Look up leaders, and begin the requests that are possible now."""
        try:
            yield from self.queues.route(self._now_s())
            for broker_id in self.queues.ready(self._now_s()):
                batch = yield from self.queues.take(broker_id)
                if batch is not None and not self._is_closed:
                    self._begin(batch)
        finally:
            self._is_routing = False
        if self._is_closed:
            return
        # Requests may have ended meanwhile.
        if self.queues.has_unrouted or self.queues.ready(self._now_s()):
            self._wake()
        self._set_timer()

    def _begin(self, batch: MarkerBatch) -> None:
        name = f"markers to broker {batch.broker_id}"
        task = asyncio.get_running_loop().create_task(self._ask(batch), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        due_s = self.queues.due_s()
        self._timer = None
        if due_s is not None:
            self._timer = asyncio.get_running_loop().call_later(max(due_s - self._now_s(), _LEAST_S), self._wake)

    async def _ask(self, batch: MarkerBatch) -> None:
        broker_id = batch.broker_id
        markers = [(ended.marker, places) for ended, places in batch.markers]
        try:
            results = await (self._local.write(markers) if broker_id == self._me else self._sent(broker_id, markers))
            unexpected = await self._slices.finish(self.queues.answered(batch, results, self._now_s()))
            self._note_unexpected(broker_id, unexpected)
        except KafkaError as error:
            self._note(broker_id, error.message or error.code.name)
            self.queues.failed(batch, self._now_s())
        except Exception:
            log.exception("the markers for broker %d failed; they are sent again", broker_id)
            self.queues.failed(batch, self._now_s())
        self._wake()

    async def _sent(self, broker_id: int, markers: Sequence[PartitionsOfMarker]) -> list[ResultsOfMarker]:
        """Send the markers to another broker, and return its results. Raises KafkaError."""
        content = await self._slices.finish(request_of(markers))
        answer = await self._links.ask(broker_id, WRITE_TXN_MARKERS, VERSION, content)
        return await self._slices.finish(results_in(answer, markers))

    def _note_unexpected(self, broker_id: int, unexpected: Collection[tuple[TopicPartition, int]]) -> None:
        if not unexpected:
            self._problems.pop(broker_id, None)
            return
        (topic, index), code = next(iter(unexpected))
        name = ErrorCode(code).name if code in list(ErrorCode) else f"error {code}"
        self._note(broker_id, f"broker {broker_id} refused a marker for {topic}-{index}: {name}")

    def _note(self, broker_id: int, problem: str) -> None:
        """Log a problem of a broker once."""
        if self._problems.get(broker_id) != problem:
            self._problems[broker_id] = problem
            log.warning("%s; the markers are sent again", problem)

    async def close(self) -> None:
        """End all requests. Coordinators send markers without an answer again after their next start."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._links.close()


def marker_dispatch(
    me: int,
    image: MetadataImage,
    config: BrokerConfig,
    local: LocalMarkers,
    link_to: Callable[[int], BrokerConnection],
    slices: Slices,
    clock: Clock,
) -> MarkerDispatch:
    """Return the dispatch of markers of broker `me`, with the limits of the configuration."""
    limits = MarkerLimits(
        config.sluicegate_transaction_request_partitions_max,
        config.sluicegate_transaction_marker_retry_backoff_ms / 1000,
        config.sluicegate_transaction_marker_retry_backoff_max_ms / 1000,
    )
    # The other broker answers within the same time, so that this limit applies only to a broker that hangs.
    links = BrokerLinks(link_to, config.request_timeout_ms / 1000 + _ANSWER_S, slices)
    return MarkerDispatch(me, leaders_in(image), limits, local, links, slices, clock)
