"""The invariants of a cluster, while it recovers and after it has recovered.

Judges from outside by the responses that clients received, and from inside by the content of every replica's log.
"""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from broker_runtime.config import TopicConfig
from broker_runtime.controller.journal.choice import JournalParts, backing
from broker_runtime.metadata.areas.topics import Partition
from broker_runtime.metadata.codec import decode_record
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.snapshots import load_in_steps
from broker_runtime.metadata.topic_names import INTERNAL_TOPICS, METADATA_TOPIC, METADATA_TOPIC_ID
from broker_runtime.node.controller_node import JOURNAL_CONFIG
from broker_runtime.slicing.steps import at_once
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.log_dir.manager import LogManager
from broker_runtime.storage.records.batch import iter_batches, iter_records
from tests.simulation.cluster.client import Deletions, Lane, Sent
from tests.simulation.cluster.connection import Key
from tests.simulation.cluster.machine.process import Process
from tests.simulation.cluster.machine.release import THIS
from tests.support.fakes.inline_executor import InlineExecutor
from tests.support.fakes.journal_store import MemoryStore

if TYPE_CHECKING:
    from tests.simulation.cluster.cluster import Cluster

_READ_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Entry:
    value: bytes
    epoch: int
    producer_id: int


# Conditions that become true


def everybody_serves(cluster: "Cluster") -> bool | str:
    for process in cluster.brokers:
        member = None if process.broker is None else process.broker.membership
        if member is None or not member.status.serving:
            return f"{process.name} does not serve"
    return True


def serves(process: Process) -> bool:
    """Whether the process serves: as a broker, or otherwise as a controller."""
    if not process.alive or process.broker is None:
        return False
    if process.broker.membership is not None:
        return process.broker.membership.status.serving
    return process.broker.controller is not None and process.broker.controller.ready


def in_sync(cluster: "Cluster") -> bool | str:
    """Whether every partition's in-sync set is full, as the active controller has it."""
    image = cluster.image()
    if image is None:
        return "there is no active controller"
    for process in cluster.brokers:
        member = None if process.broker is None else process.broker.membership
        info = image.brokers.get(process.node_id)
        if member is None or info is None or info.epoch != member.status.epoch:
            # A controller that was deposed without noticing has an earlier incarnation.
            return f"{process.name} is registered with another epoch"
    for topic in image.topics.values():
        for index, part in topic.partitions.items():
            if part.adding or part.removing:
                return f"{topic.name}-{index} is reassigned to {part.replicas}, without {part.removing}"
            if set(part.isr) != set(part.replicas) or part.leader not in part.isr:
                return f"{topic.name}-{index} is led by {part.leader} with {part.isr} of {part.replicas} in sync"
    return True


def is_mended(process: Process) -> bool:
    """Whether every offset of its logs can be read, as far as it knows. The previous release does not know."""
    node = None if process.broker is None else process.broker.broker
    return node is not None and (process.runs is not THIS or not node.logs.damage.logs())


def is_whole(cluster: "Cluster") -> bool | str:
    """Whether all brokers serve, every replica is in sync and complete, and no client waits for an answer."""
    found = everybody_serves(cluster)
    if found is not True:
        return found
    found = in_sync(cluster)
    if found is not True:
        return found
    image = cluster.image()
    assert image is not None
    waiting = [lane.name for lane in cluster.lanes if not lane.settled]
    waiting += [committer.group for committer in cluster.committers if not committer.settled]
    if waiting:
        return f"not acknowledged: {', '.join(waiting)}"
    for group in cluster.groups:
        found = group.has_converged()
        if found is not True:
            return found
    for process in cluster.brokers:
        node = None if process.broker is None else process.broker.broker
        if node is None or node.image.offset != image.offset or not is_mended(process):
            return f"{process.name} is not up to date, or has damaged logs"
    for key, part in _partitions(image).items():
        ends = {number: _ends(cluster, number, key) for number in part.replicas}
        if len(set(ends.values())) != 1 or any(end != high for end, high in ends.values()):
            return f"replicas of {key[0]}-{key[1]} differ in (end, high watermark): {ends}"
    for consumer in cluster.consumers:
        part = _partitions(image)[consumer.key]
        if len(consumer.seen) != _ends(cluster, part.leader, consumer.key)[0]:
            return f"the consumer of {consumer.key} is at {len(consumer.seen)}"
    leaders = (_log(cluster, _partitions(image)[key].leader, key) for key in cluster.ledger.keys)
    return cluster.ledger.is_settled(log for log in leaders if log is not None)


