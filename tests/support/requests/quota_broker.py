"""Connection quotas in virtual time.

`Broker` plays acceptors and clients around the pure quotas: a backlog and one delayed socket for each listener, clients
that may give up, delayed closes. It has three listeners with a client address each, and two samples of a second. Unless
a test is about it, listeners do not inherit the broker's limits, as in Kafka's test.
"""

from collections import deque
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

from broker_runtime.network.sockets.delayed_closes import DelayedCloses
from connection_limits.accept_decision import AcceptOutcome
from connection_limits.quotas import ConnectionQuotas
from connection_limits.settings import UNLIMITED, QuotaSettings

Client = tuple[str, int]
"""A client: its address, and the time at which it gives up, in milliseconds."""
PATIENT_MS = 1 << 60

EXTERNAL, REPLICATION, ADMIN = LISTENERS = ("EXTERNAL", "REPLICATION", "ADMIN")
IP = {EXTERNAL: "192.168.1.1", REPLICATION: "192.168.1.2", ADMIN: "192.168.1.3"}
NO_LISTENER_LIMIT = dict.fromkeys(LISTENERS, UNLIMITED)
ISOLATED = QuotaSettings(
    quota_window_num=2,
    inter_broker_listener=REPLICATION,
    listener_max_connections=NO_LISTENER_LIMIT,
    listener_max_connection_creation_rate=NO_LISTENER_LIMIT,
)


@dataclass
class Tally:
    """Results of the connections of one listener and address; `admitted_ms` in order."""

    admitted_ms: list[int] = field(default_factory=list)
    too_many: int = 0
    throttled: int = 0

    def rate(self) -> float:
        """Connections admitted per second between the first and the last."""
        return (len(self.admitted_ms) - 1) * 1000 / (self.admitted_ms[-1] - self.admitted_ms[0])


