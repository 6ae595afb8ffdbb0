"""Decide about an accepted socket: admit, delay or refuse it (KIP-308, KIP-402, KIP-612). Pure.

One acceptor per listener asks. While it has to wait, it keeps that one socket and asks for no other. The order is
Kafka's: broker and listener rate, then the wait (delay and slot together), then the address's rate (a refusal
un-records all three), then the counts, then the address's count. Times are milliseconds, given.

The inter-broker listener is protected if there is another listener. Then only limits with its own prefix apply to it,
neither the broker's nor those of addresses. Its connections count in the broker's total, as in Kafka.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from connection_limits.accept_decision import ADMIT, AcceptDecision, AcceptOutcome
from connection_limits.address_quotas import AddressQuotas
from connection_limits.backlog import backlog
from connection_limits.listener_quota import ListenerQuota, Wait, WaitsFor
from connection_limits.quota_changes import check_change
from connection_limits.rate_limit import RateLimit
from connection_limits.settings import UNLIMITED, QuotaSettings

RATES = (WaitsFor.BROKER_RATE, WaitsFor.LISTENER_RATE)
_WAIT_FOR_SLOT = AcceptDecision(AcceptOutcome.WAIT_FOR_SLOT)
_DROPPED = AcceptDecision(AcceptOutcome.REFUSE_DROPPED)


class UnknownListenerError(LookupError):
    """Error for a listener that was never added: a bug in the caller."""


def _nobody(listener: str) -> None:
    del listener


class ConnectionQuotas:
    """The limits on the connections of a broker, its listeners, and then those of `addresses`.

    Connections are admitted, delayed or refused. `wake(listener)` is called when a waiting listener should ask again
    before its deadline.
    """

    def __init__(self, settings: QuotaSettings, now_ms: int, wake: Callable[[str], None] = _nobody) -> None:
        self.settings = settings
        self.wake = wake
        self.total = 0
        self.addresses = AddressQuotas(settings)
        self.rate_limit = RateLimit(
            settings,
            settings.max_connection_creation_rate,
            settings.objective,
            now_ms,
            is_cluster_wide=settings.cluster_wide,
        )
        self.listeners: dict[str, ListenerQuota] = {}
        self._retired: set[str] = set()
        """Closed listeners that still have open connections."""

    def add_listener(self, name: str, now_ms: int) -> None:
        if name in self._retired:
            # Connections of the previous listener of this name are still being closed; the new one continues its
            # figures.
            self._retired.remove(name)
            return
        if name in self.listeners:
            raise ValueError(f"listener {name} was already added")
        self.listeners[name] = ListenerQuota(name, self.settings, now_ms)
        self._configure_listeners(now_ms)
        self._wake_waiting()

    def retire_listener(self, name: str, now_ms: int) -> None:
        """Remove a listener that no longer accepts: at once, or with its last connection."""
        listener = self._listener(name)
        if listener.waiting:
            raise ValueError(f"listener {name} still has a waiting connection")
        self._retired.add(name)
        if not listener.count:
            self._remove_listener(name, now_ms)

    def _remove_listener(self, name: str, now_ms: int) -> None:
        self._retired.remove(name)
        del self.listeners[name]
        self._configure_listeners(now_ms)
        self._wake_waiting()

    def _configure_listeners(self, now_ms: int) -> None:
        """Apply the settings to all listeners. The inter-broker listener is protected only if there is another one."""
        between_brokers = self.settings.inter_broker_listener if len(self.listeners) > 1 else None
        for name, listener in self.listeners.items():
            listener.configure(self.settings, now_ms, protected=name == between_brokers)

    def _listener(self, name: str) -> ListenerQuota:
        listener = self.listeners.get(name)
        if listener is None:
            raise UnknownListenerError(f"listener {name} has not been added")
        return listener

    def on_accepted(self, listener_name: str, ip: str | None, now_ms: int) -> AcceptDecision:
        """Decide whether the broker accepts a new connection, and when.

        `ip` is None if a proxy has not sent the address of the client yet.

        Such a connection has a slot once it is admitted. The caller calls `on_identified` when the address is known, or
        when the connection has ended without one.
        """
        listener = self._listener(listener_name)
        if listener.waiting is not None:
            raise RuntimeError(f"listener {listener_name} accepted a connection during a wait")
        of_broker_ms = of_listener_ms = 0
        in_broker_rate = not listener.protected
        if in_broker_rate:
            rate = self.rate_limit.meter
            rate.record(now_ms)
            if rate.limit < UNLIMITED:
                of_broker_ms = rate.throttle_ms(now_ms)
        rate = listener.meter
        rate.record(now_ms)
        if rate.limit < UNLIMITED:
            of_listener_ms = rate.throttle_ms(now_ms)
        throttle_ms = max(of_broker_ms, of_listener_ms)
        if throttle_ms:
            listener.throttle.record(throttle_ms, now_ms)
            own = listener.rate_limit.adaptive or listener_name in self.settings.listener_max_connection_creation_rate
            by_listener = own and of_listener_ms >= of_broker_ms
            limit = WaitsFor.LISTENER_RATE if by_listener else WaitsFor.BROKER_RATE
        elif self.has_slot(listener):
            return self._after_wait(listener, ip, in_broker_rate, now_ms)
        else:
            limit = _count_that_is_full(listener, self.settings)
        wait = Wait(now_ms, now_ms + throttle_ms, in_broker_rate, limit)
        if throttle_ms:
            fixed_ms = max(
                0 if self.rate_limit.share is not None else of_broker_ms,
                0 if listener.rate_limit.share is not None else of_listener_ms,
            )
            wait.fixed_until_ms = now_ms + fixed_ms
        listener.begin_wait(wait, now_ms)
        return AcceptDecision(AcceptOutcome.WAIT_UNTIL, now_ms + throttle_ms) if throttle_ms else _WAIT_FOR_SLOT

    def on_wait_over(self, listener_name: str, ip: str | None, now_ms: int) -> AcceptDecision:
        """Decide again about the waiting socket of `listener_name`. A call that comes too early is harmless.

        `ip` is the address of that socket, as in `on_accepted`. It may differ from the previous one: if a client hangs
        up during its wait, the next client takes over the wait, and the place in the rates.
        """
        listener = self._listener(listener_name)
        wait = listener.waiting
        if wait is None:
            raise RuntimeError(f"listener {listener_name} has no wait")
        if now_ms < wait.deadline_ms:
            return AcceptDecision(AcceptOutcome.WAIT_UNTIL, wait.deadline_ms)
        share_ms = share_wait_ms(self, listener, wait, now_ms) if wait.limit in RATES else 0
        if share_ms:
            wait.deadline_ms = now_ms + share_ms
            return AcceptDecision(AcceptOutcome.WAIT_UNTIL, wait.deadline_ms)
        if not self.has_slot(listener):
            listener.wait_for(_count_that_is_full(listener, self.settings), now_ms)
            return _WAIT_FOR_SLOT
        listener.end_wait(now_ms)
        return self._after_wait(listener, ip, wait.in_broker_rate, now_ms)

    def on_identified(
        self, listener_name: str, ip: str | None, now_ms: int, waited_ms: int = 0, *, abandoned: bool = False
    ) -> AcceptDecision:
        """Decide about a connection that was admitted without an address `waited_ms` ago.

        `ip` is None if it has ended without one. `abandoned`: its client had hung up before it was identified, so it
        does not count in any rate.
        """
        listener = self._listener(listener_name)
        decision = _DROPPED
        if ip is not None:
            decision = self._limited_by_address(listener, ip, not listener.protected, now_ms, waited_ms) or ADMIT
        elif abandoned:
            self._take_back(listener, not listener.protected, now_ms, waited_ms)
        if decision is ADMIT:
            listener.admitted_total += 1
        else:
            self._give_back_slot(listener, now_ms)
        return decision

    def on_wait_abandoned(self, listener_name: str, now_ms: int, *, by_client: bool = False) -> None:
        """End the wait of a socket that the acceptor closed.

        `by_client`: the client hung up, so no rate counts the connection.
        """
        listener = self._listener(listener_name)
        wait = listener.waiting
        if by_client and wait is not None:
            self._take_back(listener, wait.in_broker_rate, now_ms, now_ms - wait.since_ms)
        listener.end_wait(now_ms)

    def on_closed(self, listener_name: str, ip: str, now_ms: int, accepted_ms: int | None = None) -> None:
        """Release an ended connection. `accepted_ms` is the time of its admission, if known."""
        listener = self._listener(listener_name)
        if listener.uncounted_ips[ip]:
            listener.uncounted_ips -= Counter((ip,))
        else:
            self.addresses.on_closed(ip, accepted_ms)
        self._give_back_slot(listener, now_ms)

    def _give_back_slot(self, listener: ListenerQuota, now_ms: int) -> None:
        if listener.count <= 0:
            raise ValueError(f"listener {listener.name} has no open connection")
        listener.count -= 1
        self.total -= 1
        if not listener.count and listener.name in self._retired:
            self._remove_listener(listener.name, now_ms)
        else:
            self._wake_waiting()

    def has_slot(self, listener: ListenerQuota) -> bool:
        """Return whether the counts of listener and broker allow one more connection."""
        if listener.count >= listener.max_connections:
            return False
        return listener.protected or self.total < self.settings.max_connections

    def _after_wait(self, listener: ListenerQuota, ip: str | None, in_broker_rate: bool, now_ms: int) -> AcceptDecision:
        if ip is not None:
            refusal = self._limited_by_address(listener, ip, in_broker_rate, now_ms)
            if refusal is not None:
                return refusal
            listener.admitted_total += 1
        listener.count += 1
        self.total += 1
        return ADMIT

    def _limited_by_address(
        self, listener: ListenerQuota, ip: str, in_broker_rate: bool, now_ms: int, waited_ms: int = 0
    ) -> AcceptDecision | None:
        """Return None, and count the connection, if the limits of its address allow it; else the refusal."""
        if listener.protected:
            listener.uncounted_ips[ip] += 1
            return None
        refusal = self.addresses.try_admit(ip, listener, now_ms)
        if refusal is not None and refusal.outcome is not AcceptOutcome.REFUSE_TOO_MANY:
            self._take_back(listener, in_broker_rate, now_ms, waited_ms)
        return refusal

    def _take_back(self, listener: ListenerQuota, in_broker_rate: bool, now_ms: int, waited_ms: int) -> None:
        """Remove a connection from the rates: a refused storm must not use up the budget of other clients.

        It is subtracted from the current sample. After more than a window the rates have forgotten the connection, or
        soon will. Subtracting it then would let other connections exceed their limits, so nothing is subtracted.
        """
        if waited_ms > self.settings.window_ms:
            return
        if in_broker_rate:
            self.rate_limit.unrecord(now_ms - waited_ms, now_ms)
        listener.rate_limit.unrecord(now_ms - waited_ms, now_ms)

    def _wake_waiting(self) -> None:
        for listener in self.listeners.values():
            if listener.waiting is not None and self.has_slot(listener):
                self.wake(listener.name)

    def eviction_needed(self) -> bool:
        """Return whether there are more connections than max.connections.

        Then the least recently used unprotected connection must be closed.
        """
        return self.total > self.settings.max_connections

    def backlog(self, listener_name: str, configured: int) -> int:
        """Return how many clients of the listener may wait in the kernel now."""
        listener = self._listener(listener_name)
        rate = listener.rate_under(self.rate_limit.accepted_per_s)
        return backlog(configured, rate, full=not self.has_slot(listener))

    def update(self, settings: QuotaSettings, now_ms: int) -> None:
        """Apply every limit that Kafka allows to change.

        Raises InvalidLimitError, and then changes nothing. Other names of quotas alone wake no waiting listener.
        """
        if settings == replace(self.settings, quota_names=settings.quota_names):
            self.settings = settings
            return
        check_change(self.settings, settings, {name: known.protected for name, known in self.listeners.items()})
        self.settings = settings
        self.addresses.configure(settings, now_ms)
        self.rate_limit.configure(
            settings,
            settings.max_connection_creation_rate,
            settings.objective,
            now_ms,
            is_cluster_wide=settings.cluster_wide,
        )
        self._configure_listeners(now_ms)
        self._wake_waiting()


def _count_that_is_full(listener: ListenerQuota, settings: QuotaSettings) -> WaitsFor:
    """Return which limit a listener without a free slot waits for."""
    own = listener.name in settings.listener_max_connections
    full = own and listener.count >= listener.max_connections
    return WaitsFor.LISTENER_CONNECTIONS if full else WaitsFor.BROKER_CONNECTIONS


def share_wait_ms(quotas: ConnectionQuotas, listener: ListenerQuota, wait: Wait, now_ms: int) -> int:
    """Return how long a waiting connection still has to wait for this broker's shares of rates of the cluster."""
    wait_ms = 0
    if wait.in_broker_rate and quotas.rate_limit.share is not None:
        wait_ms = quotas.rate_limit.share.delay_ms(now_ms)
    if listener.rate_limit.share is not None:
        wait_ms = max(wait_ms, listener.rate_limit.share.delay_ms(now_ms))
    return wait_ms
