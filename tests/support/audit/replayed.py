"""Compares the decisions of a replay with those of the log."""

from collections.abc import Mapping

from audit_pipeline.what_if import agreement
from audit_pipeline.what_if.recording import Recording


def differences(recording: Recording) -> list[Mapping[str, object]]:
    """Return the attempts about which the replay has decided otherwise, or at another time."""
    return [difference.row for difference in agreement.differences(recording.attempts)]
