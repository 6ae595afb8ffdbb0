"""Follows the controller's metadata log: fetches record batches and applies them to this node's image.

The log is fetched as any partition is (Kafka's Fetch, long poll), so a change reaches every broker as soon as the
controller has it on disk. The image belongs to this task: nothing else applies records to it.
"""

import asyncio
import logging
from collections.abc import Callable

from broker_runtime.cluster.link import ControllerClient
from broker_runtime.controller.image import Changes, MetadataImage
from broker_runtime.controller.records import METADATA_TOPIC, decode_record
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.batch import iter_batches, iter_records
from broker_runtime.wire.versions import FETCH

log = logging.getLogger(__name__)

_FETCH_VERSION = 12
_MAX_WAIT_MS = 1_000
_MAX_BYTES = 8 * 1024 * 1024
_RETRY_DELAY_S = 0.05
_RETRY_DELAY_MAX_S = 1.0


class MetadataFollower:
    def __init__(self, client: ControllerClient, image: MetadataImage, on_changes: Callable[[Changes], None]) -> None:
        self._client = client
        self._image = image
        self._on_changes = on_changes
        self._advanced = asyncio.Condition()
        self.next_offset = 0
        self.end_offset = -1
        """The controller's high watermark as of the last fetch; -1 before the first."""

    @property
    def caught_up(self) -> bool:
        return 0 <= self.end_offset <= self.next_offset

    async def run(self) -> None:
        delay_s = _RETRY_DELAY_S
        while True:
            try:
                await self._fetch_once()
                delay_s = _RETRY_DELAY_S
            except KafkaError as error:
                log.warning("metadata cannot be fetched, trying again: %s", error)
                await asyncio.sleep(delay_s)
                delay_s = min(delay_s * 2, _RETRY_DELAY_MAX_S)

    async def wait_until(self, seen: Callable[[MetadataImage], bool], timeout_s: float) -> bool:
        """Whether `seen` came true of the image in time."""
        try:
            async with asyncio.timeout(timeout_s), self._advanced:
                await self._advanced.wait_for(lambda: seen(self._image))
        except TimeoutError:
            return False
        return True

    async def _fetch_once(self) -> None:
        partition = {
            "partition": 0,
            "current_leader_epoch": -1,
            "fetch_offset": self.next_offset,
            "last_fetched_epoch": -1,
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
        )
        found = answer.responses[0].partitions[0]
        if int(found.error_code):
            raise KafkaError(ErrorCode(int(found.error_code)), "the controller refused a metadata fetch")
        changes = Changes()
        if found.records:
            for _, batch in iter_batches(found.records):
                for record in iter_records(batch):
                    if record.offset >= self.next_offset:
                        changes.merge(self._image.apply(decode_record(record.value), record.offset))
                        self.next_offset = record.offset + 1
        self.end_offset = found.high_watermark
        if changes:
            self._on_changes(changes)
        async with self._advanced:
            self._advanced.notify_all()
