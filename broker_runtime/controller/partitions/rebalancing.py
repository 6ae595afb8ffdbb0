"""Schedule the return of leaderships to the preferred replicas (auto.leader.rebalance.enable).

This happens at Kafka's interval, and soon after a preferred replica is back in sync. Until then the first broker to
return leads everything. The delay lets other brokers that return together with it catch up.
"""

from collections.abc import Sequence

from broker_runtime.config import BrokerSettings
from broker_runtime.controller.partitions import elections
from broker_runtime.coordination.seam import Decision
from broker_runtime.coordination.timer_service import TimerService
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.slicing.steps import Steps

ControllerTimers = TimerService[Decision[MetadataImage, MetadataRecord, None]]

_AT_INTERVAL, _SOON = "the rebalancing of leaders at its interval", "the rebalancing of leaders after a return"


class LeaderRebalancing:
    """Schedules the moves of leaders to preferred replicas: two timers of the active controller.

    They are soft state, which `begin` recreates in each term.
    """

    def __init__(self, settings: BrokerSettings, timers: ControllerTimers) -> None:
        config = settings.config
        self._enabled = config.auto_leader_rebalance_enable
        self._interval_s = config.leader_imbalance_check_interval_seconds
        self._delay_s = config.sluicegate_leader_rebalance_delay_ms / 1000
        self._timers = timers

    def begin(self) -> None:
        """Start the timers when a controller becomes active.

        Preferred replicas may already wait to lead since the previous controller's term.
        """
        if self._enabled:
            self._timers.schedule(_AT_INTERVAL, self._interval_s, self._rebalance)
            self.leader_waits()

    def leader_waits(self) -> None:
        """Schedule a rebalance, because a preferred replica could lead but does not."""
        if self._enabled and self._delay_s < self._interval_s:
            self._timers.schedule_if_absent(_SOON, self._delay_s, self._rebalance)

    def _rebalance(self, image: MetadataImage) -> Steps[tuple[Sequence[MetadataRecord], None]]:
        self._timers.schedule(_AT_INTERVAL, self._interval_s, self._rebalance)
        records = yield from elections.rebalance(image)
        if len(records) == elections.REBALANCED_MAX:
            self.leader_waits()
        return records, None
