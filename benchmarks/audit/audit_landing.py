"""What it takes to land an audit log: `.venv/bin/python -m benchmarks.audit.audit_landing --events 10000000`.

Spools of a busy broker are made up (16 MB each, no two blocks of one alike; the next one has the same requests later)
and landed into a folder, a few at a time. Figures: processor time of landing, all threads counted; bytes of an event in
the spool and in the segments, by table; then what it takes to check all of it, to ask it something, to merge it to
large files and to ask again.
"""

import argparse
import random
import resource
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit_pipeline.ingest.land import land
from audit_pipeline.reading.query import Events
from audit_pipeline.spool.listing import segment_paths
from audit_pipeline.spool.targets import FolderTarget
from audit_pipeline.upkeep.check import check
from audit_pipeline.upkeep.compact import compact
from broker_runtime.apis.request.call import Ending, PartitionFacts
from broker_runtime.apis.table import BROKER_APIS
from broker_runtime.observers.audit_log.block import EventBlock
from broker_runtime.observers.audit_log.clients import AuditedClient, ClientRules, Clients
from broker_runtime.observers.audit_log.layout import MAGIC, SCHEMA_VERSION, packed_block, packed_reserved, spool_name
from tests.support.audit.audit import ended_call
from tests.support.requests.calls import NotedConnection

SPOOL_BYTES = 16 * 1024 * 1024
SPOOLS_AT_ONCE = 4
RATE = 20_000
"""Requests per second of the made-up broker."""
CONNECTIONS, TOPICS, PARTITIONS = 200, 30, 12
BEGIN_US = 1_700_000_000_000_000
HOUR_US = 3_600_000_000
MERGED_BYTES = 128 * 1024 * 1024
BOOT, IDENTITY = "018bcfe56800000000", ("cluster", 1, "018bcfe56800000000")
QUESTION = "SELECT topic, count(*), sum(bytes) FROM partition WHERE api_key = 0 GROUP BY ALL"
Packed = tuple[Any, ...]
"""Fields of a block of events, starting with the first number."""


@dataclass(slots=True)
class Taken:
    """Wall clock time and processor time, in seconds."""

    wall_s: float = 0.0
    processor_s: float = 0.0

    def measure(self, work: Callable[[], Any]) -> Any:
        began = time.perf_counter(), time.process_time()
        result = work()
        self.wall_s += time.perf_counter() - began[0]
        self.processor_s += time.process_time() - began[1]
        return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, help="where a folder is made for it and removed; else the system's")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sluicegate-audit-", dir=given.folder) as folder:
        for line in _figures(given.events, Path(folder) / "spools", Path(folder) / "segments"):
            print(line, flush=True)


