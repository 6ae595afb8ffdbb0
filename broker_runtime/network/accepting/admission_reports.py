"""Report the clients of one listener that are not admitted: counters, notices and log lines. Shell."""

import logging
from collections import Counter

from broker_runtime.config import BrokerConfig
from broker_runtime.config.keys.broker import LISTENER_PREFIX
from broker_runtime.network.accepting.acceptor_runtime import AcceptorRuntime
from broker_runtime.network.accepting.waiting_clients import WaitingClient
from broker_runtime.network.connection.connection_notices import ABANDONED, ConnectionNotice, NoticeKind
from broker_runtime.network.quotas.accept_decision import AcceptDecision, AcceptOutcome
from broker_runtime.network.quotas.listener_quota import OF_LISTENER, WaitsFor
from broker_runtime.network.quotas.quotas import ConnectionQuotas
from broker_runtime.network.sockets.listening import is_abandoned
from broker_runtime.network.sockets.proxy_header import MEANING_OF_REFUSAL, HeaderOutcome

_log = logging.getLogger(__name__)
_GROUP_PREFIX = "connection-group."


class AdmissionReports:
    """Counts, logs and publishes what happens to clients before they are admitted. Owns no socket."""

    def __init__(self, listener: str, runtime: AcceptorRuntime) -> None:
        self.listener = listener
        self.abandoned_total = 0
        """Connections that the client had closed before they were accepted."""
        self.header_outcomes: Counter[HeaderOutcome] = Counter()
        """Results of connections that had to send a PROXY header."""
        self._quotas = runtime.quotas
        self._now = runtime.now
        self._notices = runtime.notices
        self._refusals = runtime.refusals

    def warn(self, kind: str, text: str) -> None:
        """Count a refusal by `kind`, and log it at intervals."""
        line = self._refusals.note(kind, text, int(self._now() * 1000))
        if line is not None:
            _log.warning("%s", line)

    def refused(self, peer: tuple[str, int], reason: str) -> None:
        """Publish that a connection is not admitted for a reason that is not a limit."""
        tell = self._notices.tell
        if tell is not None:
            tell(ConnectionNotice(NoticeKind.REFUSED, self.listener, *peer, reason=reason))

    def abandoned(self, client: WaitingClient) -> None:
        """Report a client that has hung up; its socket is still open."""
        self.abandoned_total += 1
        self.refused(client.peer, ABANDONED)
        if client.by_proxy:
            is_probe = is_abandoned(client.accepted)
            self.header_outcomes[HeaderOutcome.PROBE if is_probe else HeaderOutcome.ABANDONED] += 1

    def header_refused(self, peer: tuple[str, int], outcome: HeaderOutcome) -> None:
        """Report a connection that ended without a header, or with one that is not accepted."""
        self.header_outcomes[outcome] += 1
        meaning = MEANING_OF_REFUSAL.get(outcome)
        if meaning is not None:
            self.refused(peer, meaning)
            self.warn(f"proxy-{outcome}", f"closed the connection {peer[0]}:{peer[1]} of {self.listener}: {meaning}")

    def limited(self, decision: AcceptDecision, peer: tuple[str, int]) -> None:
        """Publish the limit that a connection waits for, or is refused by."""
        tell = self._notices.tell
        if tell is None:
            return
        outcome, at_ms = decision.outcome, decision.at_ms
        limit = limit_met(self._quotas, self.listener, decision)
        waits = outcome in (AcceptOutcome.WAIT_UNTIL, AcceptOutcome.WAIT_FOR_SLOT)
        has_end = outcome in (AcceptOutcome.WAIT_UNTIL, AcceptOutcome.REFUSE_DELAYED)
        delay_s = (at_ms - int(self._now() * 1000)) / 1000 if has_end else None
        kind = NoticeKind.LIMITED if waits else NoticeKind.REFUSED
        tell(ConnectionNotice(kind, self.listener, *peer, limit=limit, delay_s=delay_s))


def limit_met(quotas: ConnectionQuotas, listener_name: str, decision: AcceptDecision) -> str:
    """Return the configuration key of the limit for which a connection of the listener waits, or is refused.

    For a connection group, return `connection-group.NAME.KEY`, where KEY is that of the group's client quota.
    """
    outcome = decision.outcome
    if decision.group is not None:
        key = "max_connections" if outcome is AcceptOutcome.REFUSE_TOO_MANY else "connection_creation_rate"
        return f"{_GROUP_PREFIX}{decision.group}.{key}"
    if outcome is AcceptOutcome.REFUSE_TOO_MANY:
        return BrokerConfig.max_connections_per_ip.name
    if outcome in (AcceptOutcome.REFUSE_DELAYED, AcceptOutcome.REFUSE_DROPPED):
        return BrokerConfig.max_connection_creation_rate_per_ip.name
    wait = quotas.listeners[listener_name].waiting
    if wait is None:
        raise ValueError(f"listener {listener_name} has no waiting connection")
    by_rate = wait.limit in (WaitsFor.BROKER_RATE, WaitsFor.LISTENER_RATE)
    key = (BrokerConfig.max_connection_creation_rate if by_rate else BrokerConfig.max_connections).name
    return f"{LISTENER_PREFIX}{listener_name.lower()}.{key}" if wait.limit in OF_LISTENER else key
