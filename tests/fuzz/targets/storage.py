"""Files of a log folder after any damage: a start reads them, and clients get records that were written, or errors."""

from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from broker_runtime.config import TopicConfig
from broker_runtime.errors import ConfigError, KafkaError
from broker_runtime.slicing.steps import at_once
from broker_runtime.storage.disk.checkpoint import read_offsets, read_topic_id, write_offsets
from broker_runtime.storage.disk.epochs import LeaderEpochs
from broker_runtime.storage.disk.filesystem import read_file, replace_file
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.log.time_search import first_since, newest
from broker_runtime.storage.log_dir.manager import LogManager
from broker_runtime.storage.records.producers import ProducerStates, StoredBatch
from kafka_bytes.batches import ProducerStamp
from kafka_bytes.checksum import crc32c
from tests.fuzz.target import Cut, Target
from tests.support.fakes.disks.memory_filesystem import MemoryFileSystem
from tests.support.fakes.manual_clock import ManualClock
from tests.support.logs.logs import LOG_DIR, RETENTION_AT_EACH_TICK, LogHouse, values_of

_CONFIG = TopicConfig(segment_bytes=400, index_interval_bytes=60, file_delete_delay_ms=0)
_VALUES = [b"%02d" % number for number in range(24)]
_SOME_MS = 1_700_000_010_000
_UNPACKED_MAX = 1 << 20
_FOLDER = LOG_DIR / "orders-0"
_FILE = Path("/file")


@cache
def _stopped() -> MemoryFileSystem:
    """Return the folder of a broker that was killed; it has all kinds of files."""
    house = LogHouse(_CONFIG)
    for number, value in enumerate(_VALUES):
        house.append(value, producer=ProducerStamp(9, 0, number), leader_epoch=number // 8)
        house.clock.advance(1)
    house.log.flush()
    house.logs.note_recovery_points()
    at_once(house.logs.tick())
    return house.fs.process_killed()


@cache
def _files() -> tuple[Path, ...]:
    fs = _stopped()
    found = [folder / name for folder in (LOG_DIR, _FOLDER) for name in sorted(fs.listdir(folder))]
    return tuple(path for path in found if not fs.is_dir(path))


def _log_folder(data: bytes) -> None:
    """One file gets other content, or loses or changes some of its bytes."""
    fs = _stopped().copy()
    cut = Cut(data)
    path = _files()[cut.number(len(_files()))]
    content = bytearray(read_file(fs, path))
    at, way = cut.number(256) * max(1, len(content)) // 256, cut.number(3)
    replaced = cut.rest()
    if way == 0:
        content[at : at + len(replaced)] = replaced
    elif way == 1:
        content[at:] = replaced
    else:
        content[:] = replaced
    replace_file(fs, path, bytes(content))
    _serve(fs)


def _serve(fs: MemoryFileSystem) -> None:
    logs = LogManager(LOG_DIR, fs=fs, clock=ManualClock())
    logs.upkeep.configure(RETENTION_AT_EACH_TICK)
    try:
        logs.open(lambda _: _CONFIG)
    except ConfigError:
        return
    log = logs.get("orders", 0)
    if log is not None:
        log.sole_replica = True
        with suppress(KafkaError):
            assert set(values_of(log)) <= set(_VALUES)
        with suppress(KafkaError):
            _search(log)
    at_once(logs.tick())
    logs.close()


def _search(log: Log) -> None:
    """Search by time, which reads the index of times."""
    for search in (first_since(log, _SOME_MS, _UNPACKED_MAX), newest(log, _UNPACKED_MAX)):
        with suppress(StopIteration):
            step = next(search)
            while True:
                step = search.send(step())


def _log_folders() -> Iterable[bytes]:
    for number, path in enumerate(_files()):
        content = read_file(_stopped(), path)
        yield bytes((number, 0, 2)) + content
        yield bytes((number, 128, 0)) + content[:9]
        yield bytes((number, 128, 1)) + content[-20:]


def _checkpoint(data: bytes) -> None:
    fs = MemoryFileSystem()
    replace_file(fs, _FILE, data)
    with suppress(ValueError):
        found = read_offsets(fs, _FILE)
        write_offsets(fs, _FILE, found)
        assert read_offsets(fs, _FILE) == found


def _topic_id(data: bytes) -> None:
    fs = MemoryFileSystem()
    fs.mkdir(_FOLDER)
    replace_file(fs, _FOLDER / "partition.metadata", data)
    with suppress(ValueError):
        read_topic_id(fs, _FOLDER)


def _epochs(data: bytes) -> None:
    with suppress(ValueError):
        found = LeaderEpochs.decode(data)
        assert LeaderEpochs.decode(found.encode()).entries == found.entries


def _producers(data: bytes) -> None:
    cut = Cut(data)
    content = cut.rest()
    if cut.number(2) and len(content) > 6:
        content = _checked(content[1:])
    states = ProducerStates()
    with suppress(ValueError):
        states.decode(content)
        again = ProducerStates()
        again.decode(states.encode())
        assert [(number, state.entry) for number, state in again] == [(number, state.entry) for number, state in states]


def _checked(content: bytes) -> bytes:
    """Return the snapshot with a right checksum."""
    return content[:2] + crc32c(content[6:]).to_bytes(4, "big") + content[6:]


def _producer_snapshots() -> Iterable[bytes]:
    states = ProducerStates()
    for number in range(3):
        states.record(number, 1, StoredBatch(0, 4, 10, 14, 1_700_000_000_000), 1_700_000_000_000)
    yield b"\x00" + states.encode()


TARGETS = (
    Target("log-folder", _log_folder, _log_folders),
    Target("offset-checkpoint", _checkpoint, lambda: (b"0\n2\norders 0 5\nother 11 7\n",), 512),
    Target("partition-metadata", _topic_id, lambda: (b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABw\n",), 256),
    Target("leader-epochs", _epochs, lambda: (b"0\n2\n0 0\n1 5\n",), 256),
    Target("producer-snapshot", _producers, _producer_snapshots),
)
