"""BrokerRegistrations while neither an active controller nor an external cluster reports the state of brokers. Pure.

The tags and versions of a broker stay. Its state and the controller's counts become unknown.
"""

from collections.abc import Sequence
from datetime import datetime

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.broker_registration import BrokerRegistration
from sluicegate_operator.planning.registrations.registrations import (
    UNKNOWN,
    RegistrationEvent,
    RegistrationPlan,
    RegistrationsPlan,
)
from sluicegate_operator.planning.status.conditions import Finding, conditions, working
from sluicegate_operator.resources.broker_registration import broker_registration

_COUNTED = ("last_heartbeat_age_seconds", "leaders", "replicas", "out_of_sync", "metadata_lag")


def plan_unknown_registrations(
    cluster: BrokerCluster, existing: Sequence[BrokerRegistration], why: str, now: datetime
) -> RegistrationsPlan:
    """Return statuses with state Unknown for the BrokerRegistrations that have another state.

    `why` is a sentence. `existing` may contain those of other clusters. No object is deleted.
    """
    own = (r for r in existing if r.spec.cluster_ref.name == cluster.name and r.namespace == cluster.namespace)
    return RegistrationsPlan(tuple(_plan(cluster, r, why, now) for r in own if r.status.state not in (None, UNKNOWN)))


def _plan(cluster: BrokerCluster, registration: BrokerRegistration, why: str, now: datetime) -> RegistrationPlan:
    old, broker_id = registration.status, registration.spec.broker_id
    findings = (*working(UNKNOWN, why).findings, Finding("InSync", None, UNKNOWN, why))
    found = conditions(registration, old, findings, now)
    status = old.model_copy(update={**dict.fromkeys(_COUNTED), "state": UNKNOWN, "conditions": found})
    message = f"broker {broker_id} is {UNKNOWN} (was {old.state}): {why}"
    event = RegistrationEvent("Warning", UNKNOWN, message)
    manifest = broker_registration(cluster, broker_id)
    return RegistrationPlan(registration.name, broker_id, manifest, status, new=False, events=(event,))
