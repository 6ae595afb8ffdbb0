"""Clients that read a partition with an isolation level, and apply Kafka's algorithm to aborted transactions."""

import asyncio
from collections.abc import Sequence

from broker_runtime.errors import ErrorCode
from broker_runtime.storage.records.batch import iter_batches, iter_records
from broker_runtime.wire.messages import Entity, Fields
from broker_runtime.wire.versions import FETCH, OFFSET_FETCH
from kafka_bytes.batches import CONTROL, TRANSACTIONAL
from kafka_bytes.control import parse_marker
from tests.simulation.cluster.connection import ClusterView, Key, Unanswered
from tests.simulation.cluster.members.commits import fetch_fields
from tests.simulation.cluster.members.coordinator import Coordinator
from tests.support.transactions.history import Reading, Seen

_FETCH_VERSION, _OFFSET_FETCH_VERSION = 12, 8
_RECORDS_BYTES = 4_000
"""Small, so that a transaction often spans several answers."""


class PartitionReader:
    """Reads a partition in order. Each call of `some` sends one request."""

    def __init__(self, reading: Reading, view: ClusterView) -> None:
        self.reading = reading
        self.stopped = False
        self._view = view

    async def run(self) -> None:
        """Read on until the reader is stopped."""
        while not self.stopped:
            if not await self.some():
                await asyncio.sleep(self._view.random.uniform(0.02, 0.1))

    async def some(self, wait_ms: int = 500) -> bool:
        """Read on from the position. Returns whether a broker has answered with records."""
        reading = self.reading
        await self._view.leader_known(reading.key)
        try:
            answer, _ = await self._view.ask_leader(reading.key, FETCH, _FETCH_VERSION, self._request(wait_ms))
        except Unanswered:
            return False
        part = answer.responses[0].partitions[0]
        if int(part.error_code) != ErrorCode.NONE:
            self._view.leaders.pop(reading.key, None)
            return False
        before = reading.position
        self._take(part)
        return reading.position > before

    def _request(self, wait_ms: int) -> Fields:
        partition = {
            "partition": self.reading.key[1],
            "current_leader_epoch": -1,
            "fetch_offset": self.reading.position,
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "partition_max_bytes": _RECORDS_BYTES,
        }
        return {
            "replica_id": -1,
            "max_wait": wait_ms,
            "min_bytes": 1,
            "max_bytes": 1_000_000,
            "isolation_level": int(self.reading.is_committed_only),
            "session_id": 0,
            "session_epoch": -1,
            "topics": [{"topic": self.reading.key[0], "partitions": [partition]}],
            "forgotten_topics_data": [],
            "rack_id": "",
        }

    def _take(self, part: Entity) -> None:
        reading = self.reading
        waiting = sorted(
            (int(each.first_offset), int(each.producer_id))
            for each in (part.aborted_transactions or () if reading.is_committed_only else ())
        )
        aborted: set[int] = set()
        for header, batch in iter_batches(part.records or b""):
            while waiting and waiting[0][0] <= header.last_offset:
                aborted.add(waiting.pop(0)[1])
            if header.attributes & CONTROL:
                marker = parse_marker(batch, header)
                if marker is not None and not marker.is_commit:
                    aborted.discard(header.producer_id)
            elif not (header.attributes & TRANSACTIONAL and header.producer_id in aborted):
                reading.seen += [
                    Seen(record.offset, record.value or b"")
                    for record in iter_records(batch)
                    if record.offset >= reading.position
                ]
            reading.position = max(reading.position, header.last_offset + 1)


class GroupOffset:
    """The committed offset of a group in one partition, as a client asks for it."""

    def __init__(self, group: str, key: Key, view: ClusterView) -> None:
        self._group = group
        self._key = key
        self._view = view
        self._coordinator = Coordinator(view, group)

    async def stable(self) -> int:
        """Return the offset once no transaction that commits it is open (KIP-447), or 0 if there is none."""
        content = {**fetch_fields(self._group, self._key[0], (self._key[1],)), "require_stable": True}
        while True:
            try:
                answer = await self._coordinator.ask(OFFSET_FETCH, _OFFSET_FETCH_VERSION, content)
            except Unanswered:
                await self._pause()
                continue
            found = answer.groups[0]
            code = ErrorCode(int(found.error_code))
            if code == ErrorCode.NONE:
                part = found.topics[0].partitions[0]
                if int(part.error_code) == ErrorCode.NONE:
                    return max(int(part.committed_offset), 0)
            self._coordinator.note(code)
            await self._pause()

    async def _pause(self) -> None:
        await asyncio.sleep(self._view.random.uniform(0.02, 0.2))


def since(reading: Reading, offset: int) -> Sequence[Seen]:
    """Return the records that were read from an offset on."""
    return [seen for seen in reading.seen if seen.offset >= offset]
