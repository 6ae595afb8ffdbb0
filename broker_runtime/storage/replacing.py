"""A new segment takes the place of old ones in a log in use: a `Swap`, with its syncs as work for threads.

The generators yield the work. The caller runs each in a thread, and continues the generator on the event loop.
"""

from collections.abc import Callable, Generator

from broker_runtime.storage.log import Log
from broker_runtime.storage.swap import Swap
from broker_runtime.storage.turns import Work


class ReplacingStoppedError(Exception):
    """The log has changed under the work. There is nothing wrong with it."""


def put_in_place(log: Log, swap: Swap, check: Callable[[], None], why_gaps: str | None) -> Generator[Work, None, None]:
    """The old segments are gone and the new one is there when it returns; a crash leaves one or the other.

    `check` raises what stops the caller. Offsets may be left out in the new segment if `why_gaps` says why. Raises
    ReplacingStoppedError, OSError and KafkaError. A cut that comes between withdraws the swap.
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


def _sync_folder(log: Log, check: Callable[[], None]) -> Generator[Work, None, None]:
    try:
        yield log.place.sync_folder
    except OSError as error:
        # The folder of a log that was deleted has another name by now.
        check()
        log.files.syncs.folder_failed(error)
        raise


def tidy(log: Log, swap: Swap) -> None:
    """Remove what is left of a swap that did not come to its end.

    A swap that a start would complete, behind whatever the log has by then, must not be left: if it cannot be withdrawn
    the log takes no more records before that start.
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
