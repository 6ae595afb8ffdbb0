"""Compares the decisions of a replay with those of the log."""

from collections.abc import Mapping

from audit_pipeline.what_if.attempts import Attempt, Outcome, Recording


def differences(recording: Recording) -> list[Mapping[str, object]]:
    """Return the attempts about which the replay has decided otherwise, or at another time."""
    return [found for attempt in recording.attempts if (found := _difference(attempt)) is not None]


def _difference(attempt: Attempt) -> Mapping[str, object] | None:
    """Return what the replay decided otherwise; None if nothing."""
    recorded, replayed = attempt.recorded, attempt.replayed
    assert replayed is not None
    is_same = recorded.outcome is replayed.outcome and (
        recorded.outcome is Outcome.WAITING or recorded.at_us == replayed.at_us
    )
    if is_same and (recorded.limit is None or recorded.limit == replayed.limit):
        return None
    return {"arrived": attempt.arrived_us, "at": attempt.listener, "recorded": recorded, "replayed": replayed}
