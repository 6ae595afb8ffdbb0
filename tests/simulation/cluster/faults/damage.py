"""Damage of files at rest: a flipped byte, a lost file, a lost folder, on the disk of a node that is down.

One broker's disk at a time, so that good copies of its replicas exist. If any number of brokers may lose power
(flush.messages=1), the proof of those copies must exist too, so all are in sync then. Only a damaged metadata log may
stop a node from starting; that disk is then restored, as the node's last log lines say. As in Kafka, bytes of a segment
that no start reads again stay damaged until they are read. Where such a byte is flipped here, the segment has lost its
index, too.

Files without a trace elsewhere on the disk are left alone: a partition that the ledger does not name yet, and a segment
without a record covered by a checkpoint. They are younger than the last checkpoint of high watermarks. A node that
loses one of them completely after a kill cannot know that it existed, and the broker does not promise that
(docs/reference/durability.md).
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from broker_runtime.metadata.topic_names import METADATA_TOPIC
from broker_runtime.storage.disk.checkpoint import HIGH_WATERMARKS, RECOVERY_POINTS, Partition, read_offsets
from broker_runtime.storage.disk.ledger import read_ledger
from kafka_bytes.batches import HEADER_BYTES, MAGIC, Header, parse_header
from tests.simulation.cluster import check
from tests.simulation.cluster.faults import disk_faults
from tests.simulation.cluster.machine.process import Process
from tests.support.fakes.disks.memory_filesystem import MemoryFileSystem

if TYPE_CHECKING:
    from tests.simulation.cluster.cluster import Cluster

_STOPS_WITHIN_S = 15.0
_LOCK = ".lock"
_LAST_BYTES = 60
"""All of these bytes are in the last batch: no batch is shorter."""
Damaging = Callable[[random.Random, Process], str]
"""Damages a disk; returns a description."""


async def damage(cluster: "Cluster", rng: random.Random) -> None:
    await _damage_of_broker(cluster, rng, _damaged)


async def lost_beginning(cluster: "Cluster", rng: random.Random) -> None:
    await _damage_of_broker(cluster, rng, _without_beginning)


async def old_damage(cluster: "Cluster", rng: random.Random) -> None:
    """Damage batches between others while the broker is down: it serves the rest until other brokers mend these."""
    await _damage_of_broker(cluster, rng, _with_old_damage)


async def rot(cluster: "Cluster", rng: random.Random) -> None:
    """Damage batches while the broker runs, and read them."""
    process = rng.choice(cluster.brokers)
    node = None if process.broker is None else process.broker.broker
    if not process.alive or process.paused or process.disk_fault is not None or process.owner is None or node is None:
        return
    if not disk_faults.is_the_only_lossy(cluster, process):
        return
    root, read = Path(process.settings.log_dir), []
    for log in node.logs.logs():
        found = None if log.topic == METADATA_TOPIC else _damaged_batch(rng, process, root / str(log.place))
        if found is not None:
            read.append((log, found))
    cluster.note(f"on the disk of {process.name} {[f'{log.place} at {offset}' for log, offset in read]} are flipped")
    for log, offset in read:
        process.owner.context.run(log.suspect, offset)
    await disk_faults.until_in_sync(cluster, process)


async def damaged_end(cluster: "Cluster", rng: random.Random) -> None:
    """Kill all brokers, damage the last batch of each log of one, and start that one before the others."""
    first = rng.choice(cluster.brokers)
    if check.in_sync(cluster) is not True or not disk_faults.is_the_only_lossy(cluster, first):
        return
    cluster.note("all brokers are killed")
    for process in cluster.brokers:
        process.wanted = False
        process.kill()
    cluster.note(f"on the disk of {first.name} {_with_damaged_end(rng, first)}")
    first.wanted = True
    try:
        await asyncio.sleep(rng.uniform(1.0, 6.0))
    finally:
        for process in cluster.brokers:
            process.wanted = True
    await disk_faults.until_in_sync(cluster, first)


async def _damage_of_broker(cluster: "Cluster", rng: random.Random, done_to: Damaging) -> None:
    process = rng.choice(cluster.brokers)
    if cluster.shape.flush_messages == 1 and check.in_sync(cluster) is not True:
        return
    if process.alive and disk_faults.is_the_only_lossy(cluster, process):
        await _damage_while_down(cluster, rng, process, done_to)
        await disk_faults.until_in_sync(cluster, process)


async def damage_of_controller(cluster: "Cluster", rng: random.Random) -> None:
    process = rng.choice(cluster.controllers)
    if process.alive and process not in cluster.brokers:
        await _damage_while_down(cluster, rng, process, _damaged)


async def _damage_while_down(cluster: "Cluster", rng: random.Random, process: Process, done_to: Damaging) -> None:
    if not process.wanted or process.disk_fault is not None or process.paused:
        return
    process.wanted = False
    try:
        if await _is_down(cluster, rng, process):
            process.backup = process.fs.copy()
            cluster.note(f"on the disk of {process.name} {done_to(rng, process)}")
            await asyncio.sleep(rng.uniform(0.0, 1.0))
    finally:
        process.wanted = True


async def _is_down(cluster: "Cluster", rng: random.Random, process: Process) -> bool:
    how = rng.choice(("kill", "stop", "power loss"))
    cluster.note(f"{how} of {process.name}, which has a bad disk")
    if how == "kill":
        process.kill()
    elif how == "stop":
        process.stop()
    else:
        process.power_loss(rng)
    for _ in range(round(_STOPS_WITHIN_S / 0.05)):
        if not process.alive:
            return True
        await asyncio.sleep(0.05)
    return False


def _without_beginning(rng: random.Random, process: Process) -> str:
    """Lose the first segment of each log that has others."""
    root, lost = Path(process.settings.log_dir), []
    for name in process.fs.listdir(root):
        if process.fs.is_dir(root / name) and METADATA_TOPIC not in name and would_be_missed(process.fs, root / name):
            segments = sorted(found for found in process.fs.listdir(root / name) if found.endswith(".log"))
            if len(segments) > 1:
                process.fs.lose(root / name / segments[0])
                lost.append(f"{name}/{segments[0]}")
    return f"{lost} are lost"


def _with_damaged_end(rng: random.Random, process: Process) -> str:
    """Damage the newest segment of each log that has records."""
    root, damaged = Path(process.settings.log_dir), []
    for name in process.fs.listdir(root):
        if process.fs.is_dir(root / name) and METADATA_TOPIC not in name:
            segments = sorted(found for found in process.fs.listdir(root / name) if found.endswith(".log"))
            if segments and process.fs.open(root / name / segments[-1]).size():
                damaged.append(_flip(rng, process, root / name / segments[-1], in_last=_LAST_BYTES))
    return f"{damaged} are flipped"


def _with_old_damage(rng: random.Random, process: Process) -> str:
    """Damage some batches of each log, or lose a segment between others."""
    root, done = Path(process.settings.log_dir), []
    for name in process.fs.listdir(root):
        folder = root / name
        if not process.fs.is_dir(folder) or METADATA_TOPIC in name or not would_be_missed(process.fs, folder):
            continue
        segments = _segments(process.fs, folder)
        if len(segments) > 2 and rng.random() < 0.3:
            lost = rng.choice(segments[1:-1])
            process.fs.lose(lost)
            done.append(f"{name}/{lost.name} is lost")
            continue
        for _ in range(rng.choice((1, 1, 3))):
            offset = _damaged_batch(rng, process, folder)
            if offset is not None:
                done.append(f"{name} is flipped at {offset}")
    return f"{done}"


def _segments(fs: MemoryFileSystem, folder: Path) -> list[Path]:
    return [folder / name for name in sorted(fs.listdir(folder)) if name.endswith(".log")]


def _damaged_batch(rng: random.Random, process: Process, folder: Path) -> int | None:
    """Flip bits of a batch, or make a byte of it unreadable; return its offset. Never the newest batch of a log."""
    fs = process.fs
    batches = [
        (path, position, header) for path in _segments(fs, folder) for position, header in _headers(_content(fs, path))
    ]
    if len(batches) < 2:
        return None
    path, position, header = rng.choice(batches[:-1])
    # The leader epoch (12 to 15) is outside the checksum, and a change of it cannot be noticed.
    at = rng.choice([at for at in range(header.size) if not 12 <= at < 16])
    if rng.random() < 0.2:
        fs.spoil(path, position + at, position + at + 1)
    else:
        fs.flip(path, position + at, 1 << rng.randrange(8))
    if not process.alive and fs.exists(path.with_suffix(".index")):
        fs.lose(path.with_suffix(".index"))
    return header.base_offset


def _content(fs: MemoryFileSystem, path: Path) -> bytes:
    file = fs.open(path)
    try:
        return file.pread(file.size(), 0)
    except OSError:
        # It is damaged already.
        return b""


def _headers(content: bytes) -> list[tuple[int, Header]]:
    """(position, header) of the batches, up to the first damage."""
    found, position = [], 0
    while position + HEADER_BYTES <= len(content):
        header = parse_header(content, position)
        if header.magic != MAGIC or header.length < 0 or position + header.size > len(content):
            break
        found.append((position, header))
        position += header.size
    return found


def _damaged(rng: random.Random, process: Process) -> str:
    root = Path(process.settings.log_dir)
    folders = [root / name for name in process.fs.listdir(root) if process.fs.is_dir(root / name)]
    if folders and rng.random() < 0.2:
        folder = rng.choice(folders)
        if not would_be_missed(process.fs, folder):
            return f"nothing is lost: nothing tells of {folder.name} yet"
        process.fs.lose(folder)
        return f"{folder.name} is lost"
    paths = [folder / name for folder in folders for name in process.fs.listdir(folder)]
    paths += [root / name for name in process.fs.listdir(root) if root / name not in folders and name != _LOCK]
    paths = [path for path in paths if process.fs.open(path).size()]
    if not paths:
        return "there is nothing to damage"
    path = rng.choice(paths)
    shown = path.relative_to(root)
    if path.parent != root and not would_be_missed(process.fs, path.parent):
        return f"nothing is damaged: nothing tells of {path.parent.name} yet"
    if rng.random() < 0.3:
        if path.suffix == ".log" and not is_vouched_for(process.fs, path):
            return f"nothing is lost: nothing tells of records in {shown} yet"
        process.fs.lose(path)
        return f"{shown} is lost"
    return f"{_flip(rng, process, path)} is flipped"


def _flip(rng: random.Random, process: Process, path: Path, in_last: int = 1 << 62) -> str:
    size = process.fs.open(path).size()
    at, mask = rng.randrange(max(0, size - in_last), size), 1 << rng.randrange(8)
    process.fs.flip(path, at, mask)
    index = path.with_suffix(".index")
    if path.suffix == ".log" and METADATA_TOPIC not in path.parent.name and process.fs.exists(index):
        process.fs.lose(index)
    return f"bit {mask} of byte {at} of {path.relative_to(process.settings.log_dir)}"


def would_be_missed(fs: MemoryFileSystem, folder: Path) -> bool:
    """Whether the next start knows that a partition's folder, and what is in it, should be there."""
    key = _partition(folder)
    if key is None:
        # Set aside or deleted: nothing relies on it.
        return True
    try:
        return key in read_ledger(fs, folder.parent)
    except ValueError:
        return False


def is_vouched_for(fs: MemoryFileSystem, segment: Path) -> bool:
    """Whether the next start knows that there were records in this file."""
    key, root = _partition(segment.parent), segment.parent.parent
    if key is None:
        return True
    known = [_offsets(fs, root / name).get(key, 0) for name in (RECOVERY_POINTS, HIGH_WATERMARKS)]
    return max(known) > int(segment.stem)


def _offsets(fs: MemoryFileSystem, path: Path) -> Mapping[Partition, int]:
    try:
        return read_offsets(fs, path)
    except ValueError:
        return {}


def _partition(folder: Path) -> Partition | None:
    topic, _, number = folder.name.rpartition("-")
    return (topic, int(number)) if number.isdecimal() else None
