"""Apache Kafka's ConnectionQuotasTest in virtual time; each test names Kafka's."""

from math import isnan

import pytest

from connection_limits.errors import InvalidLimitError
from connection_limits.quotas import ConnectionQuotas, UnknownListenerError
from connection_limits.settings import IpAction, Strategy
from tests.support.requests.quota_broker import (
    ADMIN,
    EXTERNAL,
    IP,
    ISOLATED,
    LISTENERS,
    NO_LISTENER_LIMIT,
    REPLICATION,
    Broker,
    limited,
)


@pytest.fixture
def broker() -> Broker:
    return Broker()


def test_a_listener_that_was_not_added_is_a_mistake() -> None:
    """Kafka's testFailWhenNoListeners."""
    quotas = ConnectionQuotas(ISOLATED, 0)
    with pytest.raises(UnknownListenerError, match="EXTERNAL"):
        quotas.on_accepted(EXTERNAL, IP[EXTERNAL], 0)


def test_closing_a_connection_of_an_unknown_address_is_a_mistake(broker: Broker) -> None:
    """Kafka's testFailDecrementForUnknownIp."""
    with pytest.raises(ValueError, match=r"192\.168\.1\.9"):
        broker.close(EXTERNAL, "192.168.1.9")


def test_no_limits_by_default(broker: Broker) -> None:
    """Kafka's testNoConnectionLimitsByDefault."""
    for listener in LISTENERS:
        assert len(broker.connect(listener, count=10_000).admitted_ms) == 10_000
        assert broker.quotas.listeners[listener].count == 10_000
        # The protected listener's connections are not in the address's count, as no limit is compared with it.
        assert broker.quotas.addresses.counts.count(IP[listener]) == (0 if listener == REPLICATION else 10_000)
    for listener in LISTENERS:
        broker.close(listener)
        assert broker.quotas.listeners[listener].count == 9_999
        assert broker.rate(listener) > 0
        assert broker.blocked_s(listener) == 0
    # The protected listener's connections are not in the broker's rate.
    assert broker.quotas.rate_limit.meter.measure(broker.now_ms) == 20_000


def test_max_connections_per_ip() -> None:
    """testMaxConnectionsPerIp; refused connections are never counted here, so no code has to take them back."""
    broker = limited(max_connections_per_ip=17)
    tally = broker.connect(count=17)
    assert (len(tally.admitted_ms), tally.too_many) == (17, 0)
    broker.connect(count=2)
    assert (len(tally.admitted_ms), tally.too_many) == (17, 2)
    assert broker.quotas.addresses.counts.count(IP[EXTERNAL]) == 17
    assert len(broker.connect(ip="192.168.1.9", count=17).admitted_ms) == 17
    broker.close(count=2)
    assert broker.quotas.addresses.counts.count(IP[EXTERNAL]) == 15
    broker.connect(count=2)
    assert broker.quotas.addresses.counts.count(IP[EXTERNAL]) == 17
    assert tally.too_many == 2


def test_max_connections_per_ip_overrides_win_both_ways() -> None:
    """SocketServerTest.testZeroMaxConnectionsPerIp, testMaxConnectionsPerIpOverrides."""
    broker = limited(max_connections_per_ip=0, max_connections_per_ip_overrides={"127.0.0.1": 5})
    assert len(broker.connect(ip="127.0.0.1", count=6).admitted_ms) == 5
    assert broker.of(ip="127.0.0.1").too_many == 1
    assert broker.connect(ip="127.0.0.2").too_many == 1
    broker.update(max_connections_per_ip=3, max_connections_per_ip_overrides={"127.0.0.1": 1})
    assert broker.connect(ip="127.0.0.1").too_many == 2
    assert len(broker.connect(ip="127.0.0.2", count=4).admitted_ms) == 3


