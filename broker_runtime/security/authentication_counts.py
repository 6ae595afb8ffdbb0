"""Counts of authentications by listener, as in Apache Kafka's socket-server-metrics. Pure."""

from collections import defaultdict
from collections.abc import Mapping

COUNTED: Mapping[str, str] = {
    "successful_authentication_total": "Clients that have authenticated",
    "failed_authentication_total": "Clients whose authentication has failed",
    "successful_reauthentication_total": "Clients that have authenticated again on an open connection (KIP-368)",
    "failed_reauthentication_total": "Clients that have failed to authenticate again on an open connection",
    "successful_authentication_no_reauth_total": "Clients that have authenticated and do not support KIP-368",
    "expired_connections_killed_total": "Connections closed because their session had ended before a request",
}
"""The counters of authentication by name, with their descriptions."""


class AuthenticationCounts:
    """The counts of authentication by listener, since the process has started."""

    __slots__ = ("by_listener",)

    def __init__(self) -> None:
        self.by_listener: dict[str, dict[str, int]] = {}
        """The counters of each listener whose clients authenticate, by name."""

    def begin(self, listener: str) -> None:
        """Show the counters of a listener from now on."""
        self.by_listener.setdefault(listener, defaultdict(int))

    def count(self, name: str, listener: str) -> None:
        """Add one to a counter of COUNTED."""
        self.begin(listener)
        self.by_listener[listener][name] += 1
