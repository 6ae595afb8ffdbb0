"""Transactional producers of a node in memory, which coordinates their ids and leads the partitions that they use."""

from collections.abc import Callable, Mapping, Sequence

from benchmarks.transactions import frames
from kafka_bytes.batches import TRANSACTIONAL, ProducerStamp, encode_batch
from tests.simulation.measured_node import TOPIC, MeasuredNode

TIMEOUT_MS = 600_000
"""Time after which the coordinator aborts a transaction."""
NODE: Mapping[str, str] = {
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "1",
}
"""The properties of a node with one partition of transactional ids."""
_PAUSE_S = 0.5
_TRIES = 100
_SIZE_BYTES = 4


def load_coordinator(node: MeasuredNode) -> None:
    """Wait until the node coordinates transactional ids. Raises RuntimeError."""
    asked(node, frames.find_coordinator("any"), lambda answer: frames.read_coordinator(answer).error)


def initialized(node: MeasuredNode, name: str) -> frames.Stamp:
    """Return the producer id and the epoch of this transactional id. Raises RuntimeError."""
    request = frames.init_producer_id(name, TIMEOUT_MS)
    answer = asked(node, request, lambda answer: frames.read_init_producer_id(answer).error)
    return frames.read_init_producer_id(answer)


def begin(node: MeasuredNode, name: str, stamp: frames.Stamp, partitions: Sequence[int]) -> None:
    """Begin a transaction with one record in each of these partitions of TOPIC. Raises RuntimeError."""
    producer = name, stamp.producer_id, stamp.epoch
    asked(node, frames.add_partitions(*producer, TOPIC, partitions), frames.read_add_partitions)
    written = ProducerStamp(stamp.producer_id, stamp.epoch, 0)
    batch = encode_batch([(None, b"a record")], node.wall_ms(), written, attributes=TRANSACTIONAL)
    for partition in partitions:
        request = frames.produce(1, name, TOPIC, {partition: batch})
        asked(node, request, lambda answer: frames.read_produce(1, TOPIC, answer))


def asked(node: MeasuredNode, frame: bytes, error_of: Callable[[bytes], int]) -> bytes:
    """Return the answer without an error, as soon as there is one. Raises RuntimeError."""
    error = None
    for _ in range(_TRIES):
        answer = content_of(node.send("broker", frame).answer)
        error = error_of(answer)
        if not error:
            return answer
        node.rest(_PAUSE_S)
    raise RuntimeError(f"a request is still refused with error {error}")


def content_of(answer: bytes | None) -> bytes:
    """Return the answer without the size of its frame; nothing if the connection was closed."""
    return (answer or b"")[_SIZE_BYTES:]
