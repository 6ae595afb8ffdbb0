"""Follow the controller's metadata log: fetch record batches and apply them to this node's image.

The log is fetched like any partition (Kafka's Fetch, long poll), so a change reaches every broker as soon as the
controller has it on disk. This task owns the image: nothing else applies records to it.

A node whose next record is not in the log (OFFSET_OUT_OF_RANGE) fetches the newest snapshot instead (FetchSnapshot),
and reacts to the differences. This happens to a node that was away for long. It also happens to a node that has
metadata that the controller lacks, judged by the offset or by the controller's epoch at that offset. Then the
controller's data was restored from an older copy: the node logs an error and takes over the controller's metadata.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial

from broker_runtime.apis.fetch.fetch_snapshot import NEWEST
from broker_runtime.cluster.links.link import ControllerClient
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.changes import Changes
from broker_runtime.metadata.codec import decode_record
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.metadata.snapshots import SnapshotFormatError, load_in_steps
from broker_runtime.metadata.topic_names import METADATA_TOPIC
from broker_runtime.slicing.letting_go import freed
from broker_runtime.slicing.slices import over_slices
from broker_runtime.storage.records.batch import iter_batches, iter_records
from broker_runtime.wire.messages import Entity
from broker_runtime.wire.versions import FETCH, FETCH_SNAPSHOT

log = logging.getLogger(__name__)

_FETCH_VERSION = 12
_MAX_WAIT_MS = 1_000
_MAX_BYTES = 8 * 1024 * 1024
_ANSWER_TIMEOUT_S = 3.0
"""Added to the longest wait: a controller that takes longer counts as unavailable."""
_SNAPSHOT_BYTES_MAX = 1024 * 1024 * 1024
_RETRY_DELAY_S = 0.05
_RETRY_DELAY_MAX_S = 0.2
_RECORDS_PER_SLICE = 100
_SAID_EVERY = 50
"""One of this many rounds without success is logged, after the first."""


class MetadataFollower:
    """Keeps the metadata image of a node up to date: fetches and applies records in a loop.

    The node is not the active controller.
    """

    def __init__(
        self,
        client: ControllerClient,
        image: MetadataImage,
        publish: Callable[[Changes, Callable[[], None]], None],
        others: Sequence[ControllerClient] = (),
    ) -> None:
        """`publish` gets the changes of the image, and calls back when they are in force on this node.

        `others` are redirected to the active controller after it has changed.
        """
        self._client = client
        self._others = others
        self._controller_epoch = image.cluster.controller_epoch
        self._image = image
        self._publish = publish
        self._moved = asyncio.Event()
        self.next_offset = 0
        """Next offset to fetch; the image contains all records below it."""
        self.applied_offset = -1
        """Last record up to which everything is in force on this node, or has failed and is retried."""
        self.end_offset = -1
        """The controller's high watermark as of the last fetch; -1 before the first."""
        self.fetches_answered = 0
        self._started_over = False
        """Whether the follower started over with a snapshot, and no fetch has succeeded since."""

    @property
    def caught_up(self) -> bool:
        return 0 <= self.end_offset <= self.applied_offset + 1

    @property
    def lag(self) -> int:
        """Return the number of records that are not applied yet, as far as this node knows."""
        return max(self.end_offset - self.applied_offset - 1, 0)

    async def run(self) -> None:
        failures = 0
        while True:
            try:
                await self._fetch_once()
                failures = 0
            except KafkaError as error:
                failures += 1
                rounds, of_this = divmod(failures, self._client.choices)
                if of_this:
                    # A standby may have answered; the next controller may be active.
                    continue
                if rounds == 1 or rounds % _SAID_EVERY == 0:
                    log.warning("metadata cannot be fetched; retrying: %s", error)
                await asyncio.sleep(min(_RETRY_DELAY_S * 2 ** min(rounds - 1, 8), _RETRY_DELAY_MAX_S))

    async def wait_until(self, seen: Callable[[MetadataImage], bool], timeout_s: float) -> bool:
        """Wait until the image fulfils `seen` and is in force. Return whether both came within the timeout."""
        try:
            async with asyncio.timeout(timeout_s):
                while not seen(self._image):
                    await self._moved.wait()
                last_offset = self.next_offset - 1
                while self.applied_offset < last_offset:
                    await self._moved.wait()
        except TimeoutError:
            return False
        return True

    def _applied(self, offset: int) -> None:
        self.applied_offset = offset
        self._notify()

    def _notify(self) -> None:
        """Wake the tasks that wait for changes, so that they check again."""
        self._moved.set()
        self._moved = asyncio.Event()

    async def _fetch_once(self) -> None:
        partition = {
            "partition": 0,
            "current_leader_epoch": -1,
            "fetch_offset": self.next_offset,
            "last_fetched_epoch": self._image.cluster.controller_epoch or -1,
            "log_start_offset": -1,
            "partition_max_bytes": _MAX_BYTES,
        }
        answer = await self._client.request(
            FETCH,
            _FETCH_VERSION,
            {
                "replica_id": -1,
                "max_wait": _MAX_WAIT_MS,
                "min_bytes": 1,
                "max_bytes": _MAX_BYTES,
                "isolation_level": 0,
                "session_id": 0,
                "session_epoch": -1,
                "topics": [{"topic": METADATA_TOPIC, "partitions": [partition]}],
                "forgotten_topics_data": [],
                "rack_id": "",
            },
            timeout_s=_MAX_WAIT_MS / 1000 + _ANSWER_TIMEOUT_S,
        )
        found = _only_partition(answer.responses)
        if int(found.error_code) == ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._start_over()
            return
        self._check(found, "a metadata fetch")
        self._started_over = False
        changes = await self._taken_over(found.records) if found.records else Changes()
        self.end_offset = found.high_watermark
        self.fetches_answered += 1
        self._publish_changes(changes)

    async def _taken_over(self, records: bytes) -> Changes:
        """Apply all records of a response, or none if one cannot be read or applied; then raise the error.

        Many records are read and applied over several iterations of the event loop, to a copy, so that all become
        visible at once.
        """
        new = [pair async for pair in self._read(records)]
        changes = Changes()
        # A single record is applied, or raises before it has changed anything.
        image = self._image.copy() if len(new) > 1 else self._image
        for number, (record, offset) in enumerate(new, 1):
            changes.update(image.apply(record, offset))
            if number % _RECORDS_PER_SLICE == 0:
                await asyncio.sleep(0)
        if new:
            self._image.become(image)
            self.next_offset = new[-1][1] + 1
        return changes

    async def _read(self, records: bytes) -> AsyncIterator[tuple[MetadataRecord, int]]:
        number = 0
        for _, batch in iter_batches(records):
            for record in iter_records(batch):
                if record.offset >= self.next_offset:
                    yield decode_record(record.value), record.offset
                    number += 1
                    if number % _RECORDS_PER_SLICE == 0:
                        await asyncio.sleep(0)

    def _publish_changes(self, changes: Changes) -> None:
        if self._controller_epoch != self._image.cluster.controller_epoch:
            self._controller_epoch = self._image.cluster.controller_epoch
            for other in self._others:
                other.follow(self._client)
        self._publish(changes, partial(self._applied, self.next_offset - 1))
        self._notify()

    def _check(self, found: Entity, what: str) -> None:
        code = ErrorCode(int(found.error_code))
        if code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self._client.move_on()
        if code != ErrorCode.NONE:
            raise KafkaError(code, f"the controller refused {what}")

    # Snapshots

    async def _start_over(self) -> None:
        """Load the newest snapshot, or restart from the beginning of the log if there is none yet."""
        snapshot = await self._fetch_snapshot()
        end_offset, payload = snapshot if snapshot is not None else (0, b"")
        if self._started_over:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, "the controller's log does not continue from its snapshot")
        if end_offset > self.next_offset:
            log.info(
                "metadata continues from a snapshot at offset %d; this node was at offset %d",
                end_offset,
                self.next_offset,
            )
        else:
            log.error(
                "the controller does not have the metadata of this node, which is at offset %d: the controller's "
                "data was restored from an older copy or belongs to another cluster; this node starts over at "
                "offset %d",
                self.next_offset,
                end_offset,
            )
        try:
            fresh = MetadataImage() if snapshot is None else await over_slices(load_in_steps(payload, end_offset))
        except SnapshotFormatError as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the controller's metadata snapshot: {error}") from error
        changes = await over_slices(self._image.replace_by(fresh))
        self._started_over = True
        self.next_offset = end_offset
        self.end_offset = -1
        self._publish_changes(changes)
        # Other code may still read the former table, so it is not emptied. If there is none, its topics are freed in
        # steps, and not with the table.
        former = [list(fresh.topics.values())]
        del fresh
        await over_slices(freed(former))

    async def _fetch_snapshot(self) -> tuple[int, bytes] | None:
        """Return (end offset, records); None if the controller has no snapshot.

        Raises KafkaError, also if the controller took a new snapshot meanwhile.
        """
        payload = bytearray()
        wanted = {"end_offset": NEWEST, "epoch": NEWEST}
        while True:
            partition = {"partition": 0, "current_leader_epoch": -1, "snapshot_id": wanted, "position": len(payload)}
            answer = await self._client.request(
                FETCH_SNAPSHOT,
                0,
                {
                    "replica_id": -1,
                    "max_bytes": _MAX_BYTES,
                    "topics": [{"name": METADATA_TOPIC, "partitions": [partition]}],
                },
                timeout_s=_ANSWER_TIMEOUT_S,
            )
            found = _only_partition(answer.topics)
            if int(found.error_code) == ErrorCode.SNAPSHOT_NOT_FOUND and not payload:
                return None
            self._check(found, "a metadata snapshot")
            wanted = {"end_offset": found.snapshot_id.end_offset, "epoch": found.snapshot_id.epoch}
            payload += found.unaligned_records
            if len(payload) >= found.size:
                return int(found.snapshot_id.end_offset), bytes(payload)
            if not found.unaligned_records or found.size > _SNAPSHOT_BYTES_MAX:
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE, f"a metadata snapshot of {found.size} bytes did not arrive completely"
                )


def _only_partition(topics: Iterable[Entity]) -> Entity:
    for topic in topics:
        for partition in topic.partitions:
            return partition
    raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the controller's response lacks the requested partition")