class Broker:
    """A broker without sockets: the quotas, the backlogs of listeners and the planned events of clients."""

    def __init__(self, settings: QuotaSettings = ISOLATED, listeners: tuple[str, ...] = LISTENERS) -> None:
        self.now_ms = 5_000_000
        self.quotas = ConnectionQuotas(settings, self.now_ms, self._wake)
        for name in listeners:
            self.quotas.add_listener(name, self.now_ms)
        self.backlog: dict[str, deque[Client]] = {name: deque() for name in listeners}
        self.held: dict[str, Client] = {}
        self.abandoned = 0
        self.tally: dict[tuple[str, str], Tally] = {}
        self.delayed = DelayedCloses(settings.max_delayed_closes)
        self._events: list[tuple[int, int, str, str, int]] = []
        self._woken: list[str] = []
        self._order = 0

    # Actions of a test

    def connect(self, listener: str = EXTERNAL, ip: str | None = None, count: int = 1) -> Tally:
        """Connect `count` clients now."""
        ip = ip or IP[listener]
        for _ in range(count):
            self.backlog[listener].append((ip, PATIENT_MS))
            self._serve(listener)
        return self.of(listener, ip)

    def connect_paced(
        self, listener: str, per_second: int, count: int, ip: str | None = None, gives_up_ms: int = PATIENT_MS
    ) -> Tally:
        """Plan `count` evenly spaced connections from now on; `run` makes them happen.

        Each client hangs up after `gives_up_ms`, unless it is admitted.
        """
        ip = ip or IP[listener]
        for index in range(count):
            self._at(self.now_ms + index * 1000 // per_second, listener, ip, gives_up_ms)
        return self.of(listener, ip)

    def close(self, listener: str = EXTERNAL, ip: str | None = None, count: int = 1) -> None:
        for _ in range(count):
            self.quotas.on_closed(listener, ip or IP[listener], self.now_ms)
            self._serve_woken()

    def update(self, **changes: object) -> None:
        self.quotas.update(replace(self.quotas.settings, **changes), self.now_ms)  # type: ignore[arg-type]
        self._serve_woken()

    def run(self, ms: int | None = None) -> None:
        """Run all planned events, or those of the next `ms` milliseconds."""
        end_ms = None if ms is None else self.now_ms + ms
        while self._events and (end_ms is None or self._events[0][0] <= end_ms):
            at_ms, _, listener, ip, gives_up_ms = heappop(self._events)
            self.now_ms = max(self.now_ms, at_ms)
            if ip:
                self.backlog[listener].append((ip, at_ms + gives_up_ms))
                self._serve(listener)
            elif listener:
                self._ask_again(listener)
            else:
                self._close_due()
        if end_ms is not None:
            self.now_ms = end_ms

    # Observations of a test

    def of(self, listener: str = EXTERNAL, ip: str | None = None) -> Tally:
        return self.tally.setdefault((listener, ip or IP[listener]), Tally())

    def admitted(self, listener: str = EXTERNAL) -> int:
        return self.quotas.listeners[listener].admitted_total

    def blocked_s(self, listener: str) -> float:
        return self.quotas.listeners[listener].blocked.total_s(self.now_ms)

    def waiting(self, listener: str) -> bool:
        return self.quotas.listeners[listener].waiting is not None

    def rate(self, listener: str) -> float:
        return self.quotas.listeners[listener].meter.measure(self.now_ms)

    def throttle_time(self, listener: str) -> float:
        return self.quotas.listeners[listener].throttle.measure(self.now_ms)

    def ip_throttle_time(self, listener: str) -> float:
        return self.quotas.listeners[listener].ip_throttle.measure(self.now_ms)

    def over_max_connections(self, listener: str) -> bool:
        """Whether this listener would have to close a connection."""
        return self.quotas.eviction_needed() and not self.quotas.listeners[listener].protected

    # The acceptors

    def _at(self, at_ms: int, listener: str, ip: str, gives_up_ms: int = PATIENT_MS) -> None:
        self._order += 1
        heappush(self._events, (at_ms, self._order, listener, ip, gives_up_ms))

    def _wake(self, listener: str) -> None:
        self._woken.append(listener)

    def _serve_woken(self) -> None:
        woken, self._woken = self._woken, []
        for listener in woken:
            self._ask_again(listener)

    def _serve(self, listener: str) -> None:
        while listener not in self.held:
            client = self._next(listener)
            if client is None:
                return
            decision = self.quotas.on_accepted(listener, client[0], self.now_ms)
            self._carry_out(listener, client, decision.outcome, decision.at_ms)

    def _next(self, listener: str) -> Client | None:
        """The client that has waited longest, as far as the acceptor can see."""
        waiting = self.backlog[listener]
        while waiting and self._has_hung_up(waiting[0]):
            waiting.popleft()
            self.abandoned += 1
        return waiting.popleft() if waiting else None

    def _has_hung_up(self, client: Client) -> bool:
        return client[1] <= self.now_ms and not self.quotas.settings.count_abandoned

    def _ask_again(self, listener: str) -> None:
        client: Client | None = self.held.pop(listener, None)
        if client is None:
            return
        if self._has_hung_up(client):
            self.abandoned += 1
            client = self._next(listener)
        if client is None:
            self.quotas.on_wait_abandoned(listener, self.now_ms, by_client=True)
            return
        decision = self.quotas.on_wait_over(listener, client[0], self.now_ms)
        self._carry_out(listener, client, decision.outcome, decision.at_ms)
        self._serve(listener)

    def _carry_out(self, listener: str, client: Client, outcome: AcceptOutcome, at_ms: int) -> None:
        tally = self.of(listener, client[0])
        if outcome is AcceptOutcome.ADMIT:
            tally.admitted_ms.append(self.now_ms)
        elif outcome in (AcceptOutcome.WAIT_UNTIL, AcceptOutcome.WAIT_FOR_SLOT):
            self.held[listener] = client
            if outcome is AcceptOutcome.WAIT_UNTIL:
                assert self.now_ms <= at_ms <= self.now_ms + self.quotas.settings.window_ms
                self._at(at_ms, listener, "")
        elif outcome is AcceptOutcome.REFUSE_TOO_MANY:
            tally.too_many += 1
        else:
            tally.throttled += 1
            if outcome is AcceptOutcome.REFUSE_DELAYED and self.delayed.add(tally.throttled, at_ms):
                self._at(at_ms, "", "")

    def _close_due(self) -> None:
        self.delayed.due(self.now_ms)


def limited(**changes: object) -> Broker:
    return Broker(replace(ISOLATED, **changes))  # type: ignore[arg-type]