def _partitions(image: MetadataImage) -> Mapping[Key, Partition]:
    return {(topic.name, index): part for topic in image.topics.values() for index, part in topic.partitions.items()}


def _broker(cluster: "Cluster", number: int) -> Process:
    return next(process for process in cluster.brokers if process.node_id == number)


def _log(cluster: "Cluster", number: int, key: Key) -> Log | None:
    process = _broker(cluster, number)
    node = None if process.broker is None else process.broker.broker
    return None if node is None else node.logs.get(*key)


def _ends(cluster: "Cluster", number: int, key: Key) -> tuple[int, int]:
    log = _log(cluster, number, key)
    return (-1, -2) if log is None else (log.log_end_offset, log.high_watermark)


# Judgement


async def judge(cluster: "Cluster") -> None:
    image = cluster.image()
    if image is None:
        cluster.around.mistake("there is no active controller")
        return
    for key, part in _partitions(image).items():
        start = _judge_starts(cluster, key, part)
        contents = {number: _read(cluster, number, key, start) for number in part.replicas}
        if len(set(contents.values())) != 1:
            sizes = {number: len(content) for number, content in contents.items()}
            cluster.around.mistake(f"replicas of {key} are not the same bytes; sizes {sizes}")
        if key in cluster.ledger.keys:
            cluster.ledger.take(key, contents[part.leader])
        elif key[0] not in INTERNAL_TOPICS:
            _judge_partition(cluster, key, _entries(contents[part.leader]), start)
    cluster.ledger.judge()
    for process in cluster.brokers:
        _judge_folder(cluster, process, image)
    await _judge_metadata(cluster, image)


def _judge_starts(cluster: "Cluster", key: Key, part: Partition) -> int:
    """The highest start offset of the replicas.

    It is a mistake if a record is gone that no DeleteRecords named, or if one is there that was reported as deleted.
    """
    deletions = cluster.deletions.get(key, Deletions())
    logs = {number: _log(cluster, number, key) for number in part.replicas}
    starts = {number: log.log_start_offset for number, log in logs.items() if log is not None}
    if any(start > deletions.asked for start in starts.values()):
        cluster.around.mistake(f"{key} begins at {starts}, and records were to be deleted up to {deletions.asked}")
    if any(start < deletions.answered for start in starts.values()):
        cluster.around.mistake(f"{key} begins at {starts}, and was said to begin at {deletions.answered}")
    return max(starts.values(), default=0)


def _judge_folder(cluster: "Cluster", process: Process, image: MetadataImage) -> None:
    node = None if process.broker is None else process.broker.broker
    logs = () if node is None else [log for log in node.logs.logs() if log.topic != METADATA_TOPIC]
    has = {(log.topic, log.partition): log.topic_id for log in logs}
    wanted = {
        (topic.name, index): topic.id
        for topic in image.topics.values()
        for index, part in topic.partitions.items()
        if process.node_id in part.replicas
    }
    if has != wanted:
        cluster.around.mistake(f"{process.name} has the logs {sorted(has)}, its replicas are {sorted(wanted)}")


def _read(cluster: "Cluster", number: int, key: Key, start: int) -> bytes:
    log = _log(cluster, number, key)
    return b"" if log is None else _read_log(log, start)


