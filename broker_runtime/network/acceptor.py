"""One listening socket: accepts, asks the quotas, and does what they say. Shell.

While the quotas tell it to wait it holds the one accepted socket and does not look at the listening socket:
further clients wait in the kernel's backlog, as Kafka's acceptor makes them (KIP-612). Decides nothing itself.

While it is paused (a fenced broker serves nobody) it accepts and closes at once. Not accepting would leave clients
waiting in the backlog for a broker that may never serve again; closing the listening socket would give the port away
to whoever comes first, be it an outgoing connection of this host. A client that is hung up on tries another broker.
"""

import errno
import logging
import socket
from asyncio import TimerHandle
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from broker_runtime.config.addresses import is_within, peer_host
from broker_runtime.network.awaited_headers import AwaitedHeaders
from broker_runtime.network.connection_notices import BACKLOG, ConnectionNotice, NoticeKind
from broker_runtime.network.limit_met import limit_met
from broker_runtime.network.listening import waiting_clients
from broker_runtime.network.proxy_header import MEANING_OF_REFUSAL, HeaderOutcome, PassedOn
from broker_runtime.network.quotas import AcceptDecision, ConnectionQuotas, Outcome
from broker_runtime.network.refusals import RefusalLog
from broker_runtime.network.refused_sockets import RefusedSockets
from broker_runtime.network.shared import Shared

_log = logging.getLogger(__name__)

_OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_BUSY_S = 0.1
"""A client that sent something so lately is at work."""


_EXTRA_PLACE = 1
"""Linux lets one more wait than `listen` has asked for."""


class ConnectionFactory(Protocol):
    """What an acceptor gives admitted sockets to."""

    def __call__(self, accepted: socket.socket, listener: str, peer: tuple[str, int], now_s: float) -> None:
        """Take over an admitted socket that does not block."""
        ...


class AcceptorRuntime:
    """What the acceptors of one server share."""

    __slots__ = ("clock", "limits", "loop", "refusals", "shared")

    def __init__(self, shared: Shared, refusals: RefusalLog) -> None:
        self.shared = shared
        self.loop = shared.loop
        self.clock = shared.clock
        self.limits = shared.limits
        self.refusals = refusals

    def established_busy(self, now_s: float) -> bool:
        """Whether clients that are no newcomers are at work."""
        return now_s - self.shared.established_used_s < _BUSY_S


