"""Accept the connections of one listening socket, and admit, delay or refuse each as the quotas decide. Shell.

While the quotas delay a client, the acceptor keeps accepted sockets in the order of their arrival. It closes those
whose clients hang up meanwhile: they do not count in any rate (decision 44). Waiting sockets use places of the backlog.
As in Kafka the quotas handle one socket at a time (KIP-612). With `connection.quota.count.abandoned` only that socket
waits in the process, and all other clients wait in the kernel. The acceptor makes no decisions itself.

While it is paused (the broker is fenced) it accepts and closes at once. Not accepting would leave clients waiting in
the backlog for a broker that may never serve again. Closing the listening socket would free the port, and for example
an outgoing connection of this host could take it. A client whose connection is closed tries another broker.
"""

import errno
import logging
import socket
from asyncio import TimerHandle
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from broker_runtime.config.declaring.addresses import is_within, peer_host
from broker_runtime.network.connection.awaited_headers import AwaitedHeaders
from broker_runtime.network.connection.connection_notices import ABANDONED, BACKLOG, ConnectionNotice, NoticeKind
from broker_runtime.network.connection.shared import Shared
from broker_runtime.network.connection.waiting_clients import HELD_MAX, WaitingClient, WaitingClients
from broker_runtime.network.quotas.limit_met import limit_met
from broker_runtime.network.quotas.quotas import AcceptDecision, AcceptOutcome, ConnectionQuotas
from broker_runtime.network.quotas.refusals import RefusalLog
from broker_runtime.network.sockets.abandoned import is_abandoned
from broker_runtime.network.sockets.listening import waiting_clients
from broker_runtime.network.sockets.proxy_header import MEANING_OF_REFUSAL, HeaderOutcome, PassedOn
from broker_runtime.network.sockets.refused_sockets import RefusedSockets

_log = logging.getLogger(__name__)

_OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_BUSY_S = 0.1
"""A client that sent something within this time counts as busy."""


_EXTRA_PLACE = 1
"""Linux queues one more connection than `listen` requests."""

_CHECK_S = 0.05
"""Time between two checks for waiting clients that have hung up."""


class ConnectionFactory(Protocol):
    """Takes over the sockets that an acceptor admits."""

    def __call__(self, accepted: socket.socket, listener: str, peer: tuple[str, int], now_s: float) -> None:
        """Take over an admitted, non-blocking socket."""
        ...


class AcceptorRuntime:
    """State that the acceptors of one server share."""

    __slots__ = ("clock", "limits", "loop", "refusals", "shared")

    def __init__(self, shared: Shared, refusals: RefusalLog) -> None:
        self.shared = shared
        self.loop = shared.loop
        self.clock = shared.clock
        self.limits = shared.limits
        self.refusals = refusals

    def established_busy(self, now_s: float) -> bool:
        """Whether established clients have sent anything within `_BUSY_S`."""
        return now_s - self.shared.established_used_s < _BUSY_S


