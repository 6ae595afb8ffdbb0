"""The few effects that only a real file system shows."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker_runtime.config import TopicConfig
from broker_runtime.errors import ConfigError, ErrorCode, KafkaError
from broker_runtime.slicing.steps import at_once
from broker_runtime.storage.disk.filesystem import OsFileSystem
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.log_dir.manager import LogManager
from kafka_bytes.batches import encode_batch
from tests.support.fakes.manual_clock import ManualClock
from tests.support.fakes.virtual_time import run
from tests.support.logs.logs import RETENTION_AT_EACH_TICK, TOPIC_ID, values_of


@contextmanager
def _largest_file(size_bytes: int) -> Iterator[None]:
    """Make writes past this size come back short, then fail, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _opened(log_dir: Path, config: TopicConfig) -> tuple[LogManager, Log]:
    logs = LogManager(log_dir, fs=OsFileSystem(), clock=ManualClock())
    logs.upkeep.configure(RETENTION_AT_EACH_TICK)
    logs.open(lambda _topic: config)
    return logs, logs.create("orders", 0, TOPIC_ID, config)


def _append(log: Log, value: bytes) -> int:
    return log.append(memoryview(encode_batch([(None, value)], 1))).base_offset


def test_regions_name_the_bytes_of_a_real_descriptor(tmp_path: Path) -> None:
    logs, log = _opened(tmp_path / "data", TopicConfig(segment_bytes=500, retention_bytes=0, file_delete_delay_ms=0))
    for number in range(20):
        _append(log, b"%02d" % number)
    region = log.read(3, 200, min_one=True, up_to=20)
    assert region is not None
    held = region.read()
    assert os.pread(region.file.fileno(), region.length, region.offset) == held
    at_once(logs.tick())
    at_once(logs.tick())
    assert log.log_start_offset > 3
    assert os.pread(region.file.fileno(), region.length, region.offset) == held
    logs.close()


def test_a_short_write_is_rolled_back(tmp_path: Path) -> None:
    logs, log = _opened(tmp_path / "data", TopicConfig())
    _append(log, b"a")
    used = log.size
    with _largest_file(used + 30), pytest.raises(KafkaError) as caught:
        _append(log, b"x" * 100)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (tmp_path / "data" / "orders-0" / "00000000000000000000.log").stat().st_size == used
    assert _append(log, b"b") == 1
    assert values_of(log) == [b"a", b"b"]
    logs.close()


def test_a_cleaning_keeps_more_small_batches_than_one_write_takes(tmp_path: Path) -> None:
    logs, log = _opened(tmp_path / "data", TopicConfig(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0))
    for turn in range(2):
        for number in range(1_500):
            log.append(memoryview(encode_batch([(b"k%d" % number, b"%d" % turn)], 1)))
    log.files.roll()
    log.flush()
    clock = log.place.clock
    assert isinstance(clock, ManualClock)
    assert run(logs.cleaner.clean_filthiest(), clock)
    assert log.first_dirty_offset == 3_000
    assert values_of(log) == [b"1"] * 1_500
    logs.close()


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"log\.dirs=.*cannot be used"):
        _opened(tmp_path / "file" / "data", TopicConfig())


def test_a_clean_close_frees_the_folder_for_the_next_process(tmp_path: Path) -> None:
    logs, log = _opened(tmp_path / "data", TopicConfig(segment_bytes=300))
    for number in range(20):
        _append(log, b"%02d" % number)
    logs.close()
    again, log = _opened(tmp_path / "data", TopicConfig(segment_bytes=300))
    assert values_of(log) == [b"%02d" % number for number in range(20)]
    again.close()
