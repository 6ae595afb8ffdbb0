"""Brokers that share one rate of the cluster, their clients and controllers, in virtual time and from one seed.

The quotas, shares and ledgers are the real ones. Messages, clocks, sessions and faults are those of this world. Each
node has a clock of its own speed.
"""

import heapq
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count

from connection_limits.accept_decision import AcceptDecision, AcceptOutcome
from connection_limits.cluster.ledger import Ledger
from connection_limits.cluster.members import Members
from connection_limits.cluster.reports import THOUSANDTHS, Answer, Report
from connection_limits.cluster.shares import Shares
from connection_limits.cluster_rates import ClusterRates
from connection_limits.groups.connection_group import NO_LIMITS, AddressGroupLimits
from connection_limits.quotas import ConnectionQuotas
from connection_limits.settings import QuotaSettings

STEP_MS = 5
LISTENER, BETWEEN_BROKERS = "EXTERNAL", "REPLICATION"
GROUP, _MEMBERS = "shop/tenant", "10.0.0.0/8"
_TICK_MS = 100
_HEARTBEAT_MS = 1_000
_REQUEST_TIMEOUT_MS = 1_500
_LIMITS_MAX = 10
_QUEUE_MAX = 400
"""Clients that wait at one broker; later ones find no place."""


@dataclass
class Clock:
    """The clock of one node: `speed` times as fast as real time, with another origin."""

    speed: float
    origin_ms: int

    def at(self, real_ms: int) -> int:
        return self.origin_ms + int(real_ms * self.speed)


@dataclass
class Registration:
    """A broker in the metadata, which all controllers know."""

    epoch: int
    fenced: bool


class Broker:
    """One broker process: its clients, its quotas and shares, and its session."""

    def __init__(self, world: "World", broker_id: int, clock: Clock) -> None:
        self.world = world
        self.id = broker_id
        self.clock = clock
        self.attempts_per_s = 0.0
        self.link_up = True
        self.reports_up = True
        """Whether reports and their answers pass: they have a connection of their own."""
        self.answers_up = self.heartbeats_up = True
        self.paused = False
        self.alive = False
        self.distributes = True
        self._owed = 0.0
        self.start()

    def start(self) -> None:
        now_ms = self.now_ms
        self.alive, self.paused = True, False
        self.epoch = self.world.register(self.id)
        self.serves = False
        settings = QuotaSettings(cluster_wide_listeners=frozenset({LISTENER}), inter_broker_listener=BETWEEN_BROKERS)
        self.quotas = ConnectionQuotas(settings, now_ms, self._wake)
        self.quotas.addresses.groups.add_member(GROUP, _MEMBERS, now_ms)
        for name in (LISTENER, BETWEEN_BROKERS):
            self.quotas.add_listener(name, now_ms)
        self.shares = Shares(self.world.report_ms, self.world.lease_ms, now_ms)
        self.rates = ClusterRates(self.quotas, self.shares, now_ms)
        self.queue = 0
        self._tick_ms = self._beat_ms = now_ms
        self._session_ms: int | None = None
        self._sent_ms: int | None = None
        self._in_flight: Report | None = None
        self._woken = False
        self.set_rate(self.world.rate)

    @property
    def now_ms(self) -> int:
        return self.clock.at(self.world.real_ms)

    def _wake(self, listener: str) -> None:
        assert listener == LISTENER
        self._woken = True

    def kill(self) -> None:
        self.alive = False

    @property
    def right(self) -> int:
        """What this process may use of the rate now; 0 if it serves nobody."""
        if not self.alive or self.paused or not self.serves:
            return 0
        held = self.shares.limits.get(f"group:{GROUP}" if self.world.of_group else f"listener:{LISTENER}")
        return 0 if held is None else self.shares.right(held, self.now_ms).share

    def step(self) -> None:
        if not self.alive or self.paused:
            return
        now_ms = self.now_ms
        if self._session_ms is not None and now_ms >= self._session_ms + self.world.session_ms and self.serves:
            self.serves = False
            self.shares.note_serving(False, now_ms)
            self.rates.apply(now_ms)
        self._accept(now_ms)
        if now_ms >= self._tick_ms:
            self._tick_ms = now_ms + _TICK_MS
            self._tick(now_ms)
        if now_ms >= self._beat_ms:
            self._beat_ms = now_ms + _HEARTBEAT_MS
            epoch, sent_ms = self.epoch, now_ms
            if not self.heartbeats_up:
                return
            self.world.to_controller(self, lambda controller: controller.heartbeat(self, epoch, sent_ms))

    def _accept(self, now_ms: int) -> None:
        self._owed += self.attempts_per_s * STEP_MS / 1000
        arrived, self._owed = int(self._owed), self._owed % 1
        if not self.serves:
            self.queue = 0
            return
        self.queue = min(self.queue + arrived, _QUEUE_MAX)
        listener = self.quotas.listeners[LISTENER]
        while self.queue:
            decision: AcceptDecision
            if listener.waiting is not None:
                decision = self.quotas.on_wait_over(LISTENER, "10.0.0.1", now_ms)
            else:
                decision = self.quotas.on_accepted(LISTENER, "10.0.0.1", now_ms)
            if self.world.of_group and decision.outcome is not AcceptOutcome.ADMIT:
                # A group rejects: no client waits.
                self.queue -= 1
                continue
            if decision.outcome is not AcceptOutcome.ADMIT:
                break
            self.queue -= 1
            self.quotas.on_closed(LISTENER, "10.0.0.1", now_ms)
            self.world.accepted.append((self.world.real_ms, self.id))

    def _tick(self, now_ms: int) -> None:
        self.shares.registered = len(self.world.registrations)
        self.rates.update({LISTENER: self.queue}, now_ms)
        if self._in_flight is not None and self._sent_ms is not None and now_ms >= self._sent_ms + _REQUEST_TIMEOUT_MS:
            self.shares.failed(self._in_flight)
            self._in_flight = None
        if self.distributes and self.shares.is_due(now_ms):
            report = self._in_flight = self.shares.begin_report(self.id, self.epoch, now_ms)
            self._sent_ms = now_ms
            process = self.shares
            if self.reports_up:
                self.world.to_controller(self, lambda controller: controller.report(self, report, process))

    def set_rate(self, rate: int | None) -> None:
        """Change the rate in the configuration of this broker; None removes it."""
        if self.world.of_group:
            limits = NO_LIMITS if rate is None else AddressGroupLimits(rate, shared=True, cluster_wide=True)
            self.quotas.addresses.groups.set_limits(GROUP, limits, self.now_ms)
        else:
            rates = {} if rate is None else {LISTENER: rate}
            settings = replace(self.quotas.settings, listener_max_connection_creation_rate=rates)
            self.quotas.update(settings, self.now_ms)
        # A changed limit wakes the process.
        self._tick_ms = self.now_ms

    def answered(self, report: Report, answer: Answer, process: Shares) -> None:
        if (
            not self.alive
            or process is not self.shares
            or self._in_flight is not report
            or not (self.reports_up and self.answers_up)
        ):
            return
        self._in_flight = None
        self.shares.answered(report, answer, self.now_ms)
        self.rates.apply(self.now_ms)
        # A report that the controller waits for is sent at once.
        self._tick_ms = min(self._tick_ms, self.now_ms + 20)

    def beaten(self, epoch: int, sent_ms: int, fenced: bool) -> None:
        if not self.alive or epoch != self.epoch or self.now_ms >= sent_ms + self.world.session_ms:
            return
        self._session_ms = max(sent_ms, self._session_ms or sent_ms)
        self.serves = not fenced
        self.shares.note_serving(self.serves, self.now_ms)