def _figures(events: int, spools: Path, segments: Path) -> Iterator[str]:
    spools.mkdir()
    segments.mkdir()
    target, landing = FolderTarget(segments), Taken()
    blocks = _made_up(random.Random(50))
    each = blocks[-1][1]
    count = -(-events // each)
    spool_bytes = 0
    for first in range(0, count, SPOOLS_AT_ONCE):
        for number in range(first, min(first + SPOOLS_AT_ONCE, count)):
            data = _spool(blocks, number, each, is_last=number == count - 1)
            spool_bytes += len(data)
            (spools / spool_name(BOOT, number + 1)).write_bytes(data)
        landed = landing.measure(lambda: land(spools, target))
        if landed.problems or landed.spools == 0:
            sys.exit(f"not landed: {landed}")
    total = count * each
    yield f"{total:,} events in {count} spools of {each:,}"
    yield _line("landing", landing, total)
    yield f"spools: {spool_bytes / total:.1f} bytes an event"
    yield _memory()
    yield from _sizes(target, total)
    yield from _reading(target, total)
    merging = Taken()
    merged = merging.measure(lambda: compact(target, BEGIN_US + 1000 * HOUR_US, MERGED_BYTES))
    yield _line(f"merging {merged} segments", merging, total)
    yield _memory()
    yield from _sizes(target, total)
    yield from _reading(target, total)


def _reading(target: FolderTarget, total: int) -> Iterator[str]:
    checking, asking = Taken(), Taken()
    report = checking.measure(lambda: check(target))
    if report.findings or report.events != total:
        sys.exit(f"check found {report.events} events and {report.findings[:3]}")
    yield _line(f"check of {report.files} files", checking, total)
    asking.measure(lambda: Events(target).ask(QUESTION))
    yield _line("a question about all partitions", asking, total)


def _memory() -> str:
    """Report peak memory. It includes making up spools: one in memory, and the template for the others."""
    return f"memory so far: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB at most"


def _line(what: str, taken: Taken, events: int) -> str:
    rate = events / taken.processor_s / 1e6
    return f"{what}: {taken.wall_s:.1f} s, {taken.processor_s:.1f} s of processors: {rate:.2f} M events/s a core"


def _sizes(target: FolderTarget, total: int) -> Iterator[str]:
    by_table: dict[str, int] = defaultdict(int)
    for file in segment_paths(target):
        by_table[file.table] += file.size
    shown = ", ".join(f"{table} {size / total:.1f}" for table, size in sorted(by_table.items()))
    size = sum(by_table.values())
    yield f"segments: {size / 1e6:,.0f} MB, {size / total:.1f} bytes an event ({shown})"


def _made_up(chance: random.Random) -> list[Packed]:
    """Return the blocks of one spool, numbered from 1."""
    clients = _clients(chance)
    offsets = [chance.randrange(1_000_000) for _ in range(TOPICS * PARTITIONS)]
    blocks: list[Packed] = []
    now_s, seq, size = 1000.0, 1, 0
    while size < SPOOL_BYTES:
        block = EventBlock(seq, 0, now_s)
        is_full = False
        while not is_full:
            now_s += chance.expovariate(RATE)
            connection, client = chance.choice(clients)
            is_full = block.add_request(_call(chance, connection, now_s, offsets), client)
        packed = block.packed()
        size += len(packed)
        seq = block.last_seq + 1
        blocks.append(_fields(packed))
    return blocks


def _fields(packed: bytes) -> Packed:
    import msgspec  # noqa: PLC0415

    kind, *fields = msgspec.msgpack.decode(packed[12:])
    assert kind == "events"
    return tuple(fields)


def _clients(chance: random.Random) -> list[tuple[NotedConnection, AuditedClient]]:
    known = Clients(ClientRules())
    found = []
    for number in range(CONNECTIONS):
        connection = NotedConnection(port=30_000 + chance.randrange(30_000))
        connection.id = number + 1
        connection.peer = (f"10.0.{number % 7}.{number}", connection.peer[1])
        found.append((connection, known.of(connection, f"service-{number % 40}")))
    return found


def _call(chance: random.Random, connection: NotedConnection, now_s: float, offsets: list[int]) -> Any:
    kind = chance.random()
    api = 0 if kind < 0.5 else 1 if kind < 0.97 else 3
    parts: list[PartitionFacts] = []
    if api != 3:
        for _ in range(1 if api == 0 else chance.choice((1, 1, 1, 2, 3))):
            place = chance.randrange(TOPICS * PARTITIONS)
            records = chance.randrange(1, 200)
            size = records * chance.randrange(80, 400)
            base = offsets[place]
            offsets[place] = base + (records if api == 0 else 0)
            ms = 1_700_000_000_000 + int(now_s * 1000)
            topic = f"topic-{place // PARTITIONS}"
            known = api == 0
            parts.append(
                (
                    topic,
                    place % PARTITIONS,
                    size,
                    records if known else -1,
                    base,
                    base + records - 1 if known else -1,
                    ms if known else -1,
                    ms + chance.randrange(50) if known else -1,
                    0,
                )
            )
    call = ended_call(api, connection, now_s, parts, Ending.ANSWERED, "client")
    call.correlation_id = chance.randrange(1 << 20)
    call.request_bytes = 60 + sum(part[2] for part in parts if api == 0)
    call.received_s = now_s - chance.lognormvariate(-9, 0.7)
    call.handled_s = 0.0 if chance.random() < 0.7 else chance.uniform(call.received_s, now_s)
    call.acks = chance.choice((1, -1)) if api == 0 else -128
    call.reply = (b"x" * (40 if api == 0 else chance.randrange(60, 2000)),)
    return call


def _spool(blocks: Sequence[Packed], number: int, each: int, *, is_last: bool) -> bytes:
    """Return the broker's n-th spool, with the requests of `blocks` shifted to later times."""
    after = number * each
    begin_us = BEGIN_US + number * int(each / RATE * 1e6)
    names = {api.key: api.name for api in BROKER_APIS}
    data = [
        MAGIC,
        packed_reserved(after + each),
        packed_block("header", SCHEMA_VERSION, *IDENTITY, number + 1, after + 1, begin_us, names),
    ]
    for first, last, _, monotonic_s, *rest in blocks:
        wall_us = begin_us + round((monotonic_s - 1000.0) * 1e6)
        data.append(packed_block("events", first + after, last + after, wall_us, monotonic_s, *rest))
    data.append(packed_block("end", after + each, begin_us, "stopped" if is_last else "next"))
    return b"".join(data)


if __name__ == "__main__":
    main()
