"""The promises of every journal to the controller: in memory, on a file system, and in a real API server.

A `Place` is where a journal is kept; `process()` is a controller that starts there after the previous one was killed.
"""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest

from broker_runtime.clock import SystemClock
from broker_runtime.config import TopicConfig
from broker_runtime.controller.journal.file import FileJournal
from broker_runtime.controller.journal.kube_store import KubeStore
from broker_runtime.controller.journal.kubernetes import KubernetesJournal
from broker_runtime.controller.journal.lease import LeaseElection
from broker_runtime.controller.journal.seam import DeposedError, Journal, JournalUnavailableError, Snapshot
from broker_runtime.controller.journal.store import LeaseRecord, ObjectStore, StoreError, StoreRefusedError
from broker_runtime.metadata.areas.cluster import ClusterRecord
from broker_runtime.metadata.codec import encode_record
from broker_runtime.metadata.topic_names import METADATA_TOPIC, METADATA_TOPIC_ID
from broker_runtime.storage.disk.filesystem import FileSystem, OsFileSystem
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.log_dir.manager import LogManager
from broker_runtime.storage.records.batch import iter_batches, iter_records
from e2e.cluster.control_plane import ControlPlane
from kafka_bytes.batches import encode_batch
from tests.support.fakes.disks.memory_filesystem import MemoryFileSystem
from tests.support.fakes.inline_executor import InlineExecutor
from tests.support.fakes.journal_store import MemoryStore, SharedObjects

ROOT = Path(__file__).parents[2]
NAME = "test-metadata"
BIG = 300 * 1024


class Controller:
    """The part of a controller that uses a journal."""

    def __init__(self, log: Log, journal: Journal) -> None:
        self.log = log
        self.journal = journal
        log.sole_replica = False

    def append(self, *values: bytes) -> None:
        self.log.append(memoryview(encode_batch([(None, value) for value in values], 0)))

    async def write(self, *values: bytes) -> None:
        """Commit one batch with all values."""
        self.append(*values)
        await self.journal.commit()

    def values(self) -> list[bytes | None]:
        found: list[bytes | None] = []
        offset, end = self.log.log_start_offset, self.log.log_end_offset
        while offset < end:
            region = self.log.read(offset, 1 << 20, min_one=True, up_to=end)
            assert region is not None
            for header, batch in iter_batches(region.read()):
                found += [record.value for record in iter_records(batch)]
                offset = header.last_offset + 1
        return found

    def behind(self, snapshot: Snapshot | None) -> list[bytes | None]:
        """Values that a replay adds to the snapshot."""
        start = 0 if snapshot is None else snapshot.end_offset
        return self.values()[start - self.log.log_start_offset :]


def metadata_log(fs: FileSystem, folder: Path) -> Log:
    logs = LogManager(folder, fs=fs, clock=SystemClock())
    config = TopicConfig(retention_ms=-1, retention_bytes=-1)
    logs.open(lambda _topic: config)
    return logs.create(METADATA_TOPIC, 0, METADATA_TOPIC_ID, config)


class Place(Protocol):
    def process(self) -> Controller: ...

    async def close(self) -> None: ...


class FilePlace:
    def __init__(self) -> None:
        self.fs = MemoryFileSystem()

    def process(self) -> Controller:
        self.fs = self.fs.process_killed()
        log = metadata_log(self.fs, Path("/data"))
        return Controller(log, FileJournal(log, InlineExecutor()))

    async def close(self) -> None:
        """Do nothing: the place ends with the test."""