def _read_log(log: Log, start: int) -> bytes:
    found = bytearray()
    offset = start
    while (region := log.read(offset, _READ_BYTES, min_one=True, up_to=log.high_watermark)) is not None:
        data = region.read()
        found += data
        for header, _ in iter_batches(data):
            offset = header.last_offset + 1
    return bytes(found)


def _entries(content: bytes) -> dict[int, Entry]:
    """Entries by offset. The first batch is complete, even if the log begins within it."""
    return {
        record.offset: Entry(record.value or b"", header.leader_epoch, header.producer_id)
        for header, batch in iter_batches(content)
        for record in iter_records(batch)
    }


def _judge_partition(cluster: "Cluster", key: Key, entries: Mapping[int, Entry], start: int) -> None:
    places: dict[bytes, list[int]] = {}
    for offset, entry in entries.items():
        places.setdefault(entry.value, []).append(offset)
    sent: set[bytes] = set()
    for lane in cluster.lanes:
        if lane.key == key:
            sent.update(value for batch in lane.batches for value in batch.values)
            problem = "" if lane.abandoned else _problem_of(lane, places, start)
            if problem:
                cluster.around.mistake(f"{lane.name}: {problem}")
    for value in places:
        if value not in sent:
            cluster.around.mistake(f"{key}: nobody has sent {value[:40]!r}")
            break
    for consumer in cluster.consumers:
        if consumer.key == key:
            for offset, seen in enumerate(consumer.seen):
                if seen is None or offset < start:
                    continue
                if offset not in entries or entries[offset].value != seen:
                    cluster.around.mistake(f"{key}: a consumer has seen {seen[:40]!r} at {offset}, it is gone")
                    break
    _judge_epochs(cluster, key, entries)


def _problem_of(lane: Lane, places: Mapping[bytes, list[int]], start: int) -> str:
    """The fault in one producer's records; empty if there is none. No other fault is allowed."""
    last: dict[object, int] = {}
    for batch in lane.batches:
        value = batch.values[0][:40]
        found = places.get(batch.values[0], [])
        for position, other in enumerate(batch.values):
            if places.get(other, []) != [at + position for at in found]:
                return f"the batch of {value!r} is torn: it is at {found}, {other[:40]!r} at {places.get(other)}"
        promised = batch.acknowledged and lane.acks == -1
        if not found and start and batch.base_offset + len(batch.values) <= start:
            # Deleted, or a duplicate, whose offset no broker reports.
            continue
        if promised and not found:
            return f"{value!r} was acknowledged by broker {batch.broker} at {batch.base_offset} and is not in the log"
        if promised and batch.base_offset >= 0 and batch.base_offset not in found:
            return f"{value!r} was acknowledged at {batch.base_offset} and is at {found}"
        if len(found) > 1 and (lane.idempotent or lane.acks == 0):
            return f"{value!r} is in the log {len(found)} times, at {found}"
        if found and _has_a_place(lane, batch):
            if found[0] <= last.get(batch.connection, -1):
                return f"{value!r} is at {found[0]}, before what was sent earlier"
            last[batch.connection] = found[0]
    return ""


def _has_a_place(lane: Lane, batch: Sent) -> bool:
    """Return whether the batch must come after earlier batches of the lane (with acks=0: on the same connection).

    With acks=1 the first copy may be lost with its leader, and a delayed one may arrive late.
    """
    return lane.acks != 1 or (batch.acknowledged and batch.attempts == 1)


def _judge_epochs(cluster: "Cluster", key: Key, entries: Mapping[int, Entry]) -> None:
    """Within one leader epoch only one broker may have acknowledged, and epochs never decrease in a log."""
    told: dict[int, set[int]] = {}
    for lane in cluster.lanes:
        if lane.key != key or lane.acks != -1 or lane.abandoned:
            continue
        for batch in lane.batches:
            # If a retry finds its records stored, a later leader answers it, with the offset of the first copy.
            answered_for_another = lane.idempotent and batch.attempts > 1
            if batch.acknowledged and not answered_for_another and batch.base_offset in entries:
                told.setdefault(entries[batch.base_offset].epoch, set()).add(batch.broker)
    for epoch, brokers in told.items():
        if len(brokers) > 1:
            cluster.around.mistake(f"{key}: brokers {sorted(brokers)} acknowledged records of leader epoch {epoch}")
    for before, after in pairwise(entries.values()):
        if after.epoch < before.epoch:
            cluster.around.mistake(f"{key}: leader epoch {after.epoch} comes after {before.epoch} in the log")
            break


