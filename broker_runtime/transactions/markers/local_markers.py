"""Writes markers to the partitions that this broker leads, and waits until all in-sync replicas have them. Shell."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from broker_runtime.clock import Timer
from broker_runtime.coordination.replicated_log import LedPartition
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.topic_names import GROUPS_TOPIC
from broker_runtime.slicing.slices import Slices
from broker_runtime.slicing.steps import Steps, pages
from broker_runtime.transactions.markers.requests import PartitionsOfMarker, ResultsOfMarker
from broker_runtime.transactions.seam import TopicPartition
from kafka_bytes.control import Marker

log = logging.getLogger(__name__)

_OF_A_STEP = 32
_IN_GROUPS_AT_ONCE = 50
"""Markers of one request that group coordinators write at the same time. Each is a task."""
EndInGroups = Callable[[int, Marker], Awaitable[None]]
"""Writes a marker to a partition of `__consumer_offsets`: the group coordinator's `end_transaction`."""
_OF_THE_COORDINATOR = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)
"""Codes of the group coordinator that mean to the sender of a marker: look up the leader again."""


class LocalMarkers:
    """Writes markers to led partitions, as WriteTxnMarkers with acks=all. The logs are durable, nothing else is."""

    def __init__(
        self,
        led: Callable[[str, int], LedPartition],
        end_in_groups: EndInGroups,
        slices: Slices,
        call_later: Callable[[float, Callable[[], None]], Timer],
        timeout_s: float,
    ) -> None:
        """`led` returns the replica of a led partition or raises KafkaError. `timeout_s`: longest wait for replicas."""
        self._led = led
        self._end_in_groups = end_in_groups
        self._slices = slices
        self._call_later = call_later
        self._timeout_s = timeout_s

    def write(self, markers: Sequence[PartitionsOfMarker]) -> "asyncio.Future[list[ResultsOfMarker]]":
        """Return a future of the results, for each marker: the error codes of its partitions.

        It is done when all markers are on all in-sync replicas, or cannot be. Cancelling it ends the wait; markers that
        are appended stay.
        """
        writing = _Writing(self._led, self._end_in_groups, self._slices, markers)
        writing.timer = self._call_later(self._timeout_s, writing.stop_waiting)
        self._slices.do(writing.append(), writing.fail)
        return writing.result


@dataclass(slots=True)
class _Appended:
    """The markers that a partition got in one leader epoch."""

    leader: LedPartition
    leader_epoch: int
    offsets: list[tuple[int, int]] = field(default_factory=list)
    """The number of each marker in the request, and its offset."""


