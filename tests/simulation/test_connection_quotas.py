"""Apache Kafka's own connection-quota scenarios (facts/kafka.md 1.9) in virtual time; each names Kafka's test.

`Broker` plays acceptors and clients around the pure quotas: a backlog for each listener, one held socket, delayed
closes. Three listeners with a client address each, two samples of a second, and (unless a test is about it)
listeners that do not inherit the broker's limits, as in Kafka's test.
"""

from collections import deque
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from math import isnan

import pytest

from broker_runtime.errors import ConfigError
from broker_runtime.network.delayed_closes import DelayedCloses
from broker_runtime.network.quotas import ConnectionQuotas, Outcome, UnknownListenerError
from broker_runtime.network.settings import UNLIMITED, IpAction, QuotaSettings, Strategy

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
    """What became of the connections of one listener and address; `admitted_ms` in order."""

    admitted_ms: list[int] = field(default_factory=list)
    too_many: int = 0
    throttled: int = 0
    closed_late: int = 0

    def rate(self) -> float:
        """Admitted per second between the first and the last."""
        return (len(self.admitted_ms) - 1) * 1000 / (self.admitted_ms[-1] - self.admitted_ms[0])


class Broker:
    def __init__(self, settings: QuotaSettings = ISOLATED, listeners: tuple[str, ...] = LISTENERS) -> None:
        self.now_ms = 5_000_000
        self.quotas = ConnectionQuotas(settings, self.now_ms, self._wake)
        for name in listeners:
            self.quotas.add_listener(name, self.now_ms)
        self.backlog: dict[str, deque[str]] = {name: deque() for name in listeners}
        self.held: dict[str, str] = {}
        self.tally: dict[tuple[str, str], Tally] = {}
        self.delayed = DelayedCloses(settings.max_delayed_closes)
        self._events: list[tuple[int, int, str, str]] = []
        self._woken: list[str] = []
        self._order = 0

    # What a test does

    def connect(self, listener: str = EXTERNAL, ip: str | None = None, count: int = 1) -> Tally:
        """`count` clients connect now."""
        ip = ip or IP[listener]
        for _ in range(count):
            self.backlog[listener].append(ip)
            self._serve(listener)
        return self.of(listener, ip)

    def connect_paced(self, listener: str, per_second: int, count: int, ip: str | None = None) -> Tally:
        """`count` clients will connect, evenly, beginning now; `run` makes it happen."""
        ip = ip or IP[listener]
        for index in range(count):
            self._at(self.now_ms + index * 1000 // per_second, listener, ip)
        return self.of(listener, ip)

    def close(self, listener: str = EXTERNAL, ip: str | None = None, count: int = 1) -> None:
        for _ in range(count):
            self.quotas.on_closed(listener, ip or IP[listener], self.now_ms)
            self._serve_woken()

    def update(self, **changes: object) -> None:
        self.quotas.update(replace(self.quotas.settings, **changes), self.now_ms)  # type: ignore[arg-type]
        self._serve_woken()

    def run(self, ms: int | None = None) -> None:
        """Until nothing more is planned, or for so long."""
        end_ms = None if ms is None else self.now_ms + ms
        while self._events and (end_ms is None or self._events[0][0] <= end_ms):
            at_ms, _, listener, ip = heappop(self._events)
            self.now_ms = max(self.now_ms, at_ms)
            if ip:
                self.backlog[listener].append(ip)
                self._serve(listener)
            elif listener:
                self._ask_again(listener)
            else:
                self._close_due()
        if end_ms is not None:
            self.now_ms = end_ms

    # What a test looks at

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
        """Whether this listener would have to give up a connection."""
        return self.quotas.eviction_needed() and self.quotas.evictable(listener)

    # The acceptors

    def _at(self, at_ms: int, listener: str, ip: str) -> None:
        self._order += 1
        heappush(self._events, (at_ms, self._order, listener, ip))

    def _wake(self, listener: str) -> None:
        self._woken.append(listener)

    def _serve_woken(self) -> None:
        woken, self._woken = self._woken, []
        for listener in woken:
            self._ask_again(listener)

    def _serve(self, listener: str) -> None:
        while self.backlog[listener] and listener not in self.held:
            ip = self.backlog[listener].popleft()
            decision = self.quotas.on_accepted(listener, ip, self.now_ms)
            self._carry_out(listener, ip, decision.outcome, decision.at_ms)

    def _ask_again(self, listener: str) -> None:
        if listener in self.held:
            ip = self.held.pop(listener)
            decision = self.quotas.on_wait_over(listener, self.now_ms)
            self._carry_out(listener, ip, decision.outcome, decision.at_ms)
            self._serve(listener)

    def _carry_out(self, listener: str, ip: str, outcome: Outcome, at_ms: int) -> None:
        tally = self.of(listener, ip)
        if outcome is Outcome.ADMIT:
            tally.admitted_ms.append(self.now_ms)
        elif outcome in (Outcome.WAIT_UNTIL, Outcome.WAIT_FOR_SLOT):
            self.held[listener] = ip
            if outcome is Outcome.WAIT_UNTIL:
                assert self.now_ms <= at_ms <= self.now_ms + self.quotas.settings.window_ms
                self._at(at_ms, listener, "")
        elif outcome is Outcome.REFUSE_TOO_MANY:
            tally.too_many += 1
        else:
            tally.throttled += 1
            if outcome is Outcome.REFUSE_DELAYED and self.delayed.add(tally.throttled, at_ms):
                self._at(at_ms, "", "")

    def _close_due(self) -> None:
        self.delayed.due(self.now_ms)


@pytest.fixture
def broker() -> Broker:
    return Broker()


def limited(**changes: object) -> Broker:
    return Broker(replace(ISOLATED, **changes))  # type: ignore[arg-type]


# ConnectionQuotasTest


def test_a_listener_that_was_not_added_is_a_mistake() -> None:
    """testFailWhenNoListeners"""
    quotas = ConnectionQuotas(ISOLATED, 0)
    with pytest.raises(UnknownListenerError, match="EXTERNAL"):
        quotas.on_accepted(EXTERNAL, IP[EXTERNAL], 0)


def test_closing_a_connection_of_an_unknown_address_is_a_mistake(broker: Broker) -> None:
    """testFailDecrementForUnknownIp"""
    with pytest.raises(ValueError, match=r"192\.168\.1\.9"):
        broker.close(EXTERNAL, "192.168.1.9")


def test_no_limits_by_default(broker: Broker) -> None:
    """testNoConnectionLimitsByDefault"""
    for listener in LISTENERS:
        assert len(broker.connect(listener, count=10_000).admitted_ms) == 10_000
        assert broker.quotas.listeners[listener].count == 10_000
        assert broker.quotas.ip_count(IP[listener]) == 10_000
    for listener in LISTENERS:
        broker.close(listener)
        assert broker.quotas.listeners[listener].count == 9_999
        assert broker.rate(listener) > 0
        assert broker.blocked_s(listener) == 0
    # The protected listener's connections are not in the broker's rate.
    assert broker.quotas.broker_meter.measure(broker.now_ms) == 20_000


def test_max_connections_per_ip() -> None:
    """testMaxConnectionsPerIp; refused connections are never counted here, so nobody has to take them back."""
    broker = limited(max_connections_per_ip=17)
    tally = broker.connect(count=17)
    assert (len(tally.admitted_ms), tally.too_many) == (17, 0)
    broker.connect(count=2)
    assert (len(tally.admitted_ms), tally.too_many) == (17, 2)
    assert broker.quotas.ip_count(IP[EXTERNAL]) == 17
    assert len(broker.connect(ip="192.168.1.9", count=17).admitted_ms) == 17
    broker.close(count=2)
    assert broker.quotas.ip_count(IP[EXTERNAL]) == 15
    broker.connect(count=2)
    assert broker.quotas.ip_count(IP[EXTERNAL]) == 17
    assert tally.too_many == 2


def test_max_connections_per_ip_overrides_win_both_ways() -> None:
    """SocketServerTest testZeroMaxConnectionsPerIp, testMaxConnectionsPerIpOverrides"""
    broker = limited(max_connections_per_ip=0, max_connections_per_ip_overrides={"127.0.0.1": 5})
    assert len(broker.connect(ip="127.0.0.1", count=6).admitted_ms) == 5
    assert broker.of(ip="127.0.0.1").too_many == 1
    assert broker.connect(ip="127.0.0.2").too_many == 1
    broker.update(max_connections_per_ip=3, max_connections_per_ip_overrides={"127.0.0.1": 1})
    assert broker.connect(ip="127.0.0.1").too_many == 2
    assert len(broker.connect(ip="127.0.0.2", count=4).admitted_ms) == 3


def test_max_connections_of_the_broker_protects_the_inter_broker_listener() -> None:
    """testMaxBrokerWideConnectionLimit"""
    broker = limited(max_connections=800)
    broker.connect(EXTERNAL, count=800)
    assert broker.admitted(EXTERNAL) == 800
    assert broker.blocked_s(EXTERNAL) == 0
    assert not broker.over_max_connections(EXTERNAL)
    broker.connect(EXTERNAL)
    broker.run(ms=150)
    assert broker.waiting(EXTERNAL)
    assert broker.blocked_s(EXTERNAL) == pytest.approx(0.15)
    broker.close(EXTERNAL)
    assert broker.admitted(EXTERNAL) == 801
    assert not broker.over_max_connections(EXTERNAL)
    broker.connect(REPLICATION)
    assert broker.admitted(REPLICATION) == 1
    assert broker.over_max_connections(EXTERNAL)
    assert not broker.over_max_connections(REPLICATION)
    broker.connect(ADMIN)
    assert broker.waiting(ADMIN)
    broker.connect(REPLICATION)
    assert broker.admitted(REPLICATION) == 2
    for _ in range(2):
        broker.close(EXTERNAL)
        assert broker.waiting(ADMIN)
    broker.close(EXTERNAL)
    assert broker.admitted(ADMIN) == 1
    assert broker.quotas.total == 800


def test_max_connections_of_a_listener_holds_for_the_inter_broker_listener_too() -> None:
    """testMaxListenerConnectionLimits"""
    broker = limited(max_connections=800, listener_max_connections=dict.fromkeys(LISTENERS, 200))
    for listener in LISTENERS:
        broker.connect(listener, count=201)
        assert broker.admitted(listener) == 200
        assert broker.waiting(listener)
    for listener in LISTENERS:
        broker.close(listener)
        assert broker.admitted(listener) == 201
        assert not broker.waiting(listener)


def test_a_broker_rate_that_is_not_reached_blocks_nobody() -> None:
    """testBrokerConnectionRateLimitWhenActualRateBelowLimit"""
    broker = limited(max_connection_creation_rate=125)
    for listener in LISTENERS:
        broker.connect_paced(listener, per_second=40, count=200)
    broker.run()
    for listener in LISTENERS:
        assert broker.admitted(listener) == 200
        assert broker.blocked_s(listener) == 0
        assert isnan(broker.throttle_time(listener))


def test_a_broker_rate_that_is_exceeded_blocks_all_but_the_inter_broker_listener() -> None:
    """testBrokerConnectionRateLimitWhenActualRateAboveLimit"""
    broker = limited(max_connection_creation_rate=90)
    for listener in LISTENERS:
        broker.connect_paced(listener, per_second=100, count=400)
    broker.run()
    assert [broker.admitted(listener) for listener in LISTENERS] == [400, 400, 400]
    assert broker.blocked_s(REPLICATION) == 0
    for listener in (EXTERNAL, ADMIN):
        assert broker.blocked_s(listener) > 1
        assert broker.throttle_time(listener) > 0
    both = sorted(broker.of(EXTERNAL).admitted_ms + broker.of(ADMIN).admitted_ms)
    assert 799 * 1000 / (both[-1] - both[0]) == pytest.approx(90, abs=15)


def test_a_listener_rate_that_is_not_reached_blocks_nobody() -> None:
    """testListenerConnectionRateLimitWhenActualRateBelowLimit"""
    broker = limited(
        max_connection_creation_rate=125, listener_max_connection_creation_rate=dict.fromkeys(LISTENERS, 50)
    )
    for listener in LISTENERS:
        broker.connect_paced(listener, per_second=40, count=200)
    broker.run()
    assert all(broker.blocked_s(listener) == 0 and broker.admitted(listener) == 200 for listener in LISTENERS)


def test_a_listener_rate_that_is_exceeded_holds_on_every_listener() -> None:
    """testListenerConnectionRateLimitWhenActualRateAboveLimit"""
    broker = limited(
        max_connection_creation_rate=125, listener_max_connection_creation_rate=dict.fromkeys(LISTENERS, 30)
    )
    tallies = [broker.connect_paced(listener, per_second=40, count=600) for listener in LISTENERS]
    broker.run()
    for listener, tally in zip(LISTENERS, tallies, strict=True):
        assert len(tally.admitted_ms) == 600
        assert tally.rate() == pytest.approx(30, abs=7)
        assert broker.blocked_s(listener) > 0
        assert broker.throttle_time(listener) > 0


def test_an_ip_rate_that_is_not_reached_throttles_nobody(broker: Broker) -> None:
    """testIpConnectionRateWhenActualRateBelowLimit"""
    broker.quotas.update_ip_rate(IP[EXTERNAL], 30, broker.now_ms)
    limited_ip = broker.connect_paced(EXTERNAL, per_second=25, count=200)
    free_ip = broker.connect_paced(ADMIN, per_second=50, count=200)
    broker.run()
    assert limited_ip.rate() == pytest.approx(25)
    assert free_ip.rate() == pytest.approx(50)
    assert (limited_ip.throttled, free_ip.throttled) == (0, 0)
    assert broker.blocked_s(EXTERNAL) == broker.blocked_s(ADMIN) == 0
    assert isnan(broker.ip_throttle_time(EXTERNAL))


def test_an_ip_rate_that_is_exceeded_refuses_and_blocks_no_acceptor(broker: Broker) -> None:
    """testIpConnectionRateWhenActualRateAboveLimit"""
    broker.quotas.update_ip_rate(IP[EXTERNAL], 20, broker.now_ms)
    tally = broker.connect_paced(EXTERNAL, per_second=40, count=80)
    broker.run()
    assert len(tally.admitted_ms) + tally.throttled == 80
    assert len(tally.admitted_ms) / 2 == pytest.approx(20, abs=1)
    assert broker.ip_throttle_time(EXTERNAL) > 0
    broker.quotas.update_ip_rate(None, 20, broker.now_ms)
    by_default = broker.connect_paced(ADMIN, per_second=40, count=80)
    broker.run()
    assert len(by_default.admitted_ms) / 2 == pytest.approx(20, abs=1)
    assert broker.ip_throttle_time(ADMIN) > 0
    assert isnan(broker.ip_throttle_time(REPLICATION))
    assert all(broker.blocked_s(listener) == 0 for listener in LISTENERS)


def test_an_ip_rate_beside_a_listener_rate() -> None:
    """testIpConnectionRateWithListenerConnectionRate"""
    broker = limited(listener_max_connection_creation_rate={**NO_LISTENER_LIMIT, EXTERNAL: 35})
    broker.quotas.update_ip_rate(None, 25, broker.now_ms)
    tallies = [broker.connect_paced(EXTERNAL, 35, 35, ip) for ip in ("10.0.0.1", "10.0.0.2")]
    broker.run()
    assert broker.blocked_s(EXTERNAL) > 0
    assert sum(tally.throttled > 0 for tally in tallies) <= 1


@pytest.mark.parametrize("listener", [EXTERNAL, REPLICATION])
@pytest.mark.parametrize("action", list(IpAction))
@pytest.mark.parametrize("strategy", list(Strategy))
def test_a_connection_refused_for_its_address_is_unrecorded_everywhere(
    listener: str, action: IpAction, strategy: Strategy
) -> None:
    """testRejectedIpConnectionUnrecordedFromConnectionRateQuotas"""
    broker = limited(ip_action=action, strategy=strategy)
    broker.quotas.update_ip_rate(IP[listener], 0, broker.now_ms)
    tally = broker.connect(listener)
    assert (tally.throttled, len(tally.admitted_ms)) == (1, 0)
    assert broker.quotas.ip_rates.rate(IP[listener], broker.now_ms) == 0
    assert broker.rate(listener) == 0
    assert broker.quotas.broker_meter.measure(broker.now_ms) == 0
    assert len(broker.delayed) == (1 if action is IpAction.DELAY else 0)
    assert broker.quotas.total == 0


@pytest.mark.parametrize("key", ["listener_max_connection_creation_rate", "listener_max_connections"])
@pytest.mark.parametrize("value", [0, -1])
def test_a_listener_limit_must_be_above_zero(broker: Broker, key: str, value: int) -> None:
    """testMaxListenerConnectionListenerMustBeAboveZero"""
    before = broker.quotas.settings
    with pytest.raises(ConfigError, match=r"listener\.name\.external\.max\.connection.*must be 1 or more"):
        broker.update(**{key: {**NO_LISTENER_LIMIT, EXTERNAL: value}})
    assert broker.quotas.settings is before


def test_a_listener_rate_changes_while_running() -> None:
    """testMaxListenerConnectionRateReconfiguration"""
    broker = limited(listener_max_connection_creation_rate={**NO_LISTENER_LIMIT, EXTERNAL: 20})
    broker.update(listener_max_connection_creation_rate={})
    assert len(broker.connect(EXTERNAL, count=1000).admitted_ms) == 1000
    assert broker.blocked_s(EXTERNAL) == 0
    broker.run(ms=10_000)
    broker.update(listener_max_connection_creation_rate={EXTERNAL: 10})
    tally = broker.connect_paced(EXTERNAL, per_second=20, count=200, ip="10.0.0.1")
    broker.run()
    assert tally.rate() == pytest.approx(10, abs=3)
    assert broker.blocked_s(EXTERNAL) > 0


def test_the_broker_rate_changes_while_running(broker: Broker) -> None:
    """testMaxBrokerConnectionRateReconfiguration"""
    broker.update(max_connection_creation_rate=50)
    tally = broker.connect_paced(EXTERNAL, per_second=200, count=400)
    broker.run()
    assert tally.rate() == pytest.approx(50, abs=20)
    assert broker.blocked_s(EXTERNAL) > 0


def test_meters_of_addresses_follow_their_limits(broker: Broker) -> None:
    """testIpConnectionRateMetricUpdate"""
    quotas, by_default, own = broker.quotas, "10.0.0.1", "10.0.0.2"

    def limits() -> tuple[int | None, int | None]:
        return quotas.ip_rates.tracked_limit(by_default), quotas.ip_rates.tracked_limit(own)

    quotas.update_ip_rate(None, 50, broker.now_ms)
    for ip in (by_default, own):
        broker.connect(ip=ip)
    assert limits() == (50, 50)
    quotas.update_ip_rate(own, 30, broker.now_ms)
    assert limits() == (50, 30)
    quotas.update_ip_rate(None, 20, broker.now_ms)
    assert limits() == (20, 30)
    quotas.update_ip_rate(None, None, broker.now_ms)
    assert limits() == (UNLIMITED, 30)
    quotas.update_ip_rate(own, None, broker.now_ms)
    assert limits() == (UNLIMITED, UNLIMITED)
    assert not quotas.ip_rates.active


def test_a_changed_ip_rate_is_enforced_and_keeps_what_was_counted(broker: Broker) -> None:
    """testEnforcedIpConnectionRateQuotaUpdate"""
    quotas = broker.quotas
    quotas.update_ip_rate(IP[EXTERNAL], 20, broker.now_ms)
    tally = broker.connect(EXTERNAL, count=40)
    assert len(tally.admitted_ms) == 20
    quotas.update_ip_rate(IP[EXTERNAL], 30, broker.now_ms)
    broker.connect(EXTERNAL, count=40)
    assert len(tally.admitted_ms) == 30
    quotas.update_ip_rate(IP[EXTERNAL], None, broker.now_ms)
    broker.connect(EXTERNAL, count=40)
    assert len(tally.admitted_ms) == 70
    other = broker.connect(ADMIN, count=40)
    quotas.update_ip_rate(None, 20, broker.now_ms)
    broker.connect(ADMIN, count=40)
    assert len(other.admitted_ms) == 60


def test_count_and_rate_together() -> None:
    """testNonDefaultConnectionCountLimitAndRateLimit"""
    broker = limited(
        listener_max_connections={**NO_LISTENER_LIMIT, EXTERNAL: 350},
        listener_max_connection_creation_rate={**NO_LISTENER_LIMIT, EXTERNAL: 25},
    )
    tally = broker.connect_paced(EXTERNAL, per_second=40, count=351)
    broker.run()
    broker.run(ms=5_000)
    assert len(tally.admitted_ms) == 350
    assert tally.rate() == pytest.approx(25, abs=8)
    assert broker.waiting(EXTERNAL)
    broker.close(EXTERNAL)
    assert len(tally.admitted_ms) == 351


# DynamicConnectionQuotaTest: connect, use, close for 13 s, at most 1.2 x the limit


def storm(broker: Broker, listeners: tuple[str, ...], seconds: int = 13) -> dict[str, float]:
    """More clients than any limit allows, each gone after its moment; admitted per second by listener."""
    before = {name: broker.admitted(name) for name in listeners}
    for name in listeners:
        broker.connect_paced(name, per_second=200, count=200 * seconds)
    broker.run(ms=seconds * 1000)
    rates = {name: (broker.admitted(name) - before[name]) / seconds for name in listeners}
    # Those who still wait give up.
    broker._events.clear()
    for name in listeners:
        broker.backlog[name].clear()
        if name in broker.held:
            del broker.held[name]
            broker.quotas.on_wait_abandoned(name, broker.now_ms)
    broker.run(ms=4_000)
    return rates


def test_rates_of_broker_and_listeners_change_while_clients_come() -> None:
    """testDynamicListenerConnectionCreationRateQuota; PLAINTEXT is EXTERNAL's inter-broker neighbour here"""
    settings = QuotaSettings(quota_window_num=2, inter_broker_listener=REPLICATION)
    broker = Broker(settings, (EXTERNAL, REPLICATION))
    broker.update(max_connection_creation_rate=9)
    assert 8 <= storm(broker, (EXTERNAL,))[EXTERNAL] <= 10.8
    broker.update(listener_max_connection_creation_rate={EXTERNAL: 4, REPLICATION: 4})
    for rate in storm(broker, (EXTERNAL, REPLICATION)).values():
        assert 3 <= rate <= 4.8
    broker.update(listener_max_connection_creation_rate={EXTERNAL: 4, REPLICATION: 12})
    rates = storm(broker, (EXTERNAL, REPLICATION))
    assert 10 <= rates[REPLICATION] <= 14.4
    assert 3 <= rates[EXTERNAL] <= 4.8


def test_the_default_ip_rate_and_an_override_change_while_clients_come() -> None:
    """testDynamicIpConnectionRateQuota"""
    broker = Broker(QuotaSettings(quota_window_num=2), (EXTERNAL,))
    broker.quotas.update_ip_rate(None, 10, broker.now_ms)
    assert 8 <= storm(broker, (EXTERNAL,))[EXTERNAL] <= 12
    broker.quotas.update_ip_rate(IP[EXTERNAL], 18, broker.now_ms)
    assert 14 <= storm(broker, (EXTERNAL,))[EXTERNAL] <= 21.6


def test_a_raised_or_inherited_limit_wakes_the_one_who_waits() -> None:
    """testDynamicConnectionQuota, testDynamicListenerConnectionQuota"""
    broker = Broker(QuotaSettings(max_connections=5, inter_broker_listener=REPLICATION), (EXTERNAL, REPLICATION))
    broker.connect(EXTERNAL, count=6)
    assert broker.waiting(EXTERNAL)
    broker.update(max_connections=10, listener_max_connections={EXTERNAL: 5, REPLICATION: 5})
    assert broker.waiting(EXTERNAL)
    broker.update(listener_max_connections={EXTERNAL: 7, REPLICATION: 5})
    assert broker.admitted(EXTERNAL) == 6
    broker.connect(EXTERNAL, count=2)
    assert broker.waiting(EXTERNAL)
    broker.close(EXTERNAL)
    assert broker.admitted(EXTERNAL) == 8
    # The inter-broker listener goes on above the broker's ten; then others have to go.
    broker.connect(REPLICATION, count=5)
    assert broker.admitted(REPLICATION) == 5
    assert broker.quotas.total == 12
    assert broker.over_max_connections(EXTERNAL)


# SocketServerTest


def test_refused_connections_are_held_and_closed_earliest_first() -> None:
    """testConnectionRatePerIp, and Kafka's max-heap mistake, which we do not make"""
    broker = Broker(QuotaSettings(quota_window_num=2), (EXTERNAL,))
    broker.quotas.update_ip_rate(None, 5, broker.now_ms)
    broker.connect(EXTERNAL, count=6)
    first_ms = broker.now_ms + 200
    assert (len(broker.delayed), broker.delayed.next_ms) == (1, first_ms)
    broker.run(ms=150)
    broker.connect(EXTERNAL, "10.0.0.1", count=6)
    assert (len(broker.delayed), broker.delayed.next_ms) == (2, first_ms)
    broker.run(ms=100)
    # Kafka would look at the latest only, and keep the first one open until then.
    assert (len(broker.delayed), broker.delayed.next_ms) == (1, first_ms + 150)
    broker.run(ms=2_000)
    assert len(broker.delayed) == 0
    broker.connect(EXTERNAL)
    assert (broker.of(EXTERNAL).throttled, broker.admitted(EXTERNAL)) == (1, 11)


# Beyond Kafka's tests: the rules of section 1.2 to 1.6


def test_a_listener_without_a_value_inherits_the_brokers_as_its_own_even_if_protected() -> None:
    broker = Broker(
        QuotaSettings(max_connection_creation_rate=5, quota_window_num=2, inter_broker_listener=REPLICATION)
    )
    broker.connect(REPLICATION, count=6)
    assert broker.admitted(REPLICATION) == 5
    assert broker.waiting(REPLICATION)


def test_with_a_single_listener_nothing_is_protected() -> None:
    settings = QuotaSettings(max_connections=1, inter_broker_listener=REPLICATION)
    alone = Broker(replace(settings, listener_max_connections={REPLICATION: 9}), (REPLICATION,))
    alone.connect(REPLICATION, count=2)
    assert alone.waiting(REPLICATION)
    # A second listener makes it protected, and so lets the one that waits in.
    alone.quotas.add_listener(EXTERNAL, alone.now_ms)
    alone._serve_woken()
    assert alone.admitted(REPLICATION) == 2


def test_a_static_rate_of_zero_lets_one_connection_in_each_window() -> None:
    broker = limited(max_connection_creation_rate=0)
    tally = broker.connect_paced(EXTERNAL, per_second=20, count=100)
    broker.run(ms=10_000)
    assert len(tally.admitted_ms) == 10
    assert broker.quotas.listeners[EXTERNAL].blocked.fraction(broker.now_ms) > 0.95


def test_the_rate_is_not_judged_again_after_the_wait() -> None:
    """One capped delay, then in: at least one connection each window however high the rate."""
    broker = limited(max_connection_creation_rate=1)
    tally = broker.connect(EXTERNAL, count=100)
    broker.run(ms=20_500)
    assert len(tally.admitted_ms) == 1 + 20


def test_a_raised_rate_does_not_shorten_a_wait() -> None:
    broker = limited(max_connection_creation_rate=1)
    broker.connect(EXTERNAL, count=2)
    broker.update(max_connection_creation_rate=1000)
    broker.run(ms=900)
    assert broker.admitted(EXTERNAL) == 1
    broker.run(ms=200)
    assert broker.admitted(EXTERNAL) == 2


def test_a_wait_needs_both_the_delay_and_a_slot() -> None:
    broker = limited(max_connection_creation_rate=2, max_connections=2)
    broker.connect(EXTERNAL, count=3)
    broker.close(EXTERNAL)
    assert broker.waiting(EXTERNAL)
    broker.run(ms=2_000)
    assert broker.admitted(EXTERNAL) == 3
    broker.connect(EXTERNAL)
    broker.run(ms=30_000)
    assert broker.waiting(EXTERNAL)
    broker.close(EXTERNAL)
    assert broker.admitted(EXTERNAL) == 4


def test_the_ip_rate_holds_on_the_protected_listener_and_is_shared_between_listeners() -> None:
    broker = limited()
    broker.quotas.update_ip_rate("10.0.0.1", 4, broker.now_ms)
    assert len(broker.connect(EXTERNAL, "10.0.0.1", 3).admitted_ms) == 3
    tally = broker.connect(REPLICATION, "10.0.0.1", 3)
    assert (len(tally.admitted_ms), tally.throttled) == (1, 2)


def test_a_refused_storm_leaves_the_listeners_budget_to_the_others() -> None:
    broker = limited(listener_max_connection_creation_rate={**NO_LISTENER_LIMIT, EXTERNAL: 50})
    broker.quotas.update_ip_rate("10.0.0.1", 5, broker.now_ms)
    storm_tally = broker.connect_paced(EXTERNAL, 500, 5_000, "10.0.0.1")
    quiet = broker.connect_paced(EXTERNAL, 20, 200, "10.0.0.2")
    broker.run()
    assert quiet.rate() == pytest.approx(20, rel=0.01)
    assert broker.blocked_s(EXTERNAL) == 0
    assert len(storm_tally.admitted_ms) <= 5 * 12


def test_the_drafts_key_limits_every_address_and_the_ip_entity_wins_over_it() -> None:
    broker = limited(max_connection_creation_rate_per_ip=5, ip_action=IpAction.DROP)
    assert len(broker.connect(ip="10.0.0.1", count=10).admitted_ms) == 5
    assert len(broker.delayed) == 0
    broker.quotas.update_ip_rate(None, 7, broker.now_ms)
    assert len(broker.connect(ip="10.0.0.2", count=10).admitted_ms) == 7
    broker.quotas.update_ip_rate("10.0.0.3", 9, broker.now_ms)
    assert len(broker.connect(ip="10.0.0.3", count=10).admitted_ms) == 9
    broker.quotas.update_ip_rate(None, None, broker.now_ms)
    assert len(broker.connect(ip="10.0.0.4", count=10).admitted_ms) == 5


def test_kafkas_window_admits_ten_windows_at_once_and_the_token_bucket_one() -> None:
    for strategy, at_once in ((Strategy.WINDOWED, 100), (Strategy.TOKEN_BUCKET, 10)):
        broker = limited(
            quota_window_num=11,
            strategy=strategy,
            listener_max_connection_creation_rate={**NO_LISTENER_LIMIT, EXTERNAL: 10},
        )
        tally = broker.connect(EXTERNAL, count=1_000)
        assert len(tally.admitted_ms) == at_once
        start_ms = broker.now_ms
        broker.run(ms=10_000)
        if strategy is Strategy.TOKEN_BUCKET:
            assert len(tally.admitted_ms) == 10 + 100
            gaps = {b - a for a, b in zip(tally.admitted_ms[10:], tally.admitted_ms[11:], strict=False)}
            assert gaps == {100}
            assert tally.admitted_ms[10] == start_ms + 100
