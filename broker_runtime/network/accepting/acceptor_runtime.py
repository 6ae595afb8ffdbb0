"""State that the acceptors of one server share. Shell."""

from broker_runtime.network.connection.shared import Shared
from broker_runtime.network.quotas.refusals import RefusalLog
from connection_limits.quotas import ConnectionQuotas

_BUSY_S = 0.1
"""A client that sent something within this time counts as busy."""


class AcceptorRuntime:
    """The event loop, clock, limits, quotas and log of one server, which its acceptors share."""

    __slots__ = ("limits", "loop", "notices", "now", "quotas", "refusals", "shared")

    def __init__(self, shared: Shared, quotas: ConnectionQuotas, refusals: RefusalLog) -> None:
        self.shared = shared
        self.loop = shared.loop
        self.now = shared.now
        self.limits = shared.limits
        self.notices = shared.notices
        self.quotas = quotas
        self.refusals = refusals

    def established_busy(self, now_s: float) -> bool:
        """Return whether established clients have sent anything within `_BUSY_S`."""
        return now_s - self.shared.established_used_s < _BUSY_S
