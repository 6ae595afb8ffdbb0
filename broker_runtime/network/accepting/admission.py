"""Admit, delay or refuse each accepted socket of one listener, as the quotas decide. Shell; it makes no decisions.

While the quotas delay a client, accepted sockets wait in the order of their arrival. Those whose clients hang up
meanwhile are closed: they do not count in any rate (decision 44). As in Kafka the quotas handle one socket at a time
(KIP-612). With `connection.quota.count.abandoned` only that socket waits in the process, and all other clients wait in
the kernel.
"""

import socket
from typing import Protocol

from broker_runtime.config.declaring.addresses import is_within
from broker_runtime.network.accepting.acceptor_runtime import AcceptorRuntime
from broker_runtime.network.accepting.admission_reports import AdmissionReports
from broker_runtime.network.accepting.awaited_headers import AwaitedHeaders
from broker_runtime.network.accepting.waiting_clients import WaitingClient, WaitingClients
from broker_runtime.network.connection.connection_notices import LISTENER_CLOSED
from broker_runtime.network.sockets.listening import is_abandoned
from broker_runtime.network.sockets.proxy_header import HeaderOutcome, PassedOn
from broker_runtime.network.sockets.refused_sockets import RefusedSockets
from connection_limits.accept_decision import AcceptDecision, AcceptOutcome


class ConnectionFactory(Protocol):
    """A function that takes over the sockets of admitted clients."""

    def __call__(
        self, accepted: socket.socket, listener: str, peer: tuple[str, int], now_s: float, arrived_s: float
    ) -> None:
        """Take over a non-blocking socket that was taken from the kernel at `arrived_s`, and admitted at `now_s`."""
        ...


