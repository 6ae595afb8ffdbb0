"""The shares of rates of the cluster in one term of a controller (decision 69). Shell over the ledger: reads the clock.

Nothing is durable: brokers report what they hold to the ledger of a new term.
"""

from broker_runtime.clock import Clock
from broker_runtime.config import BrokerConfig
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.slicing.steps import Steps
from connection_limits.cluster.ledger import Ledger
from connection_limits.cluster.members import Members
from connection_limits.cluster.reports import Answer, Report

_LISTENERS_MAX = 1_000


def limits_max(config: BrokerConfig) -> int:
    """Return how many rates of the cluster a broker may report: groups, as many removed ones, and listeners."""
    return 2 * config.sluicegate_connection_groups_cluster_max + _LISTENERS_MAX


class SharesOfTerm:
    """The ledger of shares in the present term. Imported when the first broker reports (decision 45)."""

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        self.ledger: Ledger | None = None
        """The ledger of the present term; None before the first report."""
        self._config = config
        self._clock = clock

    def report(self, report: Report, image: MetadataImage) -> Steps[Answer]:
        """Read a broker's report over several steps, and return the answer. The image is that of the active controller.

        A fenced broker counts until the lease of its shares has ended. It serves no clients by then: it has fenced
        itself, or stops.
        """
        now_ms = int(self._clock.monotonic() * 1000)
        unfenced = {broker.id: broker.epoch for broker in image.brokers.values() if not broker.fenced}
        epoch = image.cluster.controller_epoch
        ledger = self.ledger
        if ledger is None or ledger.controller_epoch != epoch:
            registered = {broker.id: broker.epoch for broker in image.brokers.values()}
            config = self._config
            lease_ms, session_ms = config.sluicegate_connection_shares_lease_ms, config.broker_session_timeout_ms
            members = Members(lease_ms, session_ms, registered, now_ms)
            ledger = self.ledger = Ledger(
                epoch, members, limits_max(config), config.sluicegate_connection_shares_report_ms // 2
            )
        ledger.members_are(unfenced, len(image.brokers), now_ms)
        return ledger.report(report, now_ms)

    def end_term(self) -> None:
        """Discard the ledger: this controller is no longer active."""
        self.ledger = None