async def _judge_metadata(cluster: "Cluster", image: MetadataImage) -> None:
    active = cluster.active_controller()
    assert active is not None
    replayed = await _replayed(cluster, active)
    shown = _recorded(image)
    for name, value in _recorded(replayed).items():
        if value != shown[name]:
            cluster.around.mistake(
                f"the controller's image is not what its journal says: {name} is {shown[name]!r}, "
                f"the journal says {value!r}"
            )
    for process in cluster.brokers:
        node = None if process.broker is None else process.broker.broker
        if node is None or _recorded(node.image) != shown:
            cluster.around.mistake(f"{process.name} has another image than the controller")


def _recorded(image: MetadataImage) -> Mapping[str, object]:
    """The parts of an image that follow from the journal alone."""
    return {each.name: getattr(image, each.name) for each in fields(image) if each.compare}


async def _replayed(cluster: "Cluster", active: Process) -> MetadataImage:
    """The image that a new controller would find if this one's machine lost power now."""
    folder = Path(active.settings.log_dir)
    logs = LogManager(folder, fs=active.fs.power_loss(random.Random(0)), clock=active.clock)
    logs.open(lambda topic: JOURNAL_CONFIG if topic == METADATA_TOPIC else TopicConfig())
    log = logs.create(METADATA_TOPIC, 0, METADATA_TOPIC_ID, JOURNAL_CONFIG)
    parts = JournalParts(InlineExecutor(), "judge", MemoryStore(cluster.around.objects))
    journal = backing(active.settings, log, active.clock, parts).journal
    snapshot = await journal.load()
    image = MetadataImage() if snapshot is None else at_once(load_in_steps(snapshot.payload, snapshot.end_offset))
    offset = log.log_start_offset if snapshot is None else snapshot.end_offset
    while (region := log.read(offset, _READ_BYTES, min_one=True, up_to=log.log_end_offset)) is not None:
        for header, batch in iter_batches(region.read()):
            for record in iter_records(batch):
                if record.offset > image.offset:
                    image.apply(decode_record(record.value), record.offset)
            offset = header.last_offset + 1
    return image


def figures(cluster: "Cluster") -> Mapping[str, int]:
    counts: Counter[str] = Counter()
    for lane in cluster.lanes:
        for batch in lane.batches:
            counts["batches"] += 1
            counts["acknowledged"] += batch.acknowledged
            counts["retried"] += batch.attempts > 1
    counts["consumed"] = sum(len(consumer.seen) for consumer in cluster.consumers)
    counts["committed"] = sum(committer.commits for committer in cluster.committers)
    counts["committed"] += sum(group.ownership.commits for group in cluster.groups)
    counts["handovers"] = sum(group.ownership.handovers for group in cluster.groups)
    counts["shared unnoticed"] = sum(group.ownership.shared_unnoticed for group in cluster.groups)
    counts["chunks"] = cluster.network.figures.chunks
    if cluster.shape.secured:
        sessions = cluster.sessions
        counts["sessions"], counts["renewed"], counts["refused"] = sessions.granted, sessions.renewed, sessions.refused
    if cluster.operator is not None:
        counts["fenced"], counts["stale orders"] = cluster.operator.accepted, cluster.operator.refused
        counts["terms ended"] = cluster.operator.terms_ended
    if cluster.shape.mixed:
        counts["changed"] = cluster.changed
        counts["slowest_ms"] = round(1000 * max(lane.slowest_s for lane in cluster.lanes if lane.acks == -1))
    if cluster.shape.writers:
        counts.update(cluster.ledger.figures())
    return counts