class Admission:
    """The accepted sockets of a listener until they are admitted or closed.

    Each is in `waiting`, in `headers` or in `refused`.
    """

    def __init__(
        self, waiting: WaitingClients, connect: ConnectionFactory, reports: AdmissionReports, runtime: AcceptorRuntime
    ) -> None:
        self.waiting = waiting
        self.paused: str | None = None
        """Why each new connection is closed without asking the quotas; None if they are asked."""
        self._listener = reports.listener
        self._connect = connect
        self._reports = reports
        self._quotas = quotas = runtime.quotas
        self._limits = runtime.limits
        self._now = runtime.now
        self.trusted = quotas.settings.trusted_proxies.get(self._listener, ())
        """Proxies whose connections begin with a PROXY header; if there are any, no other client is accepted."""
        self.headers = AwaitedHeaders(runtime.loop, self._now, runtime.limits, self._identified, self._not_identified)
        self.refused = RefusedSockets(runtime.loop, self._now, quotas.settings.max_delayed_closes)

    def limits_changed(self) -> None:
        """Apply changed connection limits to the clients that wait to be admitted."""
        self.trusted = self._quotas.settings.trusted_proxies.get(self._listener, ())
        self.refused.set_limit(self._quotas.settings.max_delayed_closes)

    def take(self, accepted: socket.socket, peer: tuple[str, int], now_s: float, arrived_s: float) -> None:
        """Close a socket that is not to be served, queue it while others wait, or ask the quotas.

        `arrived_s` is earlier than `now_s` if the socket has waited in the process.

        A connection from an untrusted proxy is closed: it could claim any address. Such a connection does not count in
        the listener's rate.
        """
        by_proxy = bool(self.trusted)
        if self.paused is not None:
            accepted.close()
            self._reports.refused(peer, self.paused, now_s, arrived_s)
            self._reports.warn(
                "paused", f"closed the connection {peer[0]}:{peer[1]} of {self._listener}: {self.paused}"
            )
        elif by_proxy and not is_within(peer[0], self.trusted):
            accepted.close()
            self._reports.header_refused(peer, HeaderOutcome.UNTRUSTED)
        elif not self._quotas.settings.count_abandoned and is_abandoned(accepted, self._header_bytes_max(by_proxy)):
            self._close_abandoned(WaitingClient(accepted, peer, by_proxy, arrived_s), now_s)
        elif self.waiting.delays:
            self.waiting.add(WaitingClient(accepted, peer, by_proxy, arrived_s))
        else:
            decision = self._quotas.on_accepted(self._listener, None if by_proxy else peer[0], int(now_s * 1000))
            if decision.outcome is AcceptOutcome.ADMIT and not by_proxy:
                accepted.setblocking(False)
                self._connect(accepted, self._listener, peer, now_s, arrived_s)
            else:
                self._carry_out(decision, WaitingClient(accepted, peer, by_proxy, arrived_s), now_s)

    def _header_bytes_max(self, by_proxy: bool) -> int | None:
        return self._limits.proxy_header_max_bytes if by_proxy else None

    def _has_hung_up(self, client: WaitingClient) -> bool:
        return is_abandoned(client.accepted, self._header_bytes_max(client.by_proxy))

    def _close_abandoned(self, client: WaitingClient, now_s: float) -> None:
        self._reports.abandoned(client, now_s)
        client.accepted.close()

    def drop_abandoned(self) -> None:
        """Close the waiting sockets whose clients have hung up.

        The next client takes over the wait of the first.
        """
        if self._quotas.settings.count_abandoned:
            return
        waiting, now_s = self.waiting, self._now()
        for client in waiting.take_abandoned(self._has_hung_up):
            self._close_abandoned(client, now_s)
        if waiting.delays and not waiting:
            waiting.end_wait()
            self._quotas.on_wait_abandoned(self._listener, int(now_s * 1000), by_client=True)

    def _identified(
        self, accepted: socket.socket, proxy: tuple[str, int], passed_on: PassedOn, waited_s: float
    ) -> None:
        """Handle an arrived header: the connection now counts as its client's."""
        peer = passed_on.client or proxy
        now_s = self._now()
        now_ms, waited_ms = int(now_s * 1000), int(waited_s * 1000)
        client = WaitingClient(accepted, peer, by_proxy=False, arrived_s=now_s - waited_s)
        outcomes = self._reports.header_outcomes
        if not self._quotas.settings.count_abandoned and is_abandoned(accepted):
            self._quotas.on_identified(self._listener, None, now_ms, waited_ms, abandoned=True)
            outcomes[HeaderOutcome.ABANDONED] += 1
            self._close_abandoned(client, now_s)
            return
        outcomes[HeaderOutcome.CLIENT if passed_on.client else HeaderOutcome.LOCAL] += 1
        decision = self._quotas.on_identified(self._listener, peer[0], now_ms, waited_ms)
        self._carry_out(decision, client, now_s)

    def _not_identified(self, proxy: tuple[str, int], outcome: HeaderOutcome) -> None:
        self._quotas.on_identified(self._listener, None, int(self._now() * 1000))
        self._reports.header_refused(proxy, outcome)

    def _carry_out(self, decision: AcceptDecision, client: WaitingClient, now_s: float) -> None:
        """Carry out what the quotas have decided at `now_s`."""
        outcome, (accepted, peer, by_proxy, arrived_s) = decision.outcome, client
        if outcome is AcceptOutcome.ADMIT:
            accepted.setblocking(False)
            if by_proxy:
                self.headers.add(accepted, peer)
            else:
                self._connect(accepted, self._listener, peer, now_s, arrived_s)
            return
        self._reports.limited(decision, client, now_s)
        if outcome is AcceptOutcome.WAIT_UNTIL or outcome is AcceptOutcome.WAIT_FOR_SLOT:
            self.waiting.delay(client)
            if outcome is AcceptOutcome.WAIT_UNTIL:
                self.waiting.end_at(decision.at_ms)
        elif outcome is AcceptOutcome.REFUSE_DELAYED:
            self.refused.add(accepted, decision.at_ms)
        else:
            accepted.close()

    def ask_again(self) -> bool:
        """Ask the quotas again for the client that they delay, and return whether its wait has ended.

        If that client has hung up, the next one takes over its wait.
        """
        waiting = self.waiting
        waiting.cancel_end()
        self.drop_abandoned()
        if not waiting.delays:
            return True
        ip = None if waiting.first.by_proxy else waiting.first.peer[0]
        now_s = self._now()
        decision = self._quotas.on_wait_over(self._listener, ip, int(now_s * 1000))
        if decision.outcome is AcceptOutcome.WAIT_UNTIL:
            waiting.end_at(decision.at_ms)
            return False
        if decision.outcome is AcceptOutcome.WAIT_FOR_SLOT:
            return False
        waiting.end_wait()
        self._carry_out(decision, waiting.take(), now_s)
        return True

    def pause(self, why: str) -> None:
        """Admit no clients for now: close their connections, those that wait and those that arrive.

        These are the connections whose header is awaited, and the one that the quotas delay. The acceptor takes the
        clients behind the delayed one soon.
        """
        self.paused = why
        self.headers.close_all()
        self._abandon_first(why)

    def _abandon_first(self, why: str) -> None:
        """Close the connection of the client that the quotas delay, if there is one, and report it."""
        if self.waiting.delays:
            self.waiting.end_wait()
            client = self.waiting.take()
            client.accepted.close()
            now_s = self._now()
            self._quotas.on_wait_abandoned(self._listener, int(now_s * 1000))
            self._reports.refused(client.peer, why, now_s, client.arrived_s)

    def close(self) -> None:
        """Close all sockets that are not admitted; thousands of them take several iterations of the event loop.

        Waiting clients are reported: otherwise the audit log would not say that they waited behind others.
        """
        self._abandon_first(LISTENER_CLOSED)
        now_s = self._now()
        for client in self.waiting.close_all():
            self._reports.refused(client.peer, LISTENER_CLOSED, now_s, client.arrived_s)
        self.headers.close_all()
        self.refused.close_all()
