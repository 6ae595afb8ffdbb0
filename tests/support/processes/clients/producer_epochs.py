"""One idempotent producer's records in a partition, by the epochs of its id that wrote them.

Kafka's promise to such a producer, no duplicate and nothing out of order, holds within one epoch. librdkafka takes the
next epoch without being asked when a batch is refused as out of order, and sends again under it what was not
acknowledged. This happens when min.insync.replicas or the leader recovers between two batches in flight, the first
refused and the second not. Records stored before and never acknowledged then have two copies, with Apache Kafka 4.3.0
as with our broker.
"""

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from broker_runtime.storage.records.batch import iter_batches, iter_records
from tests.support.processes.clients.wire_client import ConnectionEnded, Plain, WireClient

_METADATA_VERSION, _FETCH_VERSION = 7, 11
_BYTES = 4 << 20
_PATIENCE_S = 60.0


class WrittenBatch(NamedTuple):
    """A batch of a partition. Its records are numbers, as `AcknowledgedWorkload` sends them."""

    epoch: int
    first_sequence: int
    base_offset: int
    numbers: tuple[int, ...]


def fault_in(batches: Iterable[WrittenBatch], acknowledged: Mapping[int, int]) -> str | None:
    """The first violation of Kafka's promise in these batches, or None; `acknowledged` are numbers by their offsets."""
    epoch = sequence = number = -1
    place: dict[int, int] = {}
    for batch in batches:
        where = f"offset {batch.base_offset}, epoch {batch.epoch}, sequence {batch.first_sequence}"
        if batch.epoch < epoch:
            return f"{where}: epoch {epoch} has written before"
        if batch.epoch > epoch:
            epoch, sequence, number = batch.epoch, 0, -1
        if batch.first_sequence != sequence:
            return f"{where}: sequence {sequence} comes next"
        sequence += len(batch.numbers)
        for offset, later in enumerate(batch.numbers, batch.base_offset):
            if later <= number:
                return f"{where}: {later} comes after {number}, repeated or out of order"
            number = later
            if acknowledged.get(place.get(number, -1)) == number:
                return f"{where}: {number} was acknowledged at {place[number]} and is there again"
            place[number] = offset
    return None


def written_batches(bootstrap: str, topic: str, partition: int, end: int) -> Iterator[WrittenBatch]:
    """All batches below the offset `end`, as the leader has them."""
    offset, deadline, pause = 0, time.monotonic() + _PATIENCE_S, threading.Event()
    while offset < end:
        assert time.monotonic() < deadline, f"the batches of {topic}-{partition} cannot be read from {offset} on"
        records = _fetched(bootstrap, topic, partition, offset)
        if not records:
            pause.wait(0.05)
        for header, batch in iter_batches(records):
            numbers = tuple(int(record.value or b"") for record in iter_records(batch))
            yield WrittenBatch(header.producer_epoch, header.base_sequence, header.base_offset, numbers)
            offset = header.last_offset + 1


def _fetched(bootstrap: str, topic: str, partition: int, offset: int) -> bytes:
    """Fetched records; empty if no broker answers for the partition, for example while its leader is away."""
    for address in bootstrap.split(","):
        host, _, port = address.rpartition(":")
        try:
            leader = _leader((host, int(port)), topic, partition)
            if leader is None:
                continue
            with WireClient(leader, source="") as client:
                (answered,) = client.ask("fetch", _FETCH_VERSION, **_fetch(topic, partition, offset))["responses"]
        except (OSError, ConnectionEnded):
            continue
        return answered["partitions"][0]["records"] or b""
    return b""


def _leader(asked: tuple[str, int], topic: str, partition: int) -> tuple[str, int] | None:
    with WireClient(asked, source="") as client:
        answer = client.ask("metadata", _METADATA_VERSION, topics=[{"name": topic}])
    brokers = {broker["node_id"]: (broker["host"], broker["port"]) for broker in answer["brokers"]}
    (known,) = answer["topics"]
    leads = {part["partition_index"]: part["leader_id"] for part in known["partitions"]}
    return brokers.get(leads.get(partition, -1))


def _fetch(topic: str, partition: int, offset: int) -> dict[str, Plain]:
    wanted = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": _BYTES}
    return {
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": _BYTES,
        "topics": [{"topic": topic, "partitions": [wanted]}],
        "forgotten_topics_data": [],
    }
