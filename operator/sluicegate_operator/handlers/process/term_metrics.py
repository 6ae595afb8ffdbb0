"""Metrics of the operator's clusters, for a term of leadership: a standby shows none."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from sluicegate_operator.engine.context.snapshot import ClusterKey
from sluicegate_operator.handlers.process.telemetry import APPLY_TO_ENFORCED, DRIFT_MENDED, RESTARTS
from sluicegate_operator.planning.certificates.cluster_ca_status import CertificatesSeen
from sluicegate_operator.planning.rolls.roll import RollStep, WaitForNodes, WaitReason

_CLUSTER = ["namespace", "broker_cluster"]
"""Labels of a BrokerCluster.

A label `cluster` would collide with that of Prometheus, which means a Kubernetes cluster.
"""


class PipelineMetrics(NamedTuple):
    """The metrics of an AuditPipeline: whether its newest run failed, and how many events its results lack."""

    failing: bool
    missing: int | None


class _Brokers(NamedTuple):
    """Brokers of the BrokerCluster with this uid: how many it wants, and how many are registered in each state."""

    uid: str
    wanted: int
    by_state: Mapping[str, int]


class TermMetrics(Collector):
    """The metrics of one term of leadership."""

    def __init__(self) -> None:
        self._quotas: dict[ClusterKey, Mapping[str, str]] = {}
        self._brokers: dict[ClusterKey, _Brokers] = {}
        self._blocked: dict[ClusterKey, str] = {}
        self._pipelines: dict[ClusterKey, Mapping[str, PipelineMetrics]] = {}
        self._certificate_ends_s: dict[ClusterKey, Mapping[str, float]] = {}

    def note_quotas(self, key: ClusterKey, states: Mapping[str, str] | None) -> None:
        """Record the states of a cluster's quotas; None if the cluster has no quotas.

        `states` has the reason of each ConnectionQuota's condition Enforced. A read of /metrics counts the reasons, so
        later changes of `states` count too.
        """
        if states is None:
            self._quotas.pop(key, None)
        else:
            self._quotas[key] = states

    def note_brokers(self, key: ClusterKey, uid: str, wanted: int, states: Collection[str]) -> None:
        """Record the states of a BrokerCluster's brokers.

        `uid` is the BrokerCluster's; `states` has one entry for each registered broker.
        """
        self._brokers[key] = _Brokers(uid, wanted, Counter(states))

    def keep_brokers(self, key: ClusterKey, uid: str) -> None:
        """Drop the brokers of an earlier BrokerCluster of the name. `uid` is that of the current BrokerCluster."""
        known = self._brokers.get(key)
        if known is not None and known.uid != uid:
            self.forget_brokers(key)

    def forget_brokers(self, key: ClusterKey) -> None:
        """Drop the brokers of this cluster until the next `note_brokers`."""
        self._brokers.pop(key, None)

    def note_roll(self, key: ClusterKey, step: RollStep | None) -> None:
        """Record the step of a roll for metrics. A roll that a user has paused does not count as blocked."""
        if isinstance(step, WaitForNodes) and step.blocked and step.reason is not WaitReason.PAUSED:
            self._blocked[key] = step.reason.value
        else:
            self._blocked.pop(key, None)

    def note_restart(self, reason: str) -> None:
        """Count a node that a roll has restarted."""
        RESTARTS.labels(reason).inc()

    def note_pipelines(self, key: ClusterKey, found: Mapping[str, PipelineMetrics]) -> None:
        """Record the metrics of all AuditPipelines of the cluster, by name."""
        self._pipelines.pop(key, None)
        if found:
            self._pipelines[key] = dict(found)

    def keep_pipelines(self, key: ClusterKey, names: Collection[str]) -> None:
        """Drop the metrics of all AuditPipelines of the cluster except `names`."""
        known = self._pipelines.get(key, {})
        self.note_pipelines(key, {name: figures for name, figures in known.items() if name in names})

    def note_certificates(self, key: ClusterKey, seen: CertificatesSeen | None) -> None:
        """Record when the cluster's own certificates end; None for a cluster without them."""
        self._certificate_ends_s.pop(key, None)
        if seen is not None:
            ends_s = {"authority": seen.authority_ends_s, "nodes": seen.certificate_ends_s}
            self._certificate_ends_s[key] = {name: at_s for name, at_s in ends_s.items() if at_s is not None}

    def note_drift(self, changes: int) -> None:
        """Count limits that were changed by hand on brokers and set again."""
        DRIFT_MENDED.inc(changes)

    def note_enforced_after(self, seconds: float) -> None:
        """Record the seconds from a ConnectionQuota's change until every broker was seen to enforce the quota."""
        APPLY_TO_ENFORCED.observe(seconds)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        quotas = _family("sluicegate_quotas", "ConnectionQuotas by the reason of their condition Enforced", "state")
        brokers = _family("sluicegate_brokers", "Registered brokers by the state of their BrokerRegistration", "state")
        wanted = _family("sluicegate_brokers_wanted", "Brokers that the BrokerCluster requests")
        blocked = _family(
            "sluicegate_roll_blocked",
            "1 while a roll waits for a condition that does not end without intervention",
            "reason",
        )
        counted = {key: Counter(list(states.values())) for key, states in dict(self._quotas).items()}
        of_brokers = dict(self._brokers)
        registered = {key: found.by_state for key, found in of_brokers.items()}
        for family, by_state in ((quotas, counted), (brokers, registered)):
            for key, states in by_state.items():
                for state, count in states.items():
                    family.add_metric([*key, state], count)
        for key, found in of_brokers.items():
            wanted.add_metric(key, found.wanted)
        for key, reason in dict(self._blocked).items():
            blocked.add_metric([*key, reason], 1)
        yield from (quotas, brokers, wanted, blocked, *self._of_pipelines(), self._of_certificates())

    def _of_certificates(self) -> GaugeMetricFamily:
        ends = _family(
            "sluicegate_cluster_certificate_end_seconds",
            "Time at which the authority of a cluster's own certificates or the certificate of its nodes ends, in"
            " seconds since 1970",
            "certificate",
        )
        for key, ends_s in dict(self._certificate_ends_s).items():
            for certificate, at_s in ends_s.items():
                ends.add_metric([*key, certificate], at_s)
        return ends

    def _of_pipelines(self) -> Iterator[GaugeMetricFamily]:
        failing = _family(
            "sluicegate_audit_pipeline_failing", "1 if the newest run of an AuditPipeline failed", "pipeline"
        )
        missing = _family(
            "sluicegate_audit_pipeline_missing_events",
            "Events that are missing in the results of an AuditPipeline",
            "pipeline",
        )
        for key, pipelines in dict(self._pipelines).items():
            for name, figures in pipelines.items():
                failing.add_metric([*key, name], figures.failing)
                if figures.missing is not None:
                    missing.add_metric([*key, name], figures.missing)
        yield from (failing, missing)


def _family(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=[*_CLUSTER, *labels])
