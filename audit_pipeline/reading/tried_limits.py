"""Replays a log boot by boot under the limits to try. Shell over the pure replay."""

from ipaddress import ip_address

from audit_pipeline.errors import BadUseError
from audit_pipeline.reading.connection_log import ConnectionLog
from audit_pipeline.reading.recorded_connections import recorded_events
from audit_pipeline.what_if.attempts import Attempt, Recording, recording_of
from audit_pipeline.what_if.limits import LimitsToTry
from audit_pipeline.what_if.replay import replay
from audit_pipeline.what_if.summary import Summary
from connection_limits.errors import InvalidLimitError

_HASHED = (
    "the addresses in this log are keyed hashes, so limits of single addresses, ranges and workloads are not tried: "
    "only those of brokers, listeners and of every address are"
)


def try_limits(
    log: ConnectionLog, limits: LimitsToTry, from_us: int | None, to_us: int | None
) -> tuple[Summary, list[str]]:
    """Return the counts of the connections that arrived in the time, and sentences about limits that are not tried.

    Raises BadUseError if brokers would refuse the limits.
    """
    summary, notes = Summary(), list[str]()
    for boot in log.boots:
        recording = recording_of(recorded_events(log.connections(boot)))
        tried = limits
        if limits.has_addresses and _has_hashes(recording):
            tried, notes = limits.without_addresses(), [_HASHED]
        try:
            replay(recording, tried)
        except InvalidLimitError as error:
            raise BadUseError(f"brokers refuse these limits: {error}") from None
        wanted = [attempt for attempt in recording.attempts if _is_within(attempt, from_us, to_us)]
        summary.add(wanted, recording.client_ids, recording.unasked)
    return summary, notes


def _is_within(attempt: Attempt, from_us: int | None, to_us: int | None) -> bool:
    return (from_us is None or attempt.wall_us >= from_us) and (to_us is None or attempt.wall_us < to_us)


def _has_hashes(recording: Recording) -> bool:
    """Whether addresses are hashes: all are, or none, in one boot."""
    if not recording.attempts:
        return False
    try:
        ip_address(recording.attempts[0].address)
    except ValueError:
        return True
    return False
