"""Replays the connections of a boot under the limits to try, or under those in force. Shell over the pure replay."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from audit_pipeline.errors import BadUseError
from audit_pipeline.reading.boot_events import BootEvents, BootPart
from audit_pipeline.reading.connection_log import ConnectionLog
from audit_pipeline.what_if.agreement import Difference, is_equal
from audit_pipeline.what_if.attempts import Attempt
from audit_pipeline.what_if.hashed import is_hash
from audit_pipeline.what_if.limits import LimitsToTry
from audit_pipeline.what_if.limits_in_force import LimitsInForce
from audit_pipeline.what_if.replay import Limits
from audit_pipeline.what_if.streamed import StreamedReplay
from audit_pipeline.what_if.summary import Summary
from connection_limits.errors import InvalidLimitError

HASHED: Final = (
    "the addresses in this log are keyed hashes, so limits of single addresses, ranges and workloads are not tried: "
    "only those of brokers, listeners and of every address are"
)
HASHED_GROUPS: Final = (
    "the addresses in this log are keyed hashes, so the ranges and workloads that were in force cannot be found: "
    "connections that they delayed or rejected are decided otherwise"
)
_DIFFERENCES_MAX: Final = 1_000


@dataclass(slots=True)
class Agreement:
    """The result of a replay under the limits in force: decisions that are those of the log, and other ones."""

    compared: int = 0
    different: int = 0
    first: list[Difference] = field(default_factory=list)
    """The first of those that differ."""
    changes: int = 0
    """Changes of limits during the log."""
    moves: int = 0
    """Changes of rates that brokers have chosen themselves."""

    def add(self, attempt: Attempt) -> None:
        self.compared += 1
        if not is_equal(attempt):
            self.different += 1
            if len(self.first) < _DIFFERENCES_MAX:
                self.first.append(Difference(attempt))


def try_limits(log: ConnectionLog, limits: LimitsToTry) -> tuple[Summary, list[str]]:
    """Try limits on the connections that arrived in the time window.

    Returns the counts of these connections, and sentences about limits that are not tried. Raises BadUseError if
    brokers would refuse the limits.
    """
    summary, notes = Summary(), list[str]()
    for part in log.parts():
        events = log.events(part)
        notes += [note for note in try_part(part, events, limits, summary) if note not in notes]
        log.note_unread(part, events)
    return summary, notes


def try_part(part: BootPart, events: BootEvents, limits: LimitsToTry, summary: Summary) -> list[str]:
    """Add the connections of a part to `summary`, and return sentences about limits that are not tried."""

    def decided(attempt: Attempt) -> None:
        if part.is_wanted(attempt.wall_us):
            summary.add(attempt)

    def chosen(is_hashed: bool) -> Limits:
        return limits.without_addresses() if is_hashed and limits.has_addresses else limits

    is_hashed, late = _replayed(events, chosen, decided, summary)
    notes = [HASHED] if is_hashed and limits.has_addresses else []
    return notes + ([_too_late(late)] if late else [])


def replay_in_force(log: ConnectionLog) -> tuple[Summary, Agreement, list[str]]:
    """Replay a log under the limits that it records, and compare each decision with that of the log.

    Raises BadUseError if the log records no limits.
    """
    summary, agreement, notes = Summary(), Agreement(), list[str]()
    without = parts = 0
    for part in log.parts():
        events = log.events(part)
        limits = events.limits()
        parts += 1
        if limits is None:
            without += 1
            notes.append(
                f"boot {part.boot[2]} of broker {part.boot[1]} is left out, because its log has no report of limits in "
                "this time: brokers before version 1.4 of events write none"
            )
            continue
        agreement.changes += len(limits.changes)
        agreement.moves += limits.moves
        notes += [note for note in _replay_part(part, events, limits, summary, agreement) if note not in notes]
        log.note_unread(part, events)
    if parts and without == parts:
        raise BadUseError(
            "the log does not have the limits that were in force: brokers record them from version 1.4 of events on; "
            "give the limits to try with -f"
        )
    return summary, agreement, notes


def _replay_part(
    part: BootPart, events: BootEvents, limits: LimitsInForce, summary: Summary, agreement: Agreement
) -> list[str]:
    unknown = 0

    def decided(attempt: Attempt) -> None:
        nonlocal unknown
        if not part.is_wanted(attempt.wall_us):
            return
        if attempt.arrived_us < limits.known_from_us:
            unknown += 1
            return
        summary.add(attempt)
        agreement.add(attempt)

    def chosen(is_hashed: bool) -> Limits:
        limits.is_hashed = is_hashed
        return limits

    is_hashed, late = _replayed(events, chosen, decided, summary)
    notes = [HASHED_GROUPS] if is_hashed and limits.has_groups else []
    if unknown:
        notes.append(f"{unknown:,} connections are left out that came before the first report of limits in the log")
    return notes + ([_too_late(late)] if late else [])


def _replayed(
    events: BootEvents, chosen: Callable[[bool], Limits], decided: Callable[[Attempt], None], summary: Summary
) -> tuple[bool, int]:
    """Replay a boot; return whether its addresses are hashes, and how many attempts were read too late."""
    rows = events.connections()
    first = next(rows, None)
    if first is None:
        return False, 0
    is_hashed = is_hash(first.client_ip)
    run = StreamedReplay(chosen(is_hashed), decided, events.early())
    try:
        for event in chain((first,), rows):
            run.add(event)
        late = run.finish()
    except InvalidLimitError as error:
        raise BadUseError(f"brokers refuse these limits: {error}") from None
    summary.note(run.assembly.client_ids, run.assembly.unasked)
    return is_hashed, late


def _too_late(late: int) -> str:
    return (
        f"{late:,} connections waited so long that later ones were replayed before them: they are replayed as if they "
        "had come later"
    )
