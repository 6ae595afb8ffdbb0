"""Replaces old segments of a log in use by a new one: a `Swap`, with its syncs as work for threads.

The generators yield the work. The caller runs each in a thread, and continues the generator on the event loop.
"""

from collections.abc import Callable, Generator

from broker_runtime.storage.disk.disk_slices import Work
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.log.swap import Swap


class ReplacingStoppedError(Exception):
    """Stops a replacement of segments because the log has changed meanwhile. The log is not damaged."""


def put_in_place(log: Log, swap: Swap, check: Callable[[], None], why_gaps: str | None) -> Generator[Work, None, None]:
    """Replace the old segments by the new one. A crash leaves either the old segments or the new one.

    `check` raises the error that stops the caller. `why_gaps` is the reason why the new segment may leave offsets out,
    or None. Raises ReplacingStoppedError, OSError and KafkaError. A cut in between withdraws the swap.
    """
    swaps = log.files.swaps
    check()
    if swaps.pending is not None or not swap.is_possible:
        raise ReplacingStoppedError(f"segments of {log.place} have expired or are being replaced")
    swaps.begin(swap, why_gaps)
    yield from _sync_folder(log, check)
    check()
    swaps.finish()
    yield from _sync_folder(log, check)
    swap.drop_empty_index()


def _sync_folder(log: Log, check: Callable[[], None]) -> Generator[Work, None, None]:
    try:
        yield log.place.sync_folder
    except OSError as error:
        # The folder of a log that was deleted has another name by now.
        check()
        log.files.syncs.folder_failed(error)
        raise


def tidy(log: Log, swap: Swap) -> None:
    """Remove the files of a swap that was not completed.

    Otherwise the next start would complete the swap, whatever the log has by then. If the swap cannot be withdrawn, the
    log accepts no more records before that start.
    """
    if swap.is_final:
        return
    swaps, health = log.files.swaps, log.files.health
    try:
        swap.withdraw()
    except OSError as error:
        if swaps.pending is swap and health.offline is None:
            health.give_up("withdrawing a swap of segments", error)
    if swaps.pending is swap:
        swaps.pending = None