def test_max_connections_of_the_broker_protects_the_inter_broker_listener() -> None:
    """Kafka's testMaxBrokerWideConnectionLimit."""
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
    """Kafka's testMaxListenerConnectionLimits."""
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
    """Kafka's testBrokerConnectionRateLimitWhenActualRateBelowLimit."""
    broker = limited(max_connection_creation_rate=125)
    for listener in LISTENERS:
        broker.connect_paced(listener, per_second=40, count=200)
    broker.run()
    for listener in LISTENERS:
        assert broker.admitted(listener) == 200
        assert broker.blocked_s(listener) == 0
        assert isnan(broker.throttle_time(listener))


def test_a_broker_rate_that_is_exceeded_blocks_all_but_the_inter_broker_listener() -> None:
    """Kafka's testBrokerConnectionRateLimitWhenActualRateAboveLimit."""
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
    """Kafka's testListenerConnectionRateLimitWhenActualRateBelowLimit."""
    broker = limited(
        max_connection_creation_rate=125, listener_max_connection_creation_rate=dict.fromkeys(LISTENERS, 50)
    )
    for listener in LISTENERS:
        broker.connect_paced(listener, per_second=40, count=200)
    broker.run()
    assert all(broker.blocked_s(listener) == 0 and broker.admitted(listener) == 200 for listener in LISTENERS)


def test_a_listener_rate_that_is_exceeded_holds_on_every_listener() -> None:
    """Kafka's testListenerConnectionRateLimitWhenActualRateAboveLimit."""
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
    """testIpConnectionRateWhenActualRateBelowLimit."""
    broker.quotas.addresses.update_rate(IP[EXTERNAL], 30, broker.now_ms)
    limited_ip = broker.connect_paced(EXTERNAL, per_second=25, count=200)
    free_ip = broker.connect_paced(ADMIN, per_second=50, count=200)
    broker.run()
    assert limited_ip.rate() == pytest.approx(25)
    assert free_ip.rate() == pytest.approx(50)
    assert (limited_ip.throttled, free_ip.throttled) == (0, 0)
    assert broker.blocked_s(EXTERNAL) == broker.blocked_s(ADMIN) == 0
    assert isnan(broker.ip_throttle_time(EXTERNAL))


def test_an_ip_rate_that_is_exceeded_refuses_and_blocks_no_acceptor(broker: Broker) -> None:
    """testIpConnectionRateWhenActualRateAboveLimit."""
    broker.quotas.addresses.update_rate(IP[EXTERNAL], 20, broker.now_ms)
    tally = broker.connect_paced(EXTERNAL, per_second=40, count=80)
    broker.run()
    assert len(tally.admitted_ms) + tally.throttled == 80
    assert len(tally.admitted_ms) / 2 == pytest.approx(20, abs=1)
    assert broker.ip_throttle_time(EXTERNAL) > 0
    broker.quotas.addresses.update_rate(None, 20, broker.now_ms)
    by_default = broker.connect_paced(ADMIN, per_second=40, count=80)
    broker.run()
    assert len(by_default.admitted_ms) / 2 == pytest.approx(20, abs=1)
    assert broker.ip_throttle_time(ADMIN) > 0
    assert isnan(broker.ip_throttle_time(REPLICATION))
    assert all(broker.blocked_s(listener) == 0 for listener in LISTENERS)


def test_an_ip_rate_beside_a_listener_rate() -> None:
    """Kafka's testIpConnectionRateWithListenerConnectionRate."""
    broker = limited(listener_max_connection_creation_rate={**NO_LISTENER_LIMIT, EXTERNAL: 35})
    broker.quotas.addresses.update_rate(None, 25, broker.now_ms)
    tallies = [broker.connect_paced(EXTERNAL, 35, 35, ip) for ip in ("10.0.0.1", "10.0.0.2")]
    broker.run()
    assert broker.blocked_s(EXTERNAL) > 0
    assert sum(tally.throttled > 0 for tally in tallies) <= 1


