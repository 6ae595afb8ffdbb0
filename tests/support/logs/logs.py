"""Logs in memory for tests: a folder that can be opened, killed and opened again, and batches to append."""

import random
from pathlib import Path
from uuid import UUID

from broker_runtime.config import BrokerConfig, TopicConfig
from broker_runtime.storage.disk.disk import Disk
from broker_runtime.storage.log.follower_log import FollowerLog
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.log_dir.manager import LogManager
from broker_runtime.storage.records.batch import iter_batches, iter_records
from broker_runtime.storage.recovery.recovery import RecoveryReport
from kafka_bytes.batches import NO_PRODUCER, Header, ProducerStamp, encode_batch
from tests.support.fakes.disks.memory_filesystem import MemoryFileSystem
from tests.support.fakes.manual_clock import ManualClock

LOG_DIR = Path("/data")
RETENTION_AT_EACH_TICK = BrokerConfig(log_retention_check_interval_ms=0, log_initial_task_delay_ms=0)
TOPIC_ID = UUID(int=7)


class LogHouse:
    """One log.dirs folder with one partition `orders-0`, and the faults of its machine."""

    def __init__(self, config: TopicConfig | None = None, disk: Disk | None = None) -> None:
        self.disk = disk
        self.config = config if config is not None else TopicConfig()
        self.clock = ManualClock()
        self.fs = MemoryFileSystem()
        self.report = self._open()

    def _open(self) -> RecoveryReport:
        self.logs = self.manager()
        report = self.logs.open(lambda _topic: self.config)
        self.log: Log = self.logs.create("orders", 0, TOPIC_ID, self.config)
        self.log.sole_replica = True
        return report

    def manager(self) -> LogManager:
        logs = LogManager(LOG_DIR, fs=self.fs, clock=self.clock, disk=self.disk)
        logs.upkeep.configure(RETENTION_AT_EACH_TICK)
        return logs

    @property
    def follower(self) -> FollowerLog:
        return FollowerLog(self.log)

    def open_again(self) -> RecoveryReport:
        """Open the folder after the log was closed, or after its process was killed."""
        self.report = self._open()
        return self.report

    def restart(self) -> RecoveryReport:
        self.logs.close()
        return self.open_again()

    def kill(self) -> RecoveryReport:
        self.fs = self.fs.process_killed()
        self.report = self._open()
        return self.report

    def lose_power(self, seed: int, *, keeps_names: bool = False) -> RecoveryReport:
        self.fs = self.fs.power_loss(random.Random(seed), keeps_names=keeps_names)
        self.report = self._open()
        return self.report

    def append(
        self,
        *values: bytes,
        producer: ProducerStamp = NO_PRODUCER,
        timestamp_ms: int | None = None,
        leader_epoch: int = 0,
    ) -> int:
        """Append one batch of these values; return its base offset."""
        at = self.clock.wall_ms() if timestamp_ms is None else timestamp_ms
        batch = encode_batch([(b"k", value) for value in values], at, producer)
        return self.log.append(memoryview(batch), leader_epoch=leader_epoch).base_offset


def read_all(log: Log, max_bytes: int = 1 << 20) -> list[tuple[Header, bytes]]:
    """Every readable batch from the log's start, as a consumer pages through it."""
    found = []
    offset = log.log_start_offset
    while (region := log.read(offset, max_bytes, min_one=True, up_to=log.high_watermark)) is not None:
        for header, batch in iter_batches(region.read()):
            found.append((header, bytes(batch)))
            offset = header.last_offset + 1
    return found


def values_of(log: Log) -> list[bytes | None]:
    return [record.value for _, batch in read_all(log) for record in iter_records(batch)]
