"""Report the clients of one listener that are not admitted: counters, notices and log lines. Shell."""

import logging
from collections import Counter

from broker_runtime.network.accepting.acceptor_runtime import AcceptorRuntime
from broker_runtime.network.accepting.waiting_clients import WaitingClient
from broker_runtime.network.connection.connection_notices import ABANDONED, ConnectionNotice, NoticeKind
from broker_runtime.network.sockets.listening import is_abandoned
from broker_runtime.network.sockets.proxy_header import MEANING_OF_REFUSAL, HeaderOutcome
from connection_limits.accept_decision import AcceptDecision, AcceptOutcome
from connection_limits.limit_met import limit_met, rate_in_force

_log = logging.getLogger(__name__)


class AdmissionReports:
    """Counts, logs and publishes what happens to clients before they are admitted. It owns no socket."""

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

    def refused(self, peer: tuple[str, int], reason: str, now_s: float, arrived_s: float | None = None) -> None:
        """Publish that a connection is not admitted from `now_s` on, for a reason that is not a limit.

        `arrived_s` is when the connection was taken from the kernel, if that is known.
        """
        publish = self._notices.publish
        if publish is not None:
            rate = rate_in_force(self._quotas, self.listener)
            publish(
                ConnectionNotice(
                    NoticeKind.REFUSED,
                    self.listener,
                    *peer,
                    reason=reason,
                    listener_rate=rate,
                    arrived_s=arrived_s,
                    decided_s=now_s,
                )
            )

    def abandoned(self, client: WaitingClient, now_s: float) -> None:
        """Report a client whose hang-up was noticed at `now_s`; its socket is still open."""
        self.abandoned_total += 1
        self.refused(client.peer, ABANDONED, now_s, client.arrived_s)
        if client.by_proxy:
            is_probe = is_abandoned(client.accepted)
            self.header_outcomes[HeaderOutcome.PROBE if is_probe else HeaderOutcome.ABANDONED] += 1

    def header_refused(self, peer: tuple[str, int], outcome: HeaderOutcome) -> None:
        """Report a connection that ended without a header, or with one that is not accepted."""
        self.header_outcomes[outcome] += 1
        meaning = MEANING_OF_REFUSAL.get(outcome)
        if meaning is not None:
            self.refused(peer, meaning, self._now())
            self.warn(f"proxy-{outcome}", f"closed the connection {peer[0]}:{peer[1]} of {self.listener}: {meaning}")

    def limited(self, decision: AcceptDecision, client: WaitingClient, now_s: float) -> None:
        """Publish the limit for which a connection waits, or by which it is refused, since `now_s`."""
        publish = self._notices.publish
        if publish is None:
            return
        outcome, at_ms, peer = decision.outcome, decision.at_ms, client.peer
        limit = limit_met(self._quotas, self.listener, decision, peer[0])
        waits = outcome in (AcceptOutcome.WAIT_UNTIL, AcceptOutcome.WAIT_FOR_SLOT)
        has_end = outcome in (AcceptOutcome.WAIT_UNTIL, AcceptOutcome.REFUSE_DELAYED)
        delay_s = (at_ms - int(now_s * 1000)) / 1000 if has_end else None
        kind = NoticeKind.LIMITED if waits else NoticeKind.REFUSED
        rate = rate_in_force(self._quotas, self.listener)
        publish(
            ConnectionNotice(
                kind,
                self.listener,
                *peer,
                limit=limit.name,
                delay_s=delay_s,
                held_by=limit,
                listener_rate=rate,
                arrived_s=client.arrived_s,
                decided_s=now_s,
            )
        )
