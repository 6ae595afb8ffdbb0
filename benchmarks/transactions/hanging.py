"""The longest iteration of the event loop while a coordinator aborts transactions that no producer ends.

A complete node in memory has all of them. It coordinates their ids, and leads the partitions that get the markers: one
for each transaction, which has a record there. The figure is processor time of this process, so that other load of the
machine matters little.
"""

from collections.abc import Callable

from benchmarks.round_table import Found, Measured
from benchmarks.transactions import frames
from benchmarks.transactions.wanted import HANGING, LONGEST_TURN
from kafka_bytes.batches import TRANSACTIONAL, ProducerStamp, encode_batch
from tests.simulation.measured_node import PARTITIONS, TOPIC, MeasuredNode, measured_node

_TIMEOUT_MS = 600_000
_ABORTED_AFTER_S = 30.0
"""Time after the timeout within which all transactions are aborted: the coordinator checks every ten seconds."""
_PAUSE_S = 0.5
_TRIES = 100
_NODE = {
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "1",
}
_SIZE_BYTES = 4


def longest_turn() -> Found:
    """Measure the longest iteration from the timeout of the transactions until all are aborted."""
    with measured_node(_NODE) as node:
        _asked(node, frames.find_coordinator("hangs-0"), lambda answer: frames.read_coordinator(answer).error)
        names = [f"hangs-{number}" for number in range(HANGING)]
        stamps = {name: _initialized(node, name) for name in names}
        for number, (name, stamp) in enumerate(stamps.items()):
            _begin(node, name, stamp, number % PARTITIONS)
        taken = node.rest(_TIMEOUT_MS / 1000 + _ABORTED_AFTER_S)
        for name, stamp in stamps.items():
            _check_aborted(node, name, stamp)
        return {LONGEST_TURN: Measured(taken.longest_iteration_s * 1000)}


def _initialized(node: MeasuredNode, name: str) -> frames.Stamp:
    asked = frames.init_producer_id(name, _TIMEOUT_MS)
    answer = _asked(node, asked, lambda answer: frames.read_init_producer_id(answer).error)
    return frames.read_init_producer_id(answer)


def _begin(node: MeasuredNode, name: str, stamp: frames.Stamp, partition: int) -> None:
    """Begin a transaction with one record in the partition."""
    producer = name, stamp.producer_id, stamp.epoch
    _asked(node, frames.add_partitions(*producer, TOPIC, [partition]), frames.read_add_partitions)
    records = [(None, b"a record")]
    written = ProducerStamp(stamp.producer_id, stamp.epoch, 0)
    batch = encode_batch(records, node.wall_ms(), written, attributes=TRANSACTIONAL)
    asked = frames.produce(1, name, TOPIC, {partition: batch})
    _asked(node, asked, lambda answer: frames.read_produce(1, TOPIC, answer))


def _asked(node: MeasuredNode, frame: bytes, error_of: Callable[[bytes], int]) -> bytes:
    """Return the answer without an error, as soon as there is one. Raises RuntimeError."""
    error = None
    for _ in range(_TRIES):
        answer = (node.send("broker", frame).answer or b"")[_SIZE_BYTES:]
        error = error_of(answer)
        if not error:
            return answer
        node.rest(_PAUSE_S)
    raise RuntimeError(f"a request is still refused with error {error}")


def _check_aborted(node: MeasuredNode, name: str, before: frames.Stamp) -> None:
    """Check that the transaction is aborted: then its producer gets another epoch at once. Raises RuntimeError."""
    answer = (node.send("broker", frames.init_producer_id(name, _TIMEOUT_MS)).answer or b"")[_SIZE_BYTES:]
    found = frames.read_init_producer_id(answer)
    if found.error or found.epoch <= before.epoch:
        raise RuntimeError(f"the transaction of {name} is not aborted: {found}")
