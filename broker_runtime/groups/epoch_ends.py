"""The end offsets of leader epochs, from this broker's logs and by OffsetForLeaderEpoch from other leaders.

Push groups compare the offsets of their consumers with them (`push.state.log_ends`). Thousands of consumers send
offsets at the same time, so questions for one leader wait for its previous response and are then sent together.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.partition_leaders import PAGE, PartitionLeaders
from broker_runtime.groups.push.state.log_ends import Asked, End, Ends, Partition
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.versions import OFFSET_FOR_LEADER_EPOCH

log = logging.getLogger(__name__)

_VERSION = 4
_CLIENT = -1


class _Question:
    """The questions of one caller about partitions that other brokers lead."""

    def __init__(self, then: Callable[[Ends], None]) -> None:
        self.left = 1
        """Number of pending answers, plus 1 until all questions are asked."""
        self._ends: dict[Partition, End] = {}
        self._then = then

    def answered(self, at: Partition, end: End | None) -> None:
        if end is not None:
            self._ends[at] = end
        self.one_less()

    def one_less(self) -> None:
        self.left -= 1
        if not self.left:
            self._then(self._ends)


class _Lane:
    """The questions that wait for one leader."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[Partition, int, _Question]] = deque()
        self.task: asyncio.Task[None] | None = None
        self.trouble = ""
        """Why the last request failed; empty if it was answered."""

    def page(self) -> dict[Partition, tuple[int, list[_Question]]]:
        """Take the questions of the next request.

        Questions about the same partition and different epochs go into different requests.
        """
        taken: dict[Partition, tuple[int, list[_Question]]] = {}
        while self.waiting and len(taken) < PAGE:
            at, epoch, question = self.waiting[0]
            if taken.setdefault(at, (epoch, []))[0] != epoch:
                break
            taken[at][1].append(question)
            self.waiting.popleft()
        return taken


class EpochEnds:
    """The pending questions about the ends of leader epochs.

    Each leader that has questions has a task and a connection.
    """

    def __init__(
        self,
        node_id: int,
        image: MetadataImage,
        own: Callable[[str, int, int], int | None],
        leaders: PartitionLeaders,
    ) -> None:
        """`own` maps topic, partition and leader epoch to the epoch's end offset, for a log that this broker leads."""
        self._node_id = node_id
        self._image = image
        self._own = own
        self._leaders = leaders
        self._lanes: dict[int, _Lane] = {}

    def known_ends(self, asked: Asked) -> tuple[Ends, Asked]:
        """Return the ends in the logs that this broker leads, and the questions that other leaders have to answer."""
        known: dict[Partition, End] = {}
        others: dict[Partition, int] = {}
        for at, epoch in asked.items():
            leader = self._leaders.leader(*at)
            if leader == self._node_id:
                end = self._own(*at, epoch)
                if end is not None:
                    known[at] = End(epoch, end)
            elif leader is not None:
                others[at] = epoch
        return known, others

    def ask_ends(self, asked: Asked, then: Callable[[Ends], None]) -> None:
        """Ask the leaders of partitions for the ends of their leader epochs.

        `then` gets the answers in a later iteration of the event loop, at the latest after the time limit of a request.
        Partitions without an answer are left out.
        """
        question = _Question(then)
        for at, epoch in asked.items():
            leader = self._leaders.leader(*at)
            if leader is not None and leader != self._node_id:
                question.left += 1
                lane = self._lanes.setdefault(leader, _Lane())
                lane.waiting.append((at, epoch, question))
                if lane.task is None:
                    lane.task = asyncio.get_running_loop().create_task(self._run(leader, lane))
        asyncio.get_running_loop().call_soon(question.one_less)

    async def of(self, asked: Asked) -> Ends:
        """Return all ends, from this broker's logs and from other leaders."""
        known, others = self.known_ends(asked)
        if not others:
            return known
        told: asyncio.Future[Ends] = asyncio.get_running_loop().create_future()

        def then(ends: Ends) -> None:
            if not told.done():
                told.set_result(ends)

        self.ask_ends(others, then)
        return {**known, **await told}

    async def close(self) -> None:
        tasks = [lane.task for lane in self._lanes.values() if lane.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._lanes.clear()
        self._leaders.close()

    async def _run(self, leader: int, lane: _Lane) -> None:
        """Send requests until no question waits.

        If the leader does not answer, all of its questions end without an answer.
        """
        while lane.waiting:
            page = lane.page()
            answers: dict[Partition, End] | None = None
            try:
                answers = await self._asked(leader, {at: epoch for at, (epoch, _) in page.items()})
                _note(leader, lane, "")
            except KafkaError as error:
                _note(leader, lane, str(error))
            except Exception as error:
                # Consumers would wait forever without an answer.
                if repr(error) != lane.trouble:
                    log.exception("the request to broker %d for the ends of its logs failed", leader)
                _note(leader, lane, repr(error))
            if answers is None:
                answers = {}
                for at, _, question in lane.waiting:
                    page.setdefault(at, (0, []))[1].append(question)
                lane.waiting.clear()
            for at, (_, questions) in page.items():
                for question in questions:
                    question.answered(at, answers.get(at))
        lane.task = None

    async def _asked(self, leader: int, page: Asked) -> dict[Partition, End]:
        """Send one request. Raises KafkaError.

        Partitions that the leader does not lead in the epoch that this broker knows are left out of the result.
        """
        topics: dict[str, list[Fields]] = {}
        for (topic, index), epoch in page.items():
            known = self._image.topics.get(topic)
            partition = None if known is None else known.partitions.get(index)
            if partition is not None:
                asked = {"partition": index, "current_leader_epoch": partition.leader_epoch, "leader_epoch": epoch}
                topics.setdefault(topic, []).append(asked)
        listed = [{"topic": topic, "partitions": partitions} for topic, partitions in topics.items()]
        content: dict[str, Any] = {"replica_id": _CLIENT, "topics": listed}
        answer = await self._leaders.ask(leader, OFFSET_FOR_LEADER_EPOCH, _VERSION, content)
        return {
            (topic.topic, part.partition): End(page[topic.topic, part.partition], part.end_offset)
            for topic in answer.topics
            for part in topic.partitions
            if part.error_code == ErrorCode.NONE and part.end_offset >= 0 and (topic.topic, part.partition) in page
        }


def _note(leader: int, lane: _Lane, trouble: str) -> None:
    """Log each failure once, and the recovery once."""
    if trouble != lane.trouble:
        outcome = f"cannot be checked: {trouble}" if trouble else "can be checked again"
        log.info("the log end offsets of broker %d %s", leader, outcome)
    lane.trouble = trouble