class DiskPlace:
    """A real file system, with fsyncs in a thread; the folder's lock ends with the previous process."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="journal-")
        self.threads = ThreadPoolExecutor(1)
        self.logs: LogManager | None = None

    def process(self) -> Controller:
        if self.logs is not None:
            self.logs.close()
        self.logs = LogManager(Path(self.folder.name), fs=OsFileSystem(), clock=SystemClock())
        config = TopicConfig(retention_ms=-1, retention_bytes=-1)
        self.logs.open(lambda _topic: config)
        log = self.logs.create(METADATA_TOPIC, 0, METADATA_TOPIC_ID, config)
        return Controller(log, FileJournal(log, self.threads))

    async def close(self) -> None:
        self.threads.shutdown()
        self.folder.cleanup()


class StorePlace:
    """A place for concurrent processes; each has its own log, as in separate pods."""

    def __init__(self, store: Callable[[], ObjectStore]) -> None:
        self.store = store
        self.stores: list[ObjectStore] = []

    def process(self) -> Controller:
        log = metadata_log(MemoryFileSystem(), Path("/data"))
        self.stores.append(self.store())
        return Controller(log, KubernetesJournal(log, self.stores[-1], NAME, patience_s=5.0))

    async def close(self) -> None:
        for store in self.stores:
            await store.close()


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        yield plane


@pytest.fixture
def namespace(plane: ControlPlane, request: pytest.FixtureRequest) -> str:
    """A separate namespace for each test, with an account that has no more rights than controllers need."""
    name = f"journal-{abs(hash(request.node.nodeid)) % 10**9}"
    plane.kubectl("create", "namespace", name)
    plane.kubectl("create", "serviceaccount", "controller", "-n", name)
    maps = ["--verb=create,get,list,update,delete", "--resource=configmaps"]
    plane.kubectl("create", "role", "journal", "-n", name, *maps)
    plane.kubectl("create", "role", "lease", "-n", name, "--verb=create,get,update", "--resource=leases")
    for role in ("journal", "lease"):
        account = f"--serviceaccount={name}:controller"
        plane.kubectl("create", "rolebinding", role, "-n", name, f"--role={role}", account)
    return name


@pytest.fixture
def api_store(plane: ControlPlane, namespace: str, tmp_path: Path) -> Callable[[], ObjectStore]:
    token = plane.kubectl("create", "token", "controller", "-n", namespace).strip()
    document = json.loads(plane.kubeconfig.read_text())
    document["users"] = [{"name": document["users"][0]["name"], "user": {"token": token}}]
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(document))
    return lambda: KubeStore(NAME, namespace, 4.0, {"KUBECONFIG": str(path)})


@pytest.fixture(params=["file", "disk", "memory", pytest.param("api", marks=pytest.mark.full)])
async def place(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    found: Place
    if request.param == "file":
        found = FilePlace()
    elif request.param == "disk":
        found = DiskPlace()
    elif request.param == "memory":
        shared = SharedObjects()
        found = StorePlace(lambda: MemoryStore(shared))
    else:
        found = StorePlace(request.getfixturevalue("api_store"))
    yield found
    await found.close()


@pytest.fixture(params=["memory", pytest.param("api", marks=pytest.mark.full)])
async def shared_place(request: pytest.FixtureRequest) -> AsyncIterator[StorePlace]:
    shared = SharedObjects()
    store = (lambda: MemoryStore(shared)) if request.param == "memory" else request.getfixturevalue("api_store")
    found = StorePlace(store)
    yield found
    await found.close()


def snapshot_at(controller: Controller, size: int = 1) -> Snapshot:
    records = [(None, encode_record(ClusterRecord("c" * 1000))) for _ in range(size)]
    return Snapshot(controller.log.log_end_offset, 7, encode_batch(records, 0))


async def test_a_new_journal_is_empty(place: Place) -> None:
    controller = place.process()
    assert await controller.journal.load() is None
    assert controller.values() == []


async def test_committed_records_are_read_by_the_next_process(place: Place) -> None:
    one = place.process()
    await one.journal.load()
    await one.write(b"a", b"b")
    one.append(b"c")
    one.append(b"d")
    await one.journal.commit()
    two = place.process()
    assert await two.journal.load() is None
    assert two.values() == [b"a", b"b", b"c", b"d"]
    assert two.log.log_end_offset == 4
    await two.write(b"e")
    three = place.process()
    await three.journal.load()
    assert three.values() == [b"a", b"b", b"c", b"d", b"e"]


async def test_a_large_commit_is_loaded_whole(place: Place) -> None:
    one = place.process()
    await one.journal.load()
    for letter in b"wxyz":
        one.append(bytes([letter]) * BIG)
    await one.journal.commit()
    two = place.process()
    await two.journal.load()
    assert two.values() == [bytes([letter]) * BIG for letter in b"wxyz"]


async def test_a_journal_returns_its_newest_snapshot_and_the_records_after_it(place: Place) -> None:
    one = place.process()
    await one.journal.load()
    await one.write(b"a", b"b", b"c")
    taken = snapshot_at(one, size=1500)
    assert len(taken.payload) > 1024 * 1024
    await one.journal.write_snapshot(taken)
    await one.write(b"d")
    two = place.process()
    found = await two.journal.load()
    assert found == taken
    assert two.behind(found) == [b"d"]
    await two.write(b"e")
    newer = snapshot_at(two)
    await two.journal.write_snapshot(newer)
    three = place.process()
    assert await three.journal.load() == newer
    assert three.behind(newer) == []
    assert three.log.log_end_offset == 5


async def test_of_two_controllers_one_is_deposed(shared_place: StorePlace) -> None:
    old, new = shared_place.process(), shared_place.process()
    await old.journal.load()
    await old.write(b"a")
    await new.journal.load()
    await new.write(b"new")
    old.append(b"old")
    with pytest.raises(DeposedError, match="offset 1"):
        await old.journal.commit()
    third = shared_place.process()
    await third.journal.load()
    assert third.values() == [b"a", b"new"]


async def test_a_controller_that_slept_through_a_compaction_is_deposed(shared_place: StorePlace) -> None:
    """The name of its next object is free again, so that it can be created; it must not count."""
    old, new = shared_place.process(), shared_place.process()
    await old.journal.load()
    await old.write(b"a")
    await new.journal.load()
    await new.write(b"new")
    taken = snapshot_at(new)
    await new.journal.write_snapshot(taken)
    await new.write(b"newer")
    old.append(b"old")
    with pytest.raises(DeposedError, match="snapshot up to 2"):
        await old.journal.commit()
    third = shared_place.process()
    assert await third.journal.load() == taken
    assert third.values() == [b"newer"]
    names = [name for part in ("batch", "manifest") for name in await shared_place.stores[0].names(part)]
    assert names == [f"{NAME}-batch-{2:020d}", f"{NAME}-manifest"]


async def test_an_older_snapshot_never_replaces_a_newer_one(shared_place: StorePlace) -> None:
    old, new = shared_place.process(), shared_place.process()
    await old.journal.load()
    await old.write(b"a")
    late = snapshot_at(old)
    await new.journal.load()
    await new.write(b"b")
    taken = snapshot_at(new)
    await new.journal.write_snapshot(taken)
    await old.journal.write_snapshot(late)
    assert await shared_place.process().journal.load() == taken


async def test_the_lease_goes_from_one_to_the_next(shared_place: StorePlace) -> None:
    shared_place.process(), shared_place.process()
    one, two = (
        LeaseElection(store, identity, 3_000, SystemClock())
        for store, identity in zip(shared_place.stores, ("1_a", "2_b"), strict=True)
    )
    await one.acquire()
    waiting = asyncio.ensure_future(two.acquire())
    keeping = asyncio.ensure_future(one.keep())
    done, _ = await asyncio.wait({waiting, keeping}, timeout=4.0)
    assert not done
    assert (one.held, one.holder_id, two.held, two.holder_id) == (True, 1, False, 1)
    keeping.cancel()
    await one.release()
    await asyncio.wait_for(waiting, 2.5)
    assert (one.held, two.held, two.holder_id) == (False, True, 2)


@pytest.mark.full
async def test_a_lease_has_its_holders_address_and_ends_unless_it_was_renewed_since(
    shared_place: StorePlace,
) -> None:
    shared_place.process(), shared_place.process()
    one, two = shared_place.stores
    taken = await one.put_lease(LeaseRecord("1_a", 3_000, 0, 0, address="10.0.0.1:9093"))
    seen = await two.lease()
    assert taken is not None
    assert seen is not None
    assert (seen.holder, seen.address) == ("1_a", "10.0.0.1:9093")
    renewed = await one.put_lease(replace(taken, renewed_ms=1))
    assert renewed is not None
    assert await two.put_lease(replace(seen, holder="")) is None
    ended = await two.put_lease(replace(renewed, holder=""))
    assert ended is not None
    assert ended.holder == ""
    assert await one.put_lease(renewed) is None, "its term is over"


@pytest.mark.full
def test_a_controller_is_reached_where_its_way_to_the_api_server_begins(api_store: Callable[[], KubeStore]) -> None:
    assert api_store().own_host() == "127.0.0.1"


@pytest.mark.full
async def test_objects_of_others_with_names_of_a_journal_are_left_alone_and_named(
    plane: ControlPlane, namespace: str, api_store: Callable[[], ObjectStore]
) -> None:
    plane.kubectl("create", "configmap", f"{NAME}-manifest", "-n", namespace, "--from-literal=mine=yes")
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": NAME}}
    plane.kubectl("create", "-n", namespace, "-f", "-", input=json.dumps(lease))
    theirs = (("configmap", f"{NAME}-manifest"), ("lease", NAME))
    before = [plane.get(kind, name, "-n", namespace) for kind, name in theirs]
    store = api_store()
    for ask, kind in ((store.get(f"{NAME}-manifest"), "ConfigMap"), (store.lease(), "Lease")):
        with pytest.raises(StoreRefusedError, match=f"{kind} {NAME}.* does not belong to this journal.*: delete it"):
            await ask
    assert await store.list("manifest") == []
    assert [plane.get(kind, name, "-n", namespace) for kind, name in theirs] == before
    await store.close()


@pytest.mark.full
async def test_an_api_server_that_is_away(plane: ControlPlane, api_store: Callable[[], ObjectStore]) -> None:
    place = StorePlace(api_store)
    one = place.process()
    await one.journal.load()
    await one.write(b"a")
    plane.pause_api_server()
    try:
        with pytest.raises(StoreError):
            await place.stores[0].get("anything")
        one.append(b"b")
        with pytest.raises(JournalUnavailableError):
            await one.journal.commit()
    finally:
        plane.resume_api_server()
    two = place.process()
    await two.journal.load()
    assert two.values() == [b"a"]
    await place.close()
