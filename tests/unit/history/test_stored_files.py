"""Files that the release which begins their history wrote: every later release reads them.

A file is never changed. If a release writes another form, it gets a further file, and this one is still read.
tests/support/logs/history.py wrote the folder of logs.
"""

import json
from pathlib import Path

from audit_pipeline.spool.events import events_of
from audit_pipeline.spool.spool import read_header, read_spool
from broker_runtime.config import TopicConfig
from broker_runtime.controller.journal.kubernetes import KubernetesJournal
from broker_runtime.controller.journal.store import StoredObject
from broker_runtime.metadata.topic_names import METADATA_TOPIC, METADATA_TOPIC_ID
from broker_runtime.storage.disk.filesystem import OsFileSystem
from broker_runtime.storage.disk.ledger import read_ledger
from broker_runtime.storage.log_dir.manager import LogManager
from broker_runtime.storage.records.batch import iter_batches, iter_records
from tests.support.fakes.journal_store import MemoryStore, SharedObjects
from tests.support.fakes.manual_clock import ManualClock
from tests.support.logs.history import SEGMENT_BYTES, write_log_dir
from tests.support.logs.logs import TOPIC_ID, values_of
from tests.support.logs.transactions import committed_values

HERE = Path(__file__).parent


def log_dir(place: Path) -> Path:
    """The folder of logs, as it was written."""
    for name, content in json.loads((HERE / "log_dir.json").read_text(encoding="utf-8")).items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(bytes.fromhex(content))
    return place


def test_a_folder_of_logs_is_read_completely(tmp_path: Path) -> None:
    folder = log_dir(tmp_path / "data")
    config = TopicConfig(segment_bytes=SEGMENT_BYTES)
    assert read_ledger(OsFileSystem(), folder)["orders", 0].topic_id == TOPIC_ID
    logs = LogManager(folder, fs=OsFileSystem(), clock=ManualClock())
    report = logs.open(lambda _topic: config)
    log = logs.create("orders", 0, TOPIC_ID, config)
    log.sole_replica = True
    assert report.clean, report
    assert (report.cut, report.indexes_rebuilt, report.segments_scanned) == ((0, 0), 0, 0)
    assert (log.log_start_offset, log.log_end_offset, log.last_stable_offset) == (0, 8, 7)
    assert log.files.epochs.entries == [(0, 0), (2, 3), (5, 6)]
    written = {b"plain", b"idempotent", b"aborted", b"committed", b"open"}
    assert written <= set(values_of(log))
    assert committed_values(log) == [b"plain", None, b"idempotent", b"committed"]
    assert log.aborted_transactions(0, 8) == [(7, 3)]
    assert {producer: state.epoch for producer, state in log.producers} == {7: 0, 8: 0, 9: 1}
    logs.close()


def test_the_same_log_has_the_same_bytes(tmp_path: Path) -> None:
    write_log_dir(tmp_path / "data")
    folder = tmp_path / "data"
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock"]
    written = {path.relative_to(folder).as_posix(): path.read_bytes().hex() for path in files}
    assert written == json.loads((HERE / "log_dir.json").read_text(encoding="utf-8"))


def test_a_spool_of_the_audit_log_is_read_completely() -> None:
    files = {name: bytes.fromhex(content) for name, content in json.loads((HERE / "spool.json").read_text()).items()}
    content = read_spool(files["0001-00000001.spool"], read_header(files["0001.lock"]))
    assert (content.header.cluster_id, content.header.broker_id, content.header.boot_id) == ("cluster", 7, "0001")
    assert content.end is not None
    assert not content.damages
    events = [event for block in content.blocks for event in events_of(content.header, block)]
    assert {"request", "partition"} <= {table for table, _ in events}
    assert [event["topic"] for table, event in events if table == "partition"] == ["orders"]


async def test_the_objects_of_a_journal_in_kubernetes_are_read_completely(tmp_path: Path) -> None:
    shared = SharedObjects()
    for name, (part, content) in json.loads((HERE / "journal_objects.json").read_text(encoding="utf-8")).items():
        shared.objects[name] = part, StoredObject(name, bytes.fromhex(content), shared.next_version())
    logs = LogManager(tmp_path / "metadata", fs=OsFileSystem(), clock=ManualClock())
    logs.open(lambda _topic: TopicConfig())
    log = logs.create(METADATA_TOPIC, 0, METADATA_TOPIC_ID, TopicConfig())
    snapshot = await KubernetesJournal(log, MemoryStore(shared), "m", patience_s=4.0).load()
    assert snapshot is not None
    assert (snapshot.end_offset, snapshot.epoch) == (2, 1)
    ((_, batch),) = iter_batches(snapshot.payload)
    assert [record.value for record in iter_records(bytes(batch))] == [b"s"]
    log.sole_replica = True
    assert values_of(log) == [b"three"]
    logs.close()