class _Writing:
    """The markers of one request."""

    def __init__(
        self,
        led: Callable[[str, int], LedPartition],
        end_in_groups: EndInGroups,
        slices: Slices,
        markers: Sequence[PartitionsOfMarker],
    ) -> None:
        self._led, self._end_in_groups, self._slices = led, end_in_groups, slices
        self._markers = markers
        self._codes: list[dict[TopicPartition, int]] = [{} for _ in markers]
        self._appended: dict[tuple[TopicPartition, int], _Appended] = {}
        self._tasks: dict[asyncio.Future[None], tuple[int, TopicPartition]] = {}
        """Markers that group coordinators write now."""
        self._in_groups: deque[tuple[int, Marker, TopicPartition]] = deque()
        """Markers that group coordinators write next: the number of each in the request, and its partition."""
        self._undo: list[Callable[[], None]] = []
        self._left = 1
        """Number of partitions that are waited for, plus one until all are."""
        self._is_over = False
        self.timer: Timer | None = None
        self.result: asyncio.Future[list[ResultsOfMarker]] = asyncio.get_running_loop().create_future()
        self.result.add_done_callback(self._release)

    def append(self) -> Steps[None]:
        """Append all markers, and begin to wait for their replicas."""
        for number, (marker, places) in enumerate(self._markers):
            for place in places:
                if self._is_over:
                    return
                if place[0] == GROUPS_TOPIC:
                    self._left += 1
                    self._in_groups.append((number, marker, place))
                    self._end_in_groups_now()
                else:
                    self._append(number, marker, place)
                yield
            if not places:
                yield
        for item in self._appended.values():
            if self._is_over:
                return
            if self._waits(item, item.offsets[-1][1]):
                self._left += 1
                self._undo.append(item.leader.log.add_waiter(item.offsets[-1][1], self._one_less))
                yield
        self._one_less()

    def _append(self, number: int, marker: Marker, place: TopicPartition) -> None:
        try:
            leader = self._led(*place)
            if leader.is_under_min_isr:
                text = f"{place[0]}-{place[1]} has fewer in-sync replicas than min.insync.replicas"
                raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, text)
            epoch = leader.leader_epoch
            done = leader.log.append_marker(marker, leader_epoch=epoch)
        except KafkaError as error:
            self._codes[number][place] = error.code
            return
        item = self._appended.setdefault((place, epoch), _Appended(leader, epoch))
        item.offsets.append((number, done.last_offset))

    def _end_in_groups_now(self) -> None:
        """Let group coordinators write the next markers, as many as they may write at the same time."""
        while self._in_groups and len(self._tasks) < _IN_GROUPS_AT_ONCE and not self._is_over:
            number, marker, place = self._in_groups.popleft()
            task = asyncio.ensure_future(self._end_in_groups(place[1], marker))
            self._tasks[task] = number, place
            task.add_done_callback(self._ended_in_group)

    def _ended_in_group(self, task: "asyncio.Future[None]") -> None:
        number, place = self._tasks.pop(task)
        if task.cancelled():
            code = ErrorCode.REQUEST_TIMED_OUT
        elif (error := task.exception()) is None:
            code = ErrorCode.NONE
        elif isinstance(error, KafkaError):
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER if error.code in _OF_THE_COORDINATOR else error.code
        else:
            log.error("the marker for %s-%d failed", *place, exc_info=error)
            code = ErrorCode.UNKNOWN_SERVER_ERROR
        self._codes[number][place] = code
        self._end_in_groups_now()
        self._one_less()

    @staticmethod
    def _waits(item: _Appended, offset: int) -> bool:
        leader = item.leader
        return (
            leader.log.high_watermark <= offset
            and leader.log.failure is None
            and leader.leader_epoch == item.leader_epoch
        )

    def _one_less(self) -> None:
        self._left -= 1
        if self._left <= 0:
            self.stop_waiting()

    def stop_waiting(self) -> None:
        """Determine the results of all partitions now. Those that still wait have timed out."""
        if not self._is_over:
            self._is_over = True
            self._slices.do(self._finish(), self.fail)

    def _finish(self) -> Steps[None]:
        for task in list(self._tasks):
            number, place = self._tasks[task]
            self._codes[number][place] = ErrorCode.REQUEST_TIMED_OUT
            yield
        for (place, _), item in self._appended.items():
            for number, offset in item.offsets:
                self._codes[number][place] = self._code(item, offset)
            yield
        for (_, places), codes in zip(self._markers, self._codes, strict=True):
            # The time was over before these were appended.
            for some in pages(places, _OF_A_STEP):
                codes.update((place, ErrorCode.REQUEST_TIMED_OUT) for place in some if place not in codes)
                yield
            yield
        if not self.result.done():
            self.result.set_result(list(self._codes))

    def _code(self, item: _Appended, offset: int) -> ErrorCode:
        leader = item.leader
        if leader.leader_epoch != item.leader_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if leader.log.high_watermark <= offset:
            failed = leader.log.failure is not None
            return ErrorCode.KAFKA_STORAGE_ERROR if failed else ErrorCode.REQUEST_TIMED_OUT
        if leader.is_under_min_isr:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def fail(self) -> None:
        """End the wait after an internal error, which is logged elsewhere."""
        if not self.result.done():
            self.result.set_exception(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "writing the markers failed"))

    def _release(self, result: "asyncio.Future[list[ResultsOfMarker]]") -> None:
        """Stop waiting for everything that is still waited for."""
        self._is_over = True
        if self.timer is not None:
            self.timer.cancel()
        while self._undo:
            self._undo.pop()()
        for task in list(self._tasks):
            task.cancel()
        if not result.cancelled():
            result.exception()
