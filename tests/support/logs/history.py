"""Writes the folder of logs in tests/unit/history/log_dir, as the release that begins its history wrote it.

The committed files stay as they are: a later release reads them. `python -m tests.support.logs.history FOLDER` writes
such a folder with today's code, for a further entry of the history.
"""

import sys
from pathlib import Path

from broker_runtime.config import TopicConfig
from broker_runtime.storage.disk.filesystem import OsFileSystem
from broker_runtime.storage.log_dir.manager import LogManager
from kafka_bytes.batches import ProducerStamp, encode_batch
from tests.support.fakes.manual_clock import ManualClock
from tests.support.logs.logs import TOPIC_ID
from tests.support.logs.transactions import end, write

SEGMENT_BYTES = 400


def write_log_dir(place: Path) -> None:
    """Write two segments: plain and idempotent batches, of three leader epochs, and transactions with both ends."""
    config = TopicConfig(segment_bytes=SEGMENT_BYTES, index_interval_bytes=100)
    logs = LogManager(place, fs=OsFileSystem(), clock=ManualClock())
    logs.open(lambda _topic: config)
    log = logs.create("orders", 0, TOPIC_ID, config)
    log.sole_replica = True
    log.append(memoryview(encode_batch([(b"k", b"plain"), (None, None)], 1_000)), leader_epoch=0)
    log.append(memoryview(encode_batch([(b"k", b"idempotent")], 2_000, ProducerStamp(9, 1, 0))), leader_epoch=0)
    write(log, b"aborted", producer_id=7, leader_epoch=2)
    write(log, b"committed", producer_id=8, leader_epoch=2)
    end(log, producer_id=7, is_commit=False, leader_epoch=2)
    end(log, producer_id=8, leader_epoch=5)
    write(log, b"open", producer_id=8, sequence=1, leader_epoch=5)
    logs.close()


if __name__ == "__main__":
    write_log_dir(Path(sys.argv[1]))
