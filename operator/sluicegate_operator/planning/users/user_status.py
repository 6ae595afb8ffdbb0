"""The status of a KafkaUser. Pure."""

from dataclasses import dataclass
from datetime import datetime

from sluicegate_operator.api.models.kafka_user import KafkaUser, KafkaUserStatus
from sluicegate_operator.planning.status.conditions import (
    Progress,
    conditions,
    observed_generation,
    ready,
    stalled,
    working,
)
from sluicegate_operator.planning.users.users import wanted_quotas, wanted_rules


@dataclass(frozen=True, slots=True)
class UserTrouble:
    """The reason why a user differs from its KafkaUser. `stuck`: a person must act."""

    reason: str
    message: str
    stuck: bool = False


def user_status(user: KafkaUser, now: datetime, trouble: UserTrouble | None, others: int = 0) -> KafkaUserStatus:
    """Return the status of a KafkaUser without the fields that are written separately.

    `others` is the number of ACLs that other clients have set for the user.
    """
    progress = _progress(user, trouble, others)
    return KafkaUserStatus(
        observed_generation=observed_generation(user, user.status, progress),
        conditions=conditions(user, user.status, progress.findings, now),
        user_name=user.user_name,
        secret=user.name if user.spec.authentication is not None else "",
        acls=user.status.acls if trouble is not None else len(wanted_rules(user)),
    )


def _progress(user: KafkaUser, trouble: UserTrouble | None, others: int) -> Progress:
    if trouble is not None:
        return (stalled if trouble.stuck else working)(trouble.reason, trouble.message)
    parts = []
    if user.spec.authentication is not None:
        parts.append(f"the password is in Secret {user.name}")
    parts += [f"ACLs: {len(wanted_rules(user))}", f"quotas: {len(wanted_quotas(user))}"]
    if others:
        parts.append(f"ACLs of other clients, which stay: {others}")
    return ready("Applied", "; ".join(parts))
