"""The state of a cluster's quotas and of its brokers between two passes of the quota path. No I/O."""

from dataclasses import dataclass, field
from datetime import datetime

from sluicegate_operator.api.models.connection_quota import ConnectionQuota, Holding, ObservedCounts
from sluicegate_operator.api.models.parts.adaptive_rate import AdaptedRates
from sluicegate_operator.api.models.parts.broker_shares import BrokerShares
from sluicegate_operator.planning.listeners.exposure import NOT_HIDDEN, Hiding
from sluicegate_operator.quotas.model.targets import QuotaName
from sluicegate_operator.quotas.plan import Claim, Ruling
from sluicegate_operator.quotas.state.ledger import LimitLedger
from sluicegate_operator.quotas.state.newest_first import NewestFirst
from sluicegate_operator.quotas.state.unresponsive_brokers import UnresponsiveBrokers
from sluicegate_operator.quotas.status import Enforcement


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Facts about the brokers of a cluster that the statuses of all of its quotas show.

    - `expected`: brokers that should enforce the quotas; `unreachable`: those that have been silent for long.
    - `mute`: quotas whose listener is missing keep their status.
    - `strategy`: how brokers measure rates.
    - `error`: why brokers lag, if no single limit has an error.
    - `pods_unseen`: why the operator has not seen changes of pods for some time; empty while it sees them.
    """

    expected: tuple[int, ...] = ()
    unreachable: frozenset[int] = frozenset()
    hiding: Hiding = NOT_HIDDEN
    mute: bool = False
    strategy: str = ""
    error: str = ""
    pods_unseen: str = ""


@dataclass(frozen=True, slots=True)
class KnownBrokers:
    """The brokers of one cluster, with the limits that each lacks and the time since when each is silent."""

    cluster_uid: str = ""
    """Whose brokers they are; empty before the first pass that asked them."""
    ledger: LimitLedger = field(default_factory=LimitLedger)
    silences: UnresponsiveBrokers = field(default_factory=UnresponsiveBrokers)
    facts: ClusterFacts = field(default_factory=ClusterFacts)


@dataclass(frozen=True, slots=True)
class PassTimes:
    """Times at which the passes over a cluster's quotas do something, in seconds of the event loop's clock."""

    resync_at_s: float = 0.0
    """Time at which brokers are asked for all limits again."""
    starts_until_s: float = 0.0
    """Until then, brokers that are not ready count as starting; 0 once all were ready."""


@dataclass(frozen=True, slots=True)
class DueStatuses:
    """The statuses of a cluster's quotas that have to be written, and those that Kubernetes refused.

    `states` is what metrics count.
    """

    waiting: NewestFirst = field(default_factory=NewestFirst)
    """Quotas whose status is to be written."""
    refused: dict[QuotaName, float] = field(default_factory=dict)
    """Quotas whose status is refused for good, each with the time of the next try."""
    states: dict[QuotaName, str] = field(default_factory=dict)
    """The reason of each quota's condition Enforced; Paused if a pause removed that condition.

    It is always the same object, which metrics count at any time.
    """


@dataclass(frozen=True, slots=True)
class Assessment:
    """The input of a quota's status: the decision on the quota, and the brokers' progress with its limits.

    While the cluster is paused, there is neither a ruling nor an enforcement.
    """

    claim: Claim
    ruling: Ruling | None
    enforcement: Enforcement | None


@dataclass(slots=True, eq=False)
class KnownQuota:
    """A ConnectionQuota as it was last read or written, with all that its status shows.

    Its status is due if `written` is not `assessment`.
    """

    quota: ConnectionQuota
    claim: Claim
    observed: ObservedCounts | None = None
    """Counts of brokers for a quota with mode Observe."""
    holding: Holding | None = None
    """The connections that the limit throttles now, as the status has them or will have them."""
    adaptive: AdaptedRates | None = None
    """The adaptive rates of the brokers, as the status has them or will have them."""
    shares: BrokerShares | None = None
    """The shares of the brokers in a rate of the cluster, as the status has them or will have them."""
    host_network_pods: int = 0
    """Number of selected pods that have the address of their node."""
    assessment: Assessment | None = None
    assessed_at: datetime | None = None
    """Time when brokers were asked for this assessment."""
    written: Assessment | None = None
    """The assessment that the status follows from.

    None before the first one, and after another client wrote the status.
    """
    was_sent: bool = False
    """Whether the quota's limits were sent to brokers since its status was last written."""
    is_being_written: bool = False

    @classmethod
    def of(cls, quota: ConnectionQuota, before: "KnownQuota | None") -> "KnownQuota":
        """Return the state of a ConnectionQuota that was just read, from its status.

        It takes the selected pods from `before`, an earlier object of the name: pods are reported only when a selection
        changes.
        """
        claim, pods = (None, 0) if before is None else (before.claim, before.host_network_pods)
        status = quota.status
        return cls(quota, _claim(quota, claim), status.observed, status.holding, status.adaptive, status.shares, pods)

    @property
    def has_figures(self) -> bool:
        """Return whether the quota's status has numbers that no other quota shares."""
        return any(figure is not None for figure in (self.observed, self.holding, self.adaptive, self.shares))

    def is_of(self, quota: ConnectionQuota) -> bool:
        """Return whether `quota` is the same object as this one, and not another one of the same name."""
        return self.quota.metadata.uid == quota.metadata.uid

    def see(self, quota: ConnectionQuota) -> None:
        """Replace the quota by a newer version of the same object."""
        seen, self.quota = self.quota, quota
        if seen.spec_version != quota.spec_version:
            self.claim = _claim(quota, self.claim)
        elif seen.metadata.resource_version != quota.metadata.resource_version and seen.status != quota.status:
            self.written = None


def _claim(quota: ConnectionQuota, before: Claim | None) -> Claim:
    """Return a claim of the quota with the pods of `before`: pods are reported only when a selection changes."""
    if before is None or quota.spec.target.workload is None:
        return Claim.of(quota)
    return Claim.of(quota, before.addresses)