class Acceptor:
    """Accepts clients of one listener. Owns `listening`; the quotas call `wake`."""

    def __init__(
        self,
        listener: str,
        listening: socket.socket,
        quotas: ConnectionQuotas,
        connection_factory: ConnectionFactory,
        runtime: AcceptorRuntime,
    ) -> None:
        self.listener = listener
        self.accept_errors_total = 0
        self.abandoned_total = 0
        """Connections that the client had closed before they were accepted."""
        self._listening = listening
        self._backlog = self._places = runtime.limits.listen_backlog
        """Number of clients that may wait, and how many of them may wait in the kernel."""
        self._quotas = quotas
        self._connect = connection_factory
        self._runtime = runtime
        self._loop = runtime.loop
        self._now: Callable[[], float] = runtime.clock.monotonic
        self._accepts_per_wakeup = runtime.limits.accepts_per_wakeup
        self._turn_s = runtime.limits.turn_s
        self._held = WaitingClients(self._has_hung_up)
        self._waits = False
        """Whether the quotas delay the first waiting client. The acceptor has not submitted the others to them."""
        self._accepting = False
        self._started = False
        self._stopped = False
        self._paused: str | None = None
        self._wait_timer: TimerHandle | None = None
        self._pause_timer: TimerHandle | None = None
        self._check_timer: TimerHandle | None = None
        self._trusted = quotas.settings.trusted_proxies.get(listener, ())
        self._headers = AwaitedHeaders(self._loop, self._now, runtime.limits, self._identified, self._not_identified)
        self.header_outcomes: Counter[HeaderOutcome] = Counter()
        """Results of connections that had to send a PROXY header."""
        self._refused = RefusedSockets(self._loop, self._now, quotas.settings.max_delayed_closes)
        self._fit_backlog()

    @property
    def address(self) -> tuple[str, int]:
        name = self._listening.getsockname()
        return name[0], name[1]

    @property
    def delayed_count(self) -> int:
        return len(self._refused)

    @property
    def awaited_headers(self) -> int:
        return len(self._headers)

    @property
    def waiting_count(self) -> int:
        return len(self._held)

    @property
    def is_for_proxies(self) -> bool:
        return bool(self._trusted)

    def limits_changed(self) -> None:
        """Apply changed limits of the quotas.

        A lower rate leaves fewer places, and clients that wait beyond them are disconnected. A limit set during a storm
        meets thousands of waiting clients: most have given up, and new clients would wait behind them for a minute.
        """
        self._trusted = self._quotas.settings.trusted_proxies.get(self.listener, ())
        self._refused.set_limit(self._quotas.settings.max_delayed_closes)
        before = self._backlog
        self._fit_backlog()
        self._watch_listening()
        if self._backlog < before:
            self._loop.call_soon(self._shed)

    @property
    def _behind(self) -> int:
        """Waiting clients that use a place of the backlog: the client that the quotas delay uses none."""
        return len(self._held) - self._waits

    def _shed(self) -> None:
        """Disconnect the clients that have waited longest, a few per iteration. The quotas do not count them."""
        surplus = 0
        if not self._stopped:
            surplus = waiting_clients(self._listening) + self._behind - self._backlog - _EXTRA_PLACE
        for _ in range(min(surplus, self._accepts_per_wakeup)):
            if self._behind:
                accepted, peer, _ = self._held.take(int(self._waits))
            else:
                try:
                    accepted, address = self._listening.accept()
                except OSError:
                    # The clients have gone, or no descriptor is free: the remaining ones keep waiting.
                    return
                peer = (peer_host(address[0]), address[1])
            accepted.close()
            self._tell(NoticeKind.REFUSED, peer, reason=BACKLOG)
            self._warn(
                "backlog",
                f"closed connections that waited for listener {self.listener}: its new limit leaves fewer slots",
            )
        if surplus > self._accepts_per_wakeup:
            self._loop.call_soon(self._shed)
        elif surplus > 0:
            self._fit_backlog()

    def _fit_backlog(self) -> None:
        """Size the kernel's queue to the places of the backlog that no waiting client uses."""
        self._backlog = self._quotas.backlog(self.listener, self._runtime.limits.listen_backlog)
        places = max(self._backlog - self._behind, 0)
        if places != self._places:
            self._places = places
            # Calling `listen` again changes only the length of the queue.
            self._listening.listen(places)

    def start(self) -> None:
        self._started = True
        self._watch_listening()

    def _watch_listening(self) -> None:
        """Start or stop accepting, as the current state requires."""
        wanted = self._started and not self._stopped and self._pause_timer is None and self._has_room
        if wanted and not self._accepting:
            self._loop.add_reader(self._listening.fileno(), self._on_ready)
        elif self._accepting and not wanted:
            self._loop.remove_reader(self._listening.fileno())
        self._accepting = wanted

    @property
    def _has_room(self) -> bool:
        """Whether one more client may be accepted while the quotas delay one."""
        if not self._waits:
            return True
        return not self._quotas.settings.count_abandoned and self._behind < min(self._backlog, HELD_MAX)

    def pause(self, why: str) -> None:
        """Close each new connection without asking the quotas, until `resume`."""
        self._paused = why
        self._headers.close_all()
        if self._waits:
            self._abandon_first()
            self._watch_listening()
            self._loop.call_soon(self._on_ready)

    def resume(self) -> None:
        self._paused = None

    def _on_ready(self) -> None:
        """Take the next clients for a bounded time, beginning with waiting ones that the quotas have not judged yet."""
        if self._stopped:
            # The acceptor was stopped in the previous iteration: its socket is closed, and the quotas may have removed
            # it.
            return
        accept = self._listening.accept
        stop_s = self._now() + self._turn_s
        for _ in range(self._accepts_per_wakeup):
            if self._behind and not self._waits:
                accepted, peer, _ = self._held.take()
            else:
                try:
                    accepted, address = accept()
                except BlockingIOError:
                    break
                except OSError as error:
                    if not self._accept_failed(error):
                        return
                    continue
                peer = (peer_host(address[0]), address[1])
            accepted_s = self._now()
            self._take(accepted, peer, accepted_s)
            if self._waits:
                self._watch_listening()
                if not self._accepting:
                    break
            if accepted_s >= stop_s:
                # Serving what the new clients had already sent used up the time.
                break
        self._fit_backlog()
        if self._accepting and (self._waits or self._runtime.established_busy(self._now())):
            self._pause_for(self._runtime.limits.accept_yield_s)
        elif self._behind and not self._waits:
            self._loop.call_soon(self._on_ready)

    def _pause_for(self, pause_s: float) -> None:
        """Stop accepting for `pause_s`, so that the loop serves established clients; new ones wait in the backlog."""
        self._pause_timer = self._loop.call_later(pause_s, self._after_pause)
        self._watch_listening()

    def _accept_failed(self, error: OSError) -> bool:
        """Return whether the next accept may be tried at once."""
        if error.errno not in _OUT_OF_RESOURCES:
            return error.errno in (errno.ECONNABORTED, errno.EINTR, errno.EPROTO)
        self.accept_errors_total += 1
        self._warn(
            "accept-error", f"listener {self.listener} cannot accept connections: {error.strerror}; retrying shortly"
        )
        self._pause_for(self._runtime.limits.accept_error_pause_s)
        return False

    def _after_pause(self) -> None:
        self._pause_timer = None
        self._watch_listening()
        if self._behind and not self._waits:
            self._on_ready()

    def _warn(self, kind: str, text: str) -> None:
        line = self._runtime.refusals.note(kind, text, int(self._now() * 1000))
        if line is not None:
            _log.warning("%s", line)

    def _take(self, accepted: socket.socket, peer: tuple[str, int], now_s: float) -> None:
        """Close a socket that is not to be served, queue it while others wait, or ask the quotas.

        A connection from an untrusted proxy is closed: it could claim any address. It does not count in the listener's
        rate.
        """
        by_proxy = bool(self._trusted)
        if self._paused is not None:
            accepted.close()
            self._tell(NoticeKind.REFUSED, peer, reason=self._paused)
            self._warn(
                "paused", f"closed the connection {peer[0]}:{peer[1]} of listener {self.listener}: {self._paused}"
            )
        elif by_proxy and not is_within(peer[0], self._trusted):
            accepted.close()
            self._note_refusal(peer, HeaderOutcome.UNTRUSTED)
        elif not self._quotas.settings.count_abandoned and is_abandoned(accepted, self._header_bytes_max(by_proxy)):
            self._close_abandoned(WaitingClient(accepted, peer, by_proxy))
        elif self._waits:
            self._held.add(WaitingClient(accepted, peer, by_proxy))
            self._check_held_soon()
        else:
            decision = self._quotas.on_accepted(self.listener, None if by_proxy else peer[0], int(now_s * 1000))
            if decision.outcome is AcceptOutcome.ADMIT and not by_proxy:
                accepted.setblocking(False)
                self._connect(accepted, self.listener, peer, now_s)
            else:
                self._carry_out(decision, WaitingClient(accepted, peer, by_proxy))

    def _header_bytes_max(self, by_proxy: bool) -> int | None:
        return self._runtime.limits.proxy_header_max_bytes if by_proxy else None

    def _has_hung_up(self, client: WaitingClient) -> bool:
        return is_abandoned(client.accepted, self._header_bytes_max(client.by_proxy))

    def _close_abandoned(self, client: WaitingClient) -> None:
        self.abandoned_total += 1
        self._tell(NoticeKind.REFUSED, client.peer, reason=ABANDONED)
        if client.by_proxy:
            is_probe = is_abandoned(client.accepted)
            self.header_outcomes[HeaderOutcome.PROBE if is_probe else HeaderOutcome.ABANDONED] += 1
        client.accepted.close()

    def _check_held_soon(self) -> None:
        if self._check_timer is None and self._behind:
            self._check_timer = self._loop.call_later(_CHECK_S, self._check_held)

    def _check_held(self) -> None:
        """Remove waiting clients that have hung up, so that others can take their places."""
        self._check_timer = None
        self._drop_abandoned()
        self._watch_listening()
        self._fit_backlog()
        self._check_held_soon()

    def _drop_abandoned(self) -> None:
        """Close the waiting sockets whose clients have hung up. The next client takes over the wait of the first."""
        if self._quotas.settings.count_abandoned:
            return
        for client in self._held.take_abandoned():
            self._close_abandoned(client)
        if self._waits and not self._held:
            self._end_wait()
            self._quotas.on_wait_abandoned(self.listener, int(self._now() * 1000), by_client=True)

    def _identified(
        self, accepted: socket.socket, proxy: tuple[str, int], passed_on: PassedOn, waited_s: float
    ) -> None:
        """Handle an arrived header: the connection now counts as its client's."""
        peer = passed_on.client or proxy
        now_ms, waited_ms = int(self._now() * 1000), int(waited_s * 1000)
        if not self._quotas.settings.count_abandoned and is_abandoned(accepted):
            self._quotas.on_identified(self.listener, None, now_ms, waited_ms, abandoned=True)
            self.header_outcomes[HeaderOutcome.ABANDONED] += 1
            self._close_abandoned(WaitingClient(accepted, peer, by_proxy=False))
            return
        self.header_outcomes[HeaderOutcome.CLIENT if passed_on.client else HeaderOutcome.LOCAL] += 1
        decision = self._quotas.on_identified(self.listener, peer[0], now_ms, waited_ms)
        self._carry_out(decision, WaitingClient(accepted, peer, by_proxy=False))

    def _not_identified(self, proxy: tuple[str, int], outcome: HeaderOutcome) -> None:
        self._quotas.on_identified(self.listener, None, int(self._now() * 1000))
        self._note_refusal(proxy, outcome)

    def _note_refusal(self, peer: tuple[str, int], outcome: HeaderOutcome) -> None:
        self.header_outcomes[outcome] += 1
        meaning = MEANING_OF_REFUSAL.get(outcome)
        if meaning is not None:
            self._tell(NoticeKind.REFUSED, peer, reason=meaning)
            self._warn(
                f"proxy-{outcome}", f"closed the connection {peer[0]}:{peer[1]} of listener {self.listener}: {meaning}"
            )

    def _carry_out(self, decision: AcceptDecision, client: WaitingClient) -> None:
        outcome, (accepted, peer, by_proxy) = decision.outcome, client
        if outcome is not AcceptOutcome.ADMIT and self._runtime.shared.notices.tell is not None:
            self._tell_of_limit(decision, peer)
        if outcome is AcceptOutcome.ADMIT:
            accepted.setblocking(False)
            if by_proxy:
                self._headers.add(accepted, peer)
            else:
                self._connect(accepted, self.listener, peer, self._now())
        elif outcome is AcceptOutcome.WAIT_UNTIL or outcome is AcceptOutcome.WAIT_FOR_SLOT:
            self._held.put_first(client)
            self._waits = True
            if outcome is AcceptOutcome.WAIT_UNTIL:
                self._arm_wait(decision.at_ms)
            self._check_held_soon()
        elif outcome is AcceptOutcome.REFUSE_DELAYED:
            self._refused.add(accepted, decision.at_ms)
        else:
            accepted.close()

    def _tell(self, kind: NoticeKind, peer: tuple[str, int], *, reason: str) -> None:
        tell = self._runtime.shared.notices.tell
        if tell is not None:
            tell(ConnectionNotice(kind, self.listener, *peer, reason=reason))

    def _tell_of_limit(self, decision: AcceptDecision, peer: tuple[str, int]) -> None:
        tell = self._runtime.shared.notices.tell
        assert tell is not None
        now_ms = int(self._now() * 1000)
        outcome, at_ms = decision.outcome, decision.at_ms
        limit = limit_met(self._quotas, self.listener, decision)
        waits = outcome in (AcceptOutcome.WAIT_UNTIL, AcceptOutcome.WAIT_FOR_SLOT)
        delay_s = (
            (at_ms - now_ms) / 1000 if outcome in (AcceptOutcome.WAIT_UNTIL, AcceptOutcome.REFUSE_DELAYED) else None
        )
        kind = NoticeKind.LIMITED if waits else NoticeKind.REFUSED
        tell(ConnectionNotice(kind, self.listener, *peer, limit=limit, delay_s=delay_s))

    def _arm_wait(self, at_ms: int) -> None:
        if self._wait_timer is not None:
            self._wait_timer.cancel()
        # Event loop timers have millisecond resolution and may fire slightly early: 1 ms more avoids a second wait.
        self._wait_timer = self._loop.call_later(max(at_ms + 1 - self._now() * 1000, 0) / 1000, self._on_wait_over)

    def wake(self) -> None:
        """Ask the quotas again, because a slot is free. In the next iteration: the quotas are still changing."""
        if self._waits:
            self._loop.call_soon(self._on_wait_over)

    def _on_wait_over(self) -> None:
        if not self._waits:
            return
        self._cancel_wait_timer()
        self._drop_abandoned()
        if self._waits and not self._ask_again():
            return
        self._watch_listening()
        # Often the next client is already in the queue; the loop would find it only after the next poll.
        self._on_ready()

    def _ask_again(self) -> bool:
        """Ask the quotas again for the first waiting client, and return whether its wait has ended."""
        client = self._held.first
        ip = None if client.by_proxy else client.peer[0]
        decision = self._quotas.on_wait_over(self.listener, ip, int(self._now() * 1000))
        if decision.outcome is AcceptOutcome.WAIT_UNTIL:
            self._arm_wait(decision.at_ms)
            return False
        if decision.outcome is AcceptOutcome.WAIT_FOR_SLOT:
            return False
        self._end_wait()
        self._carry_out(decision, self._held.take())
        return True

    def _end_wait(self) -> None:
        self._cancel_wait_timer()
        self._waits = False

    def _cancel_wait_timer(self) -> None:
        if self._wait_timer is not None:
            self._wait_timer.cancel()
            self._wait_timer = None

    def stop_accepting(self) -> None:
        """Stop accepting; from `close` on the kernel refuses new connections."""
        self._stopped = True
        self._watch_listening()
        for timer in (self._pause_timer, self._check_timer):
            if timer is not None:
                timer.cancel()
        if self._waits:
            self._abandon_first()
        self._held.close_all()
        self._headers.close_all()
        self._refused.close_all()

    def _abandon_first(self) -> None:
        """Close the connection of the client that the quotas delay."""
        self._end_wait()
        self._held.take().accepted.close()
        self._quotas.on_wait_abandoned(self.listener, int(self._now() * 1000))

    def close(self) -> None:
        self.stop_accepting()
        self._listening.close()
