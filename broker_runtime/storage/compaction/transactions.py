"""Which batches and markers of transactions a cleaning may remove (KIP-98, KIP-360). Pure.

The records of an aborted transaction count for nothing: they go, and their keys are not known to the cleaning. A marker
may go once a cleaning meets no batch of its transaction any more. Then it gets a delete horizon, so that a reader that
is slow still meets it; a later cleaning removes it after that time.

`CleanedTransactions` sees the batches of one pass over the log, in the order of their offsets.
"""

from collections.abc import Iterable, Sequence

from broker_runtime.slicing.steps import in_order
from broker_runtime.storage.disk.disk_slices import Steps
from broker_runtime.storage.records.transactions import Ended
from broker_runtime.storage.segment.aborted_index import unpacked
from kafka_bytes.batches import TRANSACTIONAL, Header
from kafka_bytes.control import Marker

_ENTRIES_OF_A_STEP = 1_000


def load_aborted(packed: Iterable[bytes], found: list[Ended]) -> Steps:
    """Put the aborted transactions of all segments into `found`, in the order of their first offsets."""
    for content in packed:
        for number, ended in enumerate(unpacked(content), 1):
            found.append(ended)
            if number % _ENTRIES_OF_A_STEP == 0:
                yield 0
    ordering = in_order(found, lambda ended: ended.first_offset)
    while True:
        try:
            next(ordering)
        except StopIteration as ended:
            found[:] = ended.value
            break
        yield 0
    yield 0


class CleanedTransactions:
    """The transactions that one pass of a cleaning has met and whose marker is still to come."""

    __slots__ = ("_aborted", "_committed", "_entries", "_next", "_seen")

    def __init__(self, entries: Sequence[Ended]) -> None:
        """`entries` are all aborted transactions of the log, in the order of their first offsets."""
        self._entries = entries
        self._next = 0
        self._aborted: dict[int, Ended] = {}
        self._seen: set[int] = set()
        """Producers of which a batch of the aborted transaction was met."""
        self._committed: set[int] = set()
        """Producers of which a batch of a committed transaction was met."""

    def _reach(self, header: Header) -> None:
        """Note the aborted transactions that begin at the batch or before."""
        entries = self._entries
        while self._next < len(entries) and entries[self._next].first_offset <= header.last_offset:
            ended = entries[self._next]
            if ended.last_offset >= header.base_offset:
                self._aborted[ended.producer_id] = ended
            self._next += 1

    def is_aborted(self, header: Header) -> bool:
        """Return whether the batch of records belongs to an aborted transaction."""
        self._reach(header)
        if not header.attributes & TRANSACTIONAL:
            return False
        if header.producer_id in self._aborted:
            self._seen.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def ends(self, header: Header, marker: Marker | None) -> tuple[bool, Ended | None]:
        """Return whether the control batch is superfluous, and the aborted transaction that readers have to know.

        The batch is superfluous if no batch of its transaction was met, or if an earlier cleaning has emptied it.
        `marker` is what the batch has; a control batch of another kind stays.
        """
        self._reach(header)
        if marker is None:
            return not header.record_count, None
        producer_id = header.producer_id
        if marker.is_commit:
            is_needed = producer_id in self._committed
            self._committed.discard(producer_id)
            return not is_needed, None
        ended = self._aborted.pop(producer_id, None)
        is_seen = producer_id in self._seen
        self._seen.discard(producer_id)
        return not is_seen, ended if is_seen else None