class Acceptor:
    """`listening` is owned from here on. Calls of `wake` come from the quotas."""

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
        self._listening = listening
        self._backlog = runtime.limits.listen_backlog
        self._quotas = quotas
        self._connect = connection_factory
        self._runtime = runtime
        self._loop = runtime.loop
        self._now: Callable[[], float] = runtime.clock.monotonic
        self._accepts_per_wakeup = runtime.limits.accepts_per_wakeup
        self._turn_s = runtime.limits.turn_s
        self._held: tuple[socket.socket, tuple[str, int], bool] | None = None
        """With its peer, and whether that is a proxy."""
        self._accepting = False
        self._stopped = False
        self._paused: str | None = None
        self._wait_timer: TimerHandle | None = None
        self._trusted = quotas.settings.trusted_proxies.get(listener, ())
        self._headers = AwaitedHeaders(self._loop, self._now, runtime.limits, self._identified, self._not_identified)
        self.header_outcomes: Counter[HeaderOutcome] = Counter()
        """Of connections that a PROXY header was awaited of."""
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
    def is_for_proxies(self) -> bool:
        return bool(self._trusted)

    def limits_changed(self) -> None:
        """The quotas have other limits.

        Who waits beyond the places that a lower rate leaves is hung up on: a limit that meets a storm finds thousands
        in the queue, most of whom have given up, and newcomers would wait behind them for a minute and more.
        """
        self._trusted = self._quotas.settings.trusted_proxies.get(self.listener, ())
        self._refused.set_limit(self._quotas.settings.max_delayed_closes)
        before = self._backlog
        self._fit_backlog()
        if self._backlog < before:
            self._loop.call_soon(self._shed)

    def _shed(self) -> None:
        """Without telling the quotas, a few in each turn of the loop."""
        surplus = 0 if self._stopped else waiting_clients(self._listening) - self._backlog - _EXTRA_PLACE
        for _ in range(min(surplus, self._accepts_per_wakeup)):
            try:
                accepted, address = self._listening.accept()
            except OSError:
                # Clients that have gone, or no descriptors: who is left waits as before.
                return
            accepted.close()
            self._tell(NoticeKind.REFUSED, (peer_host(address[0]), address[1]), reason=BACKLOG)
            self._warn("backlog", f"hung up on clients that waited for {self.listener}: its limit leaves fewer places")
        if surplus > self._accepts_per_wakeup:
            self._loop.call_soon(self._shed)

    def _fit_backlog(self) -> None:
        backlog = self._quotas.backlog(self.listener, self._runtime.limits.listen_backlog)
        if backlog != self._backlog:
            self._backlog = backlog
            # Listening once more changes nothing but the length of the queue.
            self._listening.listen(backlog)

    def start(self) -> None:
        self._resume_accepting()

    def _resume_accepting(self) -> None:
        if not self._accepting and not self._stopped:
            self._accepting = True
            self._loop.add_reader(self._listening.fileno(), self._on_ready)

    def _pause_accepting(self) -> None:
        if self._accepting:
            self._accepting = False
            self._loop.remove_reader(self._listening.fileno())

    def pause(self, why: str) -> None:
        """Hang up on whoever connects, without asking or telling the quotas, until `resume`."""
        self._paused = why
        self._headers.close_all()
        if self._held is not None:
            self._abandon_held()
            self._resume_accepting()

    def resume(self) -> None:
        self._paused = None

    def _on_ready(self) -> None:
        accept = self._listening.accept
        stop_s = self._now() + self._turn_s
        for _ in range(self._accepts_per_wakeup):
            try:
                accepted, address = accept()
            except BlockingIOError:
                break
            except OSError as error:
                if not self._accept_failed(error):
                    return
                continue
            accepted_s = self._now()
            self._decide(accepted, (peer_host(address[0]), address[1]), accepted_s)
            if not self._accepting:
                self._fit_backlog()
                return
            if accepted_s >= stop_s:
                # What newcomers have sent along took that long.
                break
        self._fit_backlog()
        if self._accepting and self._runtime.established_busy(self._now()):
            self._yield()

    def _yield(self) -> None:
        """Leave the loop to the clients that are there; the next ones wait in the backlog for a moment."""
        self._pause_accepting()
        self._wait_timer = self._loop.call_later(self._runtime.limits.accept_yield_s, self._after_pause)

    def _accept_failed(self, error: OSError) -> bool:
        """True when the next accept may be tried at once."""
        if error.errno not in _OUT_OF_RESOURCES:
            return error.errno in (errno.ECONNABORTED, errno.EINTR, errno.EPROTO)
        self.accept_errors_total += 1
        self._warn("accept-error", f"listener {self.listener} cannot accept: {error.strerror}; trying again shortly")
        self._pause_accepting()
        self._wait_timer = self._loop.call_later(self._runtime.limits.accept_error_pause_s, self._after_pause)
        return False

    def _after_pause(self) -> None:
        self._wait_timer = None
        self._resume_accepting()

    def _warn(self, kind: str, text: str) -> None:
        line = self._runtime.refusals.note(kind, text, int(self._now() * 1000))
        if line is not None:
            _log.warning("%s", line)

    def _decide(self, accepted: socket.socket, peer: tuple[str, int], now_s: float) -> None:
        if self._paused is not None:
            accepted.close()
            self._tell(NoticeKind.REFUSED, peer, reason=self._paused)
            self._warn("paused", f"hung up on {peer[0]}:{peer[1]} of {self.listener}: {self._paused}")
            return
        if self._trusted:
            self._decide_of_proxy(accepted, peer, now_s)
            return
        decision = self._quotas.on_accepted(self.listener, peer[0], int(now_s * 1000))
        if decision.outcome is Outcome.ADMIT:
            accepted.setblocking(False)
            self._connect(accepted, self.listener, peer, now_s)
        else:
            self._carry_out(decision, accepted, peer)

    def _decide_of_proxy(self, accepted: socket.socket, peer: tuple[str, int], now_s: float) -> None:
        """Whoever is no proxy that is trusted could claim to be anybody. It costs the listener's rate nothing."""
        if not is_within(peer[0], self._trusted):
            accepted.close()
            self._note_refusal(peer, HeaderOutcome.UNTRUSTED)
            return
        decision = self._quotas.on_accepted(self.listener, None, int(now_s * 1000))
        self._carry_out(decision, accepted, peer, by_proxy=True)

    def _identified(
        self, accepted: socket.socket, proxy: tuple[str, int], passed_on: PassedOn, waited_s: float
    ) -> None:
        """The header has arrived: from here on the connection is its client's."""
        peer = passed_on.client or proxy
        self.header_outcomes[HeaderOutcome.CLIENT if passed_on.client else HeaderOutcome.LOCAL] += 1
        now_ms, waited_ms = int(self._now() * 1000), int(waited_s * 1000)
        decision = self._quotas.on_identified(self.listener, peer[0], now_ms, waited_ms)
        self._carry_out(decision, accepted, peer)

    def _not_identified(self, proxy: tuple[str, int], outcome: HeaderOutcome) -> None:
        self._quotas.on_identified(self.listener, None, int(self._now() * 1000))
        self._note_refusal(proxy, outcome)

    def _note_refusal(self, peer: tuple[str, int], outcome: HeaderOutcome) -> None:
        self.header_outcomes[outcome] += 1
        meaning = MEANING_OF_REFUSAL.get(outcome)
        if meaning is not None:
            self._tell(NoticeKind.REFUSED, peer, reason=meaning)
            self._warn(f"proxy-{outcome}", f"hung up on {peer[0]}:{peer[1]} of {self.listener}: {meaning}")

    def _carry_out(
        self,
        decision: AcceptDecision,
        accepted: socket.socket,
        peer: tuple[str, int],
        *,
        by_proxy: bool = False,
    ) -> None:
        outcome = decision.outcome
        if outcome is not Outcome.ADMIT and self._runtime.shared.notices.tell is not None:
            self._tell_of_limit(decision, peer)
        if outcome is Outcome.ADMIT:
            accepted.setblocking(False)
            if by_proxy:
                self._headers.add(accepted, peer)
            else:
                self._connect(accepted, self.listener, peer, self._now())
        elif outcome is Outcome.WAIT_UNTIL or outcome is Outcome.WAIT_FOR_SLOT:
            self._held = (accepted, peer, by_proxy)
            self._pause_accepting()
            if outcome is Outcome.WAIT_UNTIL:
                self._arm_wait(decision.at_ms)
        elif outcome is Outcome.REFUSE_DELAYED:
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
        limit = limit_met(self._quotas, self.listener, decision, now_ms)
        waits = outcome in (Outcome.WAIT_UNTIL, Outcome.WAIT_FOR_SLOT)
        delay_s = (at_ms - now_ms) / 1000 if outcome in (Outcome.WAIT_UNTIL, Outcome.REFUSE_DELAYED) else None
        kind = NoticeKind.LIMITED if waits else NoticeKind.REFUSED
        tell(ConnectionNotice(kind, self.listener, *peer, limit=limit, delay_s=delay_s))

    def _arm_wait(self, at_ms: int) -> None:
        if self._wait_timer is not None:
            self._wait_timer.cancel()
        # Loops' timers count whole milliseconds and may be early by a fraction: one more spares a second try.
        self._wait_timer = self._loop.call_later(max(at_ms + 1 - self._now() * 1000, 0) / 1000, self._on_wait_over)

    def wake(self) -> None:
        """A slot is free; not at once, as the quotas are in the middle of a change."""
        if self._held is not None:
            self._loop.call_soon(self._on_wait_over)

    def _on_wait_over(self) -> None:
        if self._held is None:
            return
        if self._wait_timer is not None:
            self._wait_timer.cancel()
            self._wait_timer = None
        accepted, peer, by_proxy = self._held
        decision = self._quotas.on_wait_over(self.listener, int(self._now() * 1000))
        if decision.outcome is Outcome.WAIT_UNTIL:
            self._arm_wait(decision.at_ms)
            return
        if decision.outcome is Outcome.WAIT_FOR_SLOT:
            return
        self._held = None
        self._carry_out(decision, accepted, peer, by_proxy=by_proxy)
        self._resume_accepting()
        # Often the next client is already there; the loop's next turn would find it only after a poll.
        self._on_ready()

    def stop_accepting(self) -> None:
        """Clients that connect from now on are refused by the kernel once `close` is called."""
        self._stopped = True
        self._pause_accepting()
        if self._wait_timer is not None:
            self._wait_timer.cancel()
            self._wait_timer = None
        if self._held is not None:
            self._abandon_held()
        self._headers.close_all()
        self._refused.close_all()

    def _abandon_held(self) -> None:
        assert self._held is not None
        if self._wait_timer is not None:
            self._wait_timer.cancel()
            self._wait_timer = None
        held, _, _ = self._held
        self._held = None
        held.close()
        self._quotas.on_wait_abandoned(self.listener, int(self._now() * 1000))

    def close(self) -> None:
        self.stop_accepting()
        self._listening.close()
