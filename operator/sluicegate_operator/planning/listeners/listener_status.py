"""The status of a BrokerListener, derived from the reports of its brokers and from its Services."""

from dataclasses import dataclass
from datetime import datetime

from sluicegate_operator.api.models.broker_listener import BrokerListener, BrokerListenerStatus
from sluicegate_operator.planning.layout.cluster_layout import ClusterLayout, ListenerClash
from sluicegate_operator.planning.listeners.exposure import HIDDEN, NOT_HIDDEN, Hiding
from sluicegate_operator.planning.listeners.listeners import ListenerSeen
from sluicegate_operator.planning.status.conditions import (
    NAME_TAKEN,
    NOT_APPLIED,
    Finding,
    Progress,
    conditions,
    not_applied_words,
    observed_generation,
    ready,
    stalled,
    working,
)
from sluicegate_operator.planning.status.missing_cluster import cluster_missing_words

ADDRESSES_MAX = 100
BROKERS_SHOWN_MAX = 10


@dataclass(frozen=True, slots=True)
class ServicesSeen:
    """The state of a listener's Services.

    - `name_taken`, `refusal`: messages that include what to do.
    - `waits`: the obstacle for clients that connect to `bootstrap`.
    - `not_applied`: a refusal that may pass and has lasted.
    - `left_over`: a refusal to delete a Service that is no longer wanted. Clients are served meanwhile.
    - `left_over_may_pass`: that refusal has lasted, and the next try may be accepted.
    """

    name_taken: str = ""
    refusal: str = ""
    bootstrap: str = ""
    waits: str = ""
    hiding: Hiding = NOT_HIDDEN
    not_applied: str = ""
    left_over: str = ""
    left_over_may_pass: bool = False


@dataclass(frozen=True, slots=True)
class CertificateSeen:
    """The certificates of a listener with TLS.

    `secret` is the operator's Secret with the last good certificates, empty before there are any. `problem` and
    `reason` say why the Secrets of the spec cannot be used.
    """

    secret: str = ""
    problem: str = ""
    reason: str = ""


NO_CERTIFICATE = CertificateSeen()


def listener_status(
    listener: BrokerListener,
    layout: ClusterLayout | None,
    seen: ListenerSeen,
    now: datetime,
    services: ServicesSeen = ServicesSeen(),
    certificate: CertificateSeen = NO_CERTIFICATE,
) -> BrokerListenerStatus:
    """Return the status of `listener`; `layout` is None if there is no such cluster.

    A listener that clashes serves nothing: the brokers' listener of that name belongs to the other BrokerListener.
    """
    old = listener.status
    if _clash(listener, layout) is not None:
        seen, services = ListenerSeen(), ServicesSeen(hiding=services.hiding)
    progress = _progress(listener, layout, seen, services, certificate)
    told = seen.told if layout is not None else {}
    served = progress.settled and told and not services.name_taken and not services.refusal
    hidden = services.hiding
    if services.left_over and progress.findings[0].is_true:
        progress = _left_over(services)
    findings = (*progress.findings, Finding(HIDDEN, hidden.hidden, hidden.reason, hidden.message))
    return BrokerListenerStatus(
        observed_generation=observed_generation(listener, old, progress),
        conditions=conditions(listener, old, findings, now),
        protocol=listener.spec.security_protocol,
        tls_secret=certificate.secret if listener.spec.tls is not None else "",
        brokers=f"{_done(seen)}/{len(layout.broker_ids)}" if layout is not None else "",
        addresses=tuple(sorted(map(str, told.values())))[:ADDRESSES_MAX],
        bootstrap=services.bootstrap if served else "",
    )


def _left_over(services: ServicesSeen) -> Progress:
    opened = "the listener is open, but a Service that it does not need any more still exists"
    if services.left_over_may_pass:
        return working(NOT_APPLIED, f"{opened}: {not_applied_words(services.left_over)}")
    to_do = "delete the Service, or change the policy or the RBAC rule that refuses it"
    why = f"because the API server refuses to delete it: {services.left_over}"
    return stalled("ServiceNotDeleted", f"{opened}, {why}; {to_do}")


def _done(seen: ListenerSeen) -> int:
    return max(0, len(seen.told) - len(seen.waits))


def _clash(listener: BrokerListener, layout: ClusterLayout | None) -> ListenerClash | None:
    clashes = layout.clashes if layout is not None else ()
    return next((clash for clash in clashes if clash.resource == listener.name), None)


def _progress(
    listener: BrokerListener,
    layout: ClusterLayout | None,
    seen: ListenerSeen,
    services: ServicesSeen,
    certificate: CertificateSeen,
) -> Progress:
    if layout is None:
        return stalled("ClusterMissing", cluster_missing_words(listener, bundled=True))
    clash = _clash(listener, layout)
    if clash is not None:
        return stalled("Conflicted", clash.message)
    if certificate.problem:
        kept = "; brokers continue with the certificates that they have" if certificate.secret else ""
        return stalled(certificate.reason, f"{certificate.problem}{kept}")
    if services.name_taken:
        return stalled(NAME_TAKEN, services.name_taken)
    if services.refusal:
        return stalled("Refused", services.refusal)
    if services.not_applied:
        return working(NOT_APPLIED, not_applied_words(services.not_applied))
    return _on_brokers(seen, len(layout.broker_ids), services.waits)


def _on_brokers(seen: ListenerSeen, expected: int, bootstrap_waits: str) -> Progress:
    counted = f"open on {len(seen.told)}/{expected} brokers"
    if seen.refused:
        broker_id, why = min(seen.refused.items())
        return stalled("Refused", f"{counted}; broker {broker_id} refuses it: {why}")
    if seen.lacking:
        ids = ", ".join(map(str, seen.lacking[:BROKERS_SHOWN_MAX]))
        return working("Applying", f"{counted}; the change is being applied on {ids}")
    if seen.restarts:
        ids = ", ".join(map(str, seen.restarts[:BROKERS_SHOWN_MAX]))
        why = "because brokers read certificates and authentication of a listener when they start"
        return working("RestartPending", f"{counted}; these brokers open it after their restart, {why}: {ids}")
    if seen.unknown:
        return working("BrokersUnreachable", f"{counted}; broker {seen.unknown[0]} did not report its open listeners")
    if waits := [*seen.waits[:BROKERS_SHOWN_MAX], *([bootstrap_waits] if bootstrap_waits else [])]:
        return working("AddressPending", f"{counted}; {'; '.join(waits)}")
    if len(seen.told) < expected:
        return working("BrokersStarting", counted)
    return ready("Listening", counted)
