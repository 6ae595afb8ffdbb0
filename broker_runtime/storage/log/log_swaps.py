"""The log cleaner's state for one log: whether its offsets may have gaps, and the swap under way."""

import logging

from broker_runtime.storage.disk.place import LogPlace
from broker_runtime.storage.log.log_health import LogHealth
from broker_runtime.storage.log.log_syncs import LogSyncs
from broker_runtime.storage.log.swap import GAPS_FILE, Swap

_LOGGER = logging.getLogger(__name__)


class LogSwaps:
    """Replaces segments of one log by cleaned or repaired ones.

    `pending` is a swap that has begun and is not finished. Until it is finished, only a cut, which withdraws the swap,
    removes segments. Methods raise KafkaError unless they say otherwise.
    """

    __slots__ = ("_claimed", "_health", "_may_have_gaps", "_place", "_syncs", "pending")

    def __init__(self, place: LogPlace, syncs: LogSyncs, *, may_have_gaps: bool) -> None:
        self.pending: Swap | None = None
        self._place = place
        self._health: LogHealth = syncs.health
        self._syncs = syncs
        self._may_have_gaps = may_have_gaps
        self._claimed: set[int] = set()

    def claim(self, base_offset: int) -> bool:
        """Claim the base offset for a new segment, until `release`. Returns False if another task has claimed it."""
        if base_offset in self._claimed:
            return False
        self._claimed.add(base_offset)
        return True

    def release(self, base_offset: int) -> None:
        """Release the claim of the base offset: the new segment is in its place, or its files are deleted."""
        self._claimed.discard(base_offset)

    @property
    def may_have_gaps(self) -> bool:
        """Return whether offsets between batches may be missing."""
        return self._may_have_gaps

    def allow_gaps(self, why: str) -> None:
        """Mark the log's folder: offsets between batches may be missing from now on. Raises KafkaError.

        Call this before the log leaves out an offset. The next sync makes the mark durable.
        """
        try:
            self._allow_gaps(why)
        except OSError as error:
            raise self._health.write_failure(f"making {GAPS_FILE}", error) from error

    def _allow_gaps(self, why: str) -> None:
        """Create the mark in the folder. Raises OSError."""
        if self._may_have_gaps:
            return
        self._place.fs.open(self._place.folder / GAPS_FILE, create=True)
        self._syncs.names_made += 1
        self._may_have_gaps = True
        _LOGGER.info("the offsets of %s may have gaps from now on: %s", self._place, why)

    def begin(self, swap: Swap, why_gaps: str | None) -> None:
        """Begin to replace segments of the log, and keep the swap as pending.

        `why_gaps` is the reason why the new segment may leave offsets out, or None. Raises OSError.
        """
        if why_gaps is not None:
            self._allow_gaps(why_gaps)
        swap.begin()
        self.pending = swap

    def finish(self) -> None:
        """Complete the pending swap; the caller has synced the folder."""
        swap, self.pending = self.pending, None
        assert swap is not None
        try:
            swap.finish()
        except OSError as error:
            self._health.give_up("a swap of segments", error)
            raise self._health.failure("swap", error) from error

    def withdraw(self) -> None:
        """Withdraw the pending swap before a cut, so that no start completes the swap after the cut. Raises OSError.

        The cut syncs the folder.
        """
        if self.pending is not None:
            self.pending.withdraw()
            self.pending = None
