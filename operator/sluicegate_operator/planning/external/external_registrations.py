"""Brokers of external clusters as BrokerRegistrations and their Events. Pure.

Kafka reports to clients whether a broker is fenced, but neither its epoch nor its incarnation.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.broker_registration import BrokerRegistration, BrokerRegistrationStatus
from sluicegate_operator.planning.external.external_status import ExternalBroker, ReplicaCounts
from sluicegate_operator.planning.registrations.overview import BrokerState
from sluicegate_operator.planning.registrations.registrations import (
    UNKNOWN,
    RegistrationEvent,
    RegistrationPlan,
    RegistrationsPlan,
)
from sluicegate_operator.planning.status.conditions import Finding, conditions, ready, working
from sluicegate_operator.resources.broker_registration import broker_registration, registration_name


def plan_external_registrations(
    cluster: BrokerCluster,
    existing: Sequence[BrokerRegistration],
    brokers: Sequence[ExternalBroker],
    counts: Mapping[int, ReplicaCounts],
    now: datetime,
) -> RegistrationsPlan:
    """Plan the BrokerRegistrations of an external cluster.

    `existing` may contain those of other clusters; `counts` may be older than `brokers`.
    """
    own = {r.name: r for r in existing if r.spec.cluster_ref.name == cluster.name and r.namespace == cluster.namespace}
    plans = tuple(_plan(cluster, own, broker, counts.get(broker.id), now) for broker in brokers)
    names = {plan.name for plan in plans}
    return RegistrationsPlan(plans, tuple(sorted(name for name in own if name not in names)))


def _plan(
    cluster: BrokerCluster,
    own: Mapping[str, BrokerRegistration],
    broker: ExternalBroker,
    counts: ReplicaCounts | None,
    now: datetime,
) -> RegistrationPlan:
    name, manifest = registration_name(cluster.name, broker.id), broker_registration(cluster, broker.id)
    old = own.get(name)
    base = old or BrokerRegistration.model_validate(
        {"metadata": {"name": name, "generation": 1}, "spec": manifest["spec"]}
    )
    state = BrokerState.FENCED if broker.fenced else BrokerState.ONLINE
    sentence = _sentence(broker)
    findings = list((ready if broker.serves else working)(state.value, sentence).findings)
    if counts is not None:
        behind = f"{counts.out_of_sync} of {counts.replicas} replicas are not in sync" if counts.out_of_sync else ""
        findings.append(Finding("InSync", counts.out_of_sync == 0, "Counted", behind))
    status = BrokerRegistrationStatus(
        observed_generation=base.metadata.generation,
        conditions=conditions(base, base.status, findings, now),
        state=state.value,
        rack=broker.rack,
        leaders=counts.leaders if counts else None,
        replicas=counts.replicas if counts else None,
        out_of_sync=counts.out_of_sync if counts else None,
    )
    return RegistrationPlan(name, broker.id, manifest, status, old is None, _events(base.status.state, broker, state))


def _sentence(broker: ExternalBroker) -> str:
    if broker.fenced:
        return "the broker has no session with the controllers, or has not caught up, so it serves no clients"
    place = f"{broker.host}:{broker.port}"
    if broker.silent:
        return (
            f"the cluster reports that the broker serves clients, but the broker does not answer at {place}:"
            f" {broker.silent}"
        )
    return f"the broker serves clients at {place}"


def _events(before: str | None, broker: ExternalBroker, state: BrokerState) -> tuple[RegistrationEvent, ...]:
    if before == state.value:
        return ()
    was = f" (was {before})" if before else ""
    message = f"broker {broker.id} is {state.value}{was}"
    lost = before in (BrokerState.ONLINE.value, UNKNOWN) and state is not BrokerState.ONLINE
    return (RegistrationEvent("Warning" if lost else "Normal", state.value, message),)