@pytest.mark.parametrize("listener", [EXTERNAL, ADMIN])
@pytest.mark.parametrize("action", list(IpAction))
@pytest.mark.parametrize("strategy", list(Strategy))
def test_a_connection_refused_for_its_address_is_unrecorded_everywhere(
    listener: str, action: IpAction, strategy: Strategy
) -> None:
    """Kafka's testRejectedIpConnectionUnrecordedFromConnectionRateQuotas."""
    broker = limited(ip_action=action, strategy=strategy)
    broker.quotas.addresses.update_rate(IP[listener], 0, broker.now_ms)
    tally = broker.connect(listener)
    assert (tally.throttled, len(tally.admitted_ms)) == (1, 0)
    assert broker.quotas.addresses.rates.rate(IP[listener], broker.now_ms) == 0
    assert broker.rate(listener) == 0
    assert broker.quotas.rate_limit.meter.measure(broker.now_ms) == 0
    assert len(broker.delayed) == (1 if action is IpAction.DELAY else 0)
    assert broker.quotas.total == 0


@pytest.mark.parametrize("key", ["listener_max_connection_creation_rate", "listener_max_connections"])
@pytest.mark.parametrize("value", [0, -1])
def test_a_listener_limit_must_be_above_zero(broker: Broker, key: str, value: int) -> None:
    """Kafka's testMaxListenerConnectionListenerMustBeAboveZero."""
    before = broker.quotas.settings
    with pytest.raises(InvalidLimitError, match=r"listener\.name\.external\.max\.connection.*must be 1 or more"):
        broker.update(**{key: {**NO_LISTENER_LIMIT, EXTERNAL: value}})
    assert broker.quotas.settings is before


def test_a_listener_rate_changes_while_running() -> None:
    """Kafka's testMaxListenerConnectionRateReconfiguration."""
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
    """Kafka's testMaxBrokerConnectionRateReconfiguration."""
    broker.update(max_connection_creation_rate=50)
    tally = broker.connect_paced(EXTERNAL, per_second=200, count=400)
    broker.run()
    assert tally.rate() == pytest.approx(50, abs=20)
    assert broker.blocked_s(EXTERNAL) > 0


def test_meters_of_addresses_follow_their_limits(broker: Broker) -> None:
    """Kafka's testIpConnectionRateMetricUpdate."""
    quotas, by_default, own = broker.quotas, "10.0.0.1", "10.0.0.2"

    def limits() -> dict[str, int]:
        return {ip: meter.limit for ip, meter in quotas.addresses.rates.recent()}

    quotas.addresses.update_rate(None, 50, broker.now_ms)
    for ip in (by_default, own):
        broker.connect(ip=ip)
    assert limits() == {by_default: 50, own: 50}
    quotas.addresses.update_rate(own, 30, broker.now_ms)
    assert limits() == {by_default: 50, own: 30}
    quotas.addresses.update_rate(None, 20, broker.now_ms)
    assert limits() == {by_default: 20, own: 30}
    quotas.addresses.update_rate(None, None, broker.now_ms)
    assert limits() == {own: 30}
    quotas.addresses.update_rate(own, None, broker.now_ms)
    assert limits() == {}
    assert not quotas.addresses.rates.active


def test_a_changed_ip_rate_is_enforced_and_keeps_what_was_counted(broker: Broker) -> None:
    """Kafka's testEnforcedIpConnectionRateQuotaUpdate."""
    quotas = broker.quotas
    quotas.addresses.update_rate(IP[EXTERNAL], 20, broker.now_ms)
    tally = broker.connect(EXTERNAL, count=40)
    assert len(tally.admitted_ms) == 20
    quotas.addresses.update_rate(IP[EXTERNAL], 30, broker.now_ms)
    broker.connect(EXTERNAL, count=40)
    assert len(tally.admitted_ms) == 30
    quotas.addresses.update_rate(IP[EXTERNAL], None, broker.now_ms)
    broker.connect(EXTERNAL, count=40)
    assert len(tally.admitted_ms) == 70
    other = broker.connect(ADMIN, count=40)
    quotas.addresses.update_rate(None, 20, broker.now_ms)
    broker.connect(ADMIN, count=40)
    assert len(other.admitted_ms) == 60


def test_count_and_rate_together() -> None:
    """Kafka's testNonDefaultConnectionCountLimitAndRateLimit."""
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
