"""Derive BrokerRegistrations, Events and readiness gates from the controller's view of its brokers. Pure.

Values that change all the time (ages, lags) are rounded to coarse steps: a status that changed every second would wake
every watcher.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.broker_registration import TAGS_MAX, BrokerRegistration, BrokerRegistrationStatus
from sluicegate_operator.planning.registrations.fencing import BrokerPod, why_gone
from sluicegate_operator.planning.registrations.overview import BrokerOverview, BrokerState, ClusterOverview
from sluicegate_operator.planning.status.conditions import REFUSED, Finding, conditions, ready, stalled, working
from sluicegate_operator.resources.broker_registration import broker_registration, registration_name
from sluicegate_operator.resources.labels import READINESS_GATE

UNKNOWN = "Unknown"
"""State of a broker that cannot be observed; see planning.registrations.unknown_registrations."""
AGE_STEPS_S = (0, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400)


@dataclass(frozen=True, slots=True)
class RegistrationEvent:
    """An Event posted on the BrokerRegistration and on the BrokerCluster."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class RegistrationPlan:
    """The plan for one broker's BrokerRegistration.

    Apply `manifest` if `new`, then write `status` if it differs from the present one.
    """

    name: str
    broker_id: int
    manifest: Mapping[str, Any]
    status: BrokerRegistrationStatus
    new: bool
    events: tuple[RegistrationEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class RegistrationsPlan:
    """The plan for all BrokerRegistrations. `delete`: names of objects whose broker is no longer registered."""

    registrations: tuple[RegistrationPlan, ...]
    delete: tuple[str, ...] = ()


def plan_registrations(
    cluster: BrokerCluster,
    existing: Sequence[BrokerRegistration],
    seen: "SeenBrokers",
    now: datetime,
) -> RegistrationsPlan:
    """Plan the BrokerRegistrations of a cluster; `existing` may contain those of other clusters."""
    own = {r.name: r for r in existing if r.spec.cluster_ref.name == cluster.name and r.namespace == cluster.namespace}
    plans = [_plan(cluster, own, broker, seen, now) for broker in seen.overview.brokers]
    names = {plan.name for plan in plans}
    return RegistrationsPlan(tuple(plans), tuple(sorted(name for name in own if name not in names)))


@dataclass(frozen=True, slots=True)
class BrokerWords:
    """A broker's report about itself: its release, its protocol versions and its tags."""

    version: str | None
    protocol_version_min: int | None
    protocol_version_max: int | None
    tags: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SeenBrokers:
    """The observed brokers of a cluster.

    `overview` was read before `pods`, which are those of brokers. `described`, by broker id, may be older.
    """

    overview: ClusterOverview
    pods: Sequence[BrokerPod]
    described: Mapping[int, BrokerWords] = field(default_factory=dict)

    def pod(self, broker_id: int) -> BrokerPod | None:
        return next((pod for pod in self.pods if pod.broker_id == broker_id), None)


def _plan(
    cluster: BrokerCluster,
    own: Mapping[str, BrokerRegistration],
    broker: BrokerOverview,
    seen: SeenBrokers,
    now: datetime,
) -> RegistrationPlan:
    name = registration_name(cluster.name, broker.id)
    manifest = broker_registration(cluster, broker.id)
    old = own.get(name)
    base = old or BrokerRegistration.model_validate(
        {"metadata": {"name": name, "generation": 1}, "spec": manifest["spec"]}
    )
    pod = seen.pod(broker.id)
    sentence = _sentence(broker, pod)
    return RegistrationPlan(
        name=name,
        broker_id=broker.id,
        manifest=manifest,
        status=_status(base, broker, seen, sentence, now),
        new=old is None,
        events=_events(base.status, broker, sentence, may_go=_may_go(cluster, broker, pod)),
    )


def _status(
    registration: BrokerRegistration, broker: BrokerOverview, seen: SeenBrokers, sentence: str, now: datetime
) -> BrokerRegistrationStatus:
    found, pod = _findings(broker, sentence), seen.pod(broker.id)
    words = seen.described.get(broker.id) or _described_before(registration.status)
    return BrokerRegistrationStatus(
        observed_generation=registration.metadata.generation,
        conditions=conditions(registration, registration.status, found, now),
        state=broker.state.value,
        broker_epoch=broker.epoch,
        incarnation_id=broker.incarnation,
        last_heartbeat_age_seconds=age_step(broker.heartbeat_age_s),
        pod=None if pod is None else pod.name,
        rack=broker.rack,
        leaders=broker.leaders,
        replicas=broker.replicas,
        out_of_sync=broker.out_of_sync,
        metadata_lag=lag_step(broker.metadata_lag),
        version=words.version,
        protocol_version_min=words.protocol_version_min,
        protocol_version_max=words.protocol_version_max,
        tags=dict(sorted(words.tags.items())[:TAGS_MAX]) or None,
    )


def status_without_broker(registration: BrokerRegistration, refusal: str, now: datetime) -> BrokerRegistrationStatus:
    """Return the status of a BrokerRegistration that outlives its broker's registration.

    The API server refuses to delete the object; `refusal` is the API server's message.
    """
    broker = f"broker {registration.spec.broker_id}"
    why = f"{broker} is not registered any more, and the API server refuses to delete this BrokerRegistration"
    message = f"{why}: {refusal}; delete it, or allow the operator to delete it"
    findings = (*stalled(REFUSED, message).findings, Finding("InSync", None, "NotRegistered", ""))
    return BrokerRegistrationStatus(
        observed_generation=registration.metadata.generation,
        conditions=conditions(registration, registration.status, findings, now),
        state=BrokerState.OFFLINE.value,
        broker_epoch=registration.status.broker_epoch,
        incarnation_id=registration.status.incarnation_id,
    )


def _described_before(status: BrokerRegistrationStatus) -> BrokerWords:
    return BrokerWords(status.version, status.protocol_version_min, status.protocol_version_max, status.tags or {})


def _findings(broker: BrokerOverview, sentence: str) -> tuple[Finding, ...]:
    progress = (ready if broker.state is BrokerState.ONLINE else working)(broker.state.value, sentence)
    behind = f"{broker.out_of_sync} of {broker.replicas} replicas are not in sync"
    in_sync = Finding("InSync", broker.out_of_sync == 0, "Counted", behind if broker.out_of_sync else "")
    return (*progress.findings, in_sync)


def _sentence(broker: BrokerOverview, pod: BrokerPod | None) -> str:
    """Return the state in words; for a broker without a session also the cause, if its pod shows it."""
    why = "" if broker.has_session else why_gone(broker, pod)
    return why or _SENTENCES[broker.state]


_SENTENCES: Mapping[BrokerState, str] = {
    BrokerState.OFFLINE: "the broker has no session with the controller: it is not running, or has not registered yet",
    BrokerState.FENCED: "the broker is connected to the controller, but serves no clients until it has caught up",
    BrokerState.ONLINE: "the broker serves clients",
    BrokerState.STOPPING: "the broker's partition leaders are being moved to other brokers",
}


def _may_go(cluster: BrokerCluster, broker: BrokerOverview, pod: BrokerPod | None) -> bool:
    """Return whether the broker is scaled away or its pod is being deleted."""
    wanted = cluster.spec.broker_count
    return broker.id >= wanted or (pod is not None and pod.deleting)


def _events(
    old: BrokerRegistrationStatus, broker: BrokerOverview, sentence: str, *, may_go: bool
) -> tuple[RegistrationEvent, ...]:
    """Return an Event for each change of epoch and state since the last reconcile. Changes in between are not seen.

    A broker that was Online or Unknown and does not serve any more gets a Warning. It does not if it `may_go`, or if it
    has registered again with another epoch.
    """
    events = []
    if old.broker_epoch != broker.epoch:
        message = f"broker {broker.id} registered with epoch {broker.epoch}, incarnation {broker.incarnation}"
        events.append(RegistrationEvent("Normal", "Registered", message))
    if old.state != broker.state.value:
        before = f" (was {old.state})" if old.state else ""
        message = f"broker {broker.id} is {broker.state.value}{before}: {sentence}"
        lost = old.state in (BrokerState.ONLINE.value, UNKNOWN) and broker.state in (
            BrokerState.OFFLINE,
            BrokerState.FENCED,
        )
        unplanned = lost and not may_go and old.broker_epoch == broker.epoch
        events.append(RegistrationEvent("Warning" if unplanned else "Normal", broker.state.value, message))
    return tuple(events)


def age_step(age_s: float | None) -> int | None:
    return None if age_s is None else max(step for step in AGE_STEPS_S if step <= max(age_s, 0))


def lag_step(lag: int | None) -> int | None:
    """Return the lag's order of magnitude: 0, 1, 10, 100 and so on."""
    if lag is None or lag <= 0:
        return lag if lag is None else 0
    return int(10 ** (len(str(lag)) - 1))


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """The value of the condition `sluicegate.dev/unfenced` of one broker's pod."""

    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str


def gate_refused_words(pod: str, refusal: str) -> str:
    """Describe for users that the API server permanently refuses the readiness gate of a broker's pod."""
    return (
        f"the API server refuses to set the readiness gate {READINESS_GATE} of pod {pod}, and Kubernetes does not learn"
        f" whether its broker serves clients: {refusal}; change the policy or the RBAC rule that refuses it"
    )


def unfenced_gate(overview: ClusterOverview | None, broker_id: int, host: str) -> GateVerdict | None:
    """Return the condition for a broker's pod, or None to leave the condition unchanged.

    The result is None if no controller answers, or if the pod's address is not known yet: clients that are served
    continue to be served. `host` is the pod's address: a session from another address belongs to the previous pod.
    """
    if overview is None:
        return None
    broker = overview.broker(broker_id)
    if broker is None:
        return GateVerdict("False", "NotRegistered", f"broker {broker_id} has not registered with the controller")
    if broker.host is not None and host not in ("", broker.host):
        return GateVerdict(
            "False", "NotRegistered", f"the controller still has a session of broker {broker_id} at {broker.host}"
        )
    if broker.state is not BrokerState.ONLINE:
        return GateVerdict("False", broker.state.value, _SENTENCES[broker.state])
    # The session's owner is known only with the pod's address.
    return GateVerdict("True", broker.state.value, _SENTENCES[broker.state]) if host else None
