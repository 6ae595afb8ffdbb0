"""The longest iteration of the event loop while a coordinator aborts transactions that no producer ends.

A complete node in memory has all of them. It coordinates their ids, and leads the partitions that get the markers: one
for each transaction, which has a record there. The figure is processor time of this process, so that other load of the
machine matters little.
"""

from benchmarks.round_table import Found, Measured
from benchmarks.transactions import frames
from benchmarks.transactions.in_memory import NODE, TIMEOUT_MS, begin, content_of, initialized, load_coordinator
from benchmarks.transactions.wanted import HANGING, LONGEST_TURN
from tests.simulation.measured_node import PARTITIONS, MeasuredNode, measured_node

_ABORTED_AFTER_S = 30.0
"""Time after the timeout within which all transactions are aborted: the coordinator checks every ten seconds."""


def longest_turn() -> Found:
    """Measure the longest iteration from the timeout of the transactions until all are aborted."""
    with measured_node(dict(NODE)) as node:
        load_coordinator(node)
        names = [f"hangs-{number}" for number in range(HANGING)]
        stamps = {name: initialized(node, name) for name in names}
        for number, (name, stamp) in enumerate(stamps.items()):
            begin(node, name, stamp, [number % PARTITIONS])
        taken = node.rest(TIMEOUT_MS / 1000 + _ABORTED_AFTER_S)
        for name, stamp in stamps.items():
            _check_aborted(node, name, stamp)
        return {LONGEST_TURN: Measured(taken.longest_iteration_s * 1000)}


def _check_aborted(node: MeasuredNode, name: str, before: frames.Stamp) -> None:
    """Check that the transaction is aborted: then its producer gets another epoch at once. Raises RuntimeError."""
    answer = content_of(node.send("broker", frames.init_producer_id(name, TIMEOUT_MS)).answer)
    found = frames.read_init_producer_id(answer)
    if found.error or found.epoch <= before.epoch:
        raise RuntimeError(f"the transaction of {name} is not aborted: {found}")
