"""Conditions as kstatus reads them.

Ready always exists. Reconciling and Stalled are abnormal-true, and kstatus checks them first. So they are True only
while work is under way, or cannot continue without a user's action. Each condition has the generation that it
describes. It keeps the time of its last transition while its status is unchanged.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sluicegate_operator.api.schema.metadata import Condition, Resource, Status

READY, RECONCILING, STALLED = "Ready", "Reconciling", "Stalled"
NAME_TAKEN = "NameTaken"
"""Reason: an object that the owner does not control has the name of a child."""
CLAIMS_TAKEN = "ClaimsTaken"
"""Reason: the volume claims of the nodes contain another cluster's data."""
REFUSED = "Refused"
"""Reason: the API server refuses a change, and a user must act."""
NOT_APPLIED = "NotApplied"
"""Reason: the API server has refused a change repeatedly, and may accept it later."""
MESSAGE_MAX = 32768


@dataclass(frozen=True, slots=True)
class Finding:
    """A condition of an object's status, without its times. `is_true` None stands for Unknown."""

    type: str
    is_true: bool | None
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Progress:
    """The conditions Ready, Reconciling and Stalled together, made by `ready`, `working` or `stalled`."""

    findings: tuple[Finding, ...]
    settled: bool
    """Whether the outcome of this generation is known; only then is observedGeneration written."""


def ready(reason: str, message: str = "") -> Progress:
    return Progress(_three(reason, message, ready_=True, working=False, stuck=False), settled=True)


def working(reason: str, message: str) -> Progress:
    return Progress(_three(reason, message, ready_=False, working=True, stuck=False), settled=False)


def stalled(reason: str, message: str) -> Progress:
    """Return the progress of an object that waits for a user.

    The operator reconciles the object again when anything changes that it depends on.
    """
    return Progress(_three(reason, message, ready_=False, working=False, stuck=True), settled=True)


def not_applied_words(refusal: str) -> str:
    """Return the message for a change that is refused for now; `refusal` is the API server's message."""
    return f"the API server has refused a change for at least a minute, and the operator retries it: {refusal}"


def _three(reason: str, message: str, *, ready_: bool, working: bool, stuck: bool) -> tuple[Finding, ...]:
    return (
        Finding(READY, ready_, reason, message),
        Finding(RECONCILING, working, reason, message if working else ""),
        Finding(STALLED, stuck, reason, message if stuck else ""),
    )


def conditions(resource: Resource, old: Status, findings: Sequence[Finding], now: datetime) -> tuple[Condition, ...]:
    return tuple(_condition(finding, old.condition(finding.type), resource, now) for finding in findings)


def observed_generation(resource: Resource, old: Status, progress: Progress) -> int:
    return resource.metadata.generation if progress.settled else old.observed_generation


def _condition(finding: Finding, old: Condition | None, resource: Resource, now: datetime) -> Condition:
    status = "Unknown" if finding.is_true is None else str(finding.is_true)
    return Condition.model_validate(
        {
            "type": finding.type,
            "status": status,
            "reason": finding.reason,
            "message": finding.message[:MESSAGE_MAX],
            "lastTransitionTime": old.last_transition_time if old and old.status == status else now,
            "observedGeneration": resource.metadata.generation,
        }
    )