class Controller:
    """One term of a controller."""

    def __init__(self, world: "World", epoch: int, clock: Clock) -> None:
        self.world = world
        self.epoch = epoch
        self.clock = clock
        self.alive, self.paused = True, False
        self.heard_ms = {one: self.now_ms for one, known in world.registrations.items() if not known.fenced}
        self.ledger: Ledger | None = None

    @property
    def now_ms(self) -> int:
        return self.clock.at(self.world.real_ms)

    def step(self) -> None:
        if not self.alive or self.paused:
            return
        for broker_id, known in self.world.registrations.items():
            heard_ms = self.heard_ms.get(broker_id, 0)
            if not known.fenced and self.now_ms > heard_ms + self.world.session_ms:
                known.fenced = True

    def heartbeat(self, broker: Broker, epoch: int, sent_ms: int) -> None:
        known = self.world.registrations[broker.id]
        if known.epoch != epoch:
            return
        self.heard_ms[broker.id] = self.now_ms
        known.fenced = False
        self.world.to_broker(broker, lambda: broker.beaten(epoch, sent_ms, known.fenced))

    def report(self, broker: Broker, report: Report, process: Shares) -> None:
        if self.world.registrations[broker.id].epoch != report.broker_epoch:
            return
        if self.ledger is None:
            registered = {one: known.epoch for one, known in self.world.registrations.items()}
            members = Members(self.world.lease_ms, self.world.session_ms, registered, self.now_ms)
            self.ledger = Ledger(self.epoch, members, _LIMITS_MAX, self.world.report_ms // 2)
        self.ledger.members_are(self.world.serving, len(self.world.registrations), self.now_ms)
        self._go_on(self.ledger.report(report, self.now_ms), partial(broker.answered, report, process=process), broker)

    def _go_on(self, steps: Iterator[None], tell: Callable[[Answer], None], broker: Broker) -> None:
        """Continue with a report; between two steps, the controller may read reports of other brokers."""
        while self.alive:
            try:
                next(steps)
            except StopIteration as end:
                self.world.to_broker(broker, partial(tell, end.value))
                return
            if self.world.step_ms:
                self.world.after(self.world.step_ms, partial(self._go_on, steps, tell, broker))
                return


def finished(steps: Iterator[None]) -> Answer:
    """Return the result of a generator."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            answer: Answer = end.value
            return answer


@dataclass
class World:
    """The whole cluster. `run` passes time; the attributes of brokers and controllers are its faults."""

    seed: int
    rate: int = 300
    brokers_count: int = 3
    of_group: bool = False
    """Whether the rate is that of a connection group, which rejects; otherwise it is a listener's."""
    lease_ms: int = 4_000
    report_ms: int = 200
    session_ms: int = 9_000
    clock_spread: float = 0.05
    """Clocks run at most this part too fast or too slow."""
    delay_ms: tuple[int, int] = (1, 5)
    loss: float = 0.0
    step_ms: int = 0
    """Time between two steps of a report on the controller."""
    real_ms: int = 0
    accepted: list[tuple[int, int]] = field(default_factory=list)
    worst_used: int = 0
    registrations: dict[int, Registration] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(f"{self.seed}/world")
        self._epochs = count(1)
        self._messages: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = count()
        self.controller = self._new_controller()
        self.brokers = {n: Broker(self, n, self._clock()) for n in range(1, self.brokers_count + 1)}

    def _clock(self) -> Clock:
        return Clock(1 + self.random.uniform(-self.clock_spread, self.clock_spread), self.random.randrange(10**6))

    def _new_controller(self) -> Controller:
        return Controller(self, next(self._epochs), self._clock())

    def fail_over(self) -> None:
        """Replace the controller by one of a new term; answers of the former one may still arrive."""
        self.controller.alive = False
        self.controller = self._new_controller()

    def register(self, broker_id: int) -> int:
        epoch = next(self._epochs)
        self.registrations[broker_id] = Registration(epoch, fenced=True)
        return epoch

    @property
    def serving(self) -> dict[int, int]:
        return {one: known.epoch for one, known in self.registrations.items() if not known.fenced}

    def _later(self, act: Callable[[], None]) -> None:
        if self.random.random() < self.loss:
            return
        at_ms = self.real_ms + self.random.randint(*self.delay_ms)
        heapq.heappush(self._messages, (at_ms, next(self._numbers), act))

    def after(self, delay_ms: int, act: Callable[[], None]) -> None:
        """Act after so much real time."""
        heapq.heappush(self._messages, (self.real_ms + delay_ms, next(self._numbers), act))

    def to_controller(self, broker: Broker, act: Callable[[Controller], None]) -> None:
        controller = self.controller

        def arrive() -> None:
            if controller.paused:
                # It stays in the socket's buffer.
                heapq.heappush(self._messages, (self.real_ms + STEP_MS, next(self._numbers), arrive))
            elif controller.alive and broker.link_up:
                act(controller)

        if broker.link_up:
            self._later(arrive)

    def to_broker(self, broker: Broker, act: Callable[[], None]) -> None:
        def arrive() -> None:
            if broker.paused:
                heapq.heappush(self._messages, (self.real_ms + STEP_MS, next(self._numbers), arrive))
            elif broker.link_up:
                act()

        if broker.link_up:
            self._later(arrive)

    def run(self, seconds: float) -> None:
        end_ms = self.real_ms + int(seconds * 1000)
        while self.real_ms < end_ms:
            self.real_ms += STEP_MS
            while self._messages and self._messages[0][0] <= self.real_ms:
                heapq.heappop(self._messages)[2]()
            self.controller.step()
            for broker in self.brokers.values():
                broker.step()
            self.worst_used = max(self.worst_used, self.used)

    @property
    def used(self) -> int:
        """What all brokers together may use now."""
        return sum(broker.right for broker in self.brokers.values())

    def per_s(self, begin_s: float, end_s: float) -> float:
        """Return the accepted connections a second of all brokers between two times."""
        found = sum(begin_s * 1000 < at_ms <= end_s * 1000 for at_ms, _ in self.accepted)
        return found / (end_s - begin_s)

    def most_in(self, seconds: float) -> int:
        """Return the most connections that were accepted within any time of this length."""
        most = first = 0
        for last, (at_ms, _) in enumerate(self.accepted):
            while self.accepted[first][0] <= at_ms - seconds * 1000:
                first += 1
            most = max(most, last - first + 1)
        return most

    @property
    def limit(self) -> int:
        return self.rate * THOUSANDTHS
