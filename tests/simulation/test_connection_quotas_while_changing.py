"""Apache Kafka's dynamic and socket-server scenarios in virtual time, and the rules beyond its tests."""

from dataclasses import replace

import pytest

from connection_limits.settings import IpAction, QuotaSettings, Strategy
from tests.support.requests.quota_broker import (
    ADMIN,
    EXTERNAL,
    IP,
    NO_LISTENER_LIMIT,
    REPLICATION,
    Broker,
    limited,
)


@pytest.fixture
def broker() -> Broker:
    return Broker()


# DynamicConnectionQuotaTest: connect, use, close for 13 s, at most 1.2 x the limit


def storm(broker: Broker, listeners: tuple[str, ...], seconds: int = 13) -> dict[str, float]:
    """Connect more clients than any limit allows, each closed after a moment; return rates of admission by listener."""
    before = {name: broker.admitted(name) for name in listeners}
    for name in listeners:
        broker.connect_paced(name, per_second=200, count=200 * seconds)
    broker.run(ms=seconds * 1000)
    rates = {name: (broker.admitted(name) - before[name]) / seconds for name in listeners}
    # Clients that still wait give up.
    broker._events.clear()
    for name in listeners:
        broker.backlog[name].clear()
        if name in broker.held:
            del broker.held[name]
            broker.quotas.on_wait_abandoned(name, broker.now_ms)
    broker.run(ms=4_000)
    return rates


def test_rates_of_broker_and_listeners_change_while_clients_come() -> None:
    """Kafka's testDynamicListenerConnectionCreationRateQuota; PLAINTEXT is EXTERNAL's inter-broker neighbour here."""
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
    """Kafka's testDynamicIpConnectionRateQuota."""
    broker = Broker(QuotaSettings(quota_window_num=2), (EXTERNAL,))
    broker.quotas.addresses.update_rate(None, 10, broker.now_ms)
    assert 8 <= storm(broker, (EXTERNAL,))[EXTERNAL] <= 12
    broker.quotas.addresses.update_rate(IP[EXTERNAL], 18, broker.now_ms)
    assert 14 <= storm(broker, (EXTERNAL,))[EXTERNAL] <= 21.6


def test_a_raised_or_inherited_limit_wakes_the_one_who_waits() -> None:
    """Kafka's testDynamicConnectionQuota, testDynamicListenerConnectionQuota."""
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
    # The inter-broker listener continues above the broker's ten; then other connections must be closed.
    broker.connect(REPLICATION, count=5)
    assert broker.admitted(REPLICATION) == 5
    assert broker.quotas.total == 12
    assert broker.over_max_connections(EXTERNAL)


# SocketServerTest


def test_refused_connections_are_held_and_closed_earliest_first() -> None:
    """Kafka's testConnectionRatePerIp, and Kafka's mistake with its max-heap, which our code does not make."""
    broker = Broker(QuotaSettings(quota_window_num=2), (EXTERNAL,))
    broker.quotas.addresses.update_rate(None, 5, broker.now_ms)
    broker.connect(EXTERNAL, count=6)
    first_ms = broker.now_ms + 200
    assert (len(broker.delayed), broker.delayed.next_ms) == (1, first_ms)
    broker.run(ms=150)
    broker.connect(EXTERNAL, "10.0.0.1", count=6)
    assert (len(broker.delayed), broker.delayed.next_ms) == (2, first_ms)
    broker.run(ms=100)
    # Kafka would check the latest only, and keep the first one open until then.
    assert (len(broker.delayed), broker.delayed.next_ms) == (1, first_ms + 150)
    broker.run(ms=2_000)
    assert len(broker.delayed) == 0
    broker.connect(EXTERNAL)
    assert (broker.of(EXTERNAL).throttled, broker.admitted(EXTERNAL)) == (1, 11)


# Beyond Kafka's tests: the rules of section 1.2 to 1.6


def test_a_listener_without_a_value_inherits_the_brokers_as_its_own_unless_it_is_protected() -> None:
    broker = Broker(
        QuotaSettings(max_connection_creation_rate=5, quota_window_num=2, inter_broker_listener=REPLICATION)
    )
    broker.connect(REPLICATION, count=60)
    assert broker.admitted(REPLICATION) == 60
    broker.connect(EXTERNAL, count=6)
    assert broker.admitted(EXTERNAL) == 5
    assert broker.waiting(EXTERNAL)


def test_with_a_single_listener_nothing_is_protected() -> None:
    settings = QuotaSettings(max_connections=1, inter_broker_listener=REPLICATION)
    alone = Broker(replace(settings, listener_max_connections={REPLICATION: 9}), (REPLICATION,))
    alone.connect(REPLICATION, count=2)
    assert alone.waiting(REPLICATION)
    # A second listener makes this one protected, which admits the waiting connection.
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
    """A connection waits for one capped delay and is admitted: at least one each window, however high the rate."""
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


def test_the_ip_rate_is_shared_between_the_listeners_of_clients_and_does_not_reach_the_brokers() -> None:
    broker = limited()
    broker.quotas.addresses.update_rate("10.0.0.1", 4, broker.now_ms)
    assert len(broker.connect(EXTERNAL, "10.0.0.1", 3).admitted_ms) == 3
    tally = broker.connect(ADMIN, "10.0.0.1", 3)
    assert (len(tally.admitted_ms), tally.throttled) == (1, 2)
    tally = broker.connect(REPLICATION, "10.0.0.1", 10)
    assert (len(tally.admitted_ms), tally.throttled) == (10, 0)


def test_a_refused_storm_leaves_the_listeners_budget_to_the_others() -> None:
    broker = limited(listener_max_connection_creation_rate={**NO_LISTENER_LIMIT, EXTERNAL: 50})
    broker.quotas.addresses.update_rate("10.0.0.1", 5, broker.now_ms)
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
    broker.quotas.addresses.update_rate(None, 7, broker.now_ms)
    assert len(broker.connect(ip="10.0.0.2", count=10).admitted_ms) == 7
    broker.quotas.addresses.update_rate("10.0.0.3", 9, broker.now_ms)
    assert len(broker.connect(ip="10.0.0.3", count=10).admitted_ms) == 9
    broker.quotas.addresses.update_rate(None, None, broker.now_ms)
    assert len(broker.connect(ip="10.0.0.4", count=10).admitted_ms) == 5


def patient_waits_s(settings: QuotaSettings) -> list[float]:
    """Waiting times of those of ten patient clients, one a second, that are admitted meanwhile.

    240 other clients a second connect and hang up after 30 ms, which is what eight clients do.
    """
    broker = Broker(replace(settings, listener_max_connection_creation_rate={EXTERNAL: 10}), (EXTERNAL,))
    broker.connect_paced(EXTERNAL, per_second=240, count=240 * 60, gives_up_ms=30)
    broker.run(ms=20_000)
    waits_s = []
    for number in range(10):
        start_ms = broker.now_ms
        patient = broker.connect(EXTERNAL, f"192.168.2.{number}")
        broker.run(ms=1_500)
        waits_s += [(at_ms - start_ms) / 1000 for at_ms in patient.admitted_ms]
    assert broker.admitted(EXTERNAL) <= 35 * 10 + 110, "the rate holds for those that are let in"
    return waits_s


@pytest.mark.parametrize("strategy", Strategy)
def test_a_patient_client_does_not_wait_for_those_that_have_given_up(strategy: Strategy) -> None:
    waits_s = patient_waits_s(QuotaSettings(strategy=strategy))
    assert len(waits_s) == 10
    assert max(waits_s) <= 1.1


@pytest.mark.parametrize("strategy", Strategy)
def test_as_in_kafka_a_patient_client_waits_for_them_when_the_key_says_so(strategy: Strategy) -> None:
    assert patient_waits_s(QuotaSettings(strategy=strategy, count_abandoned=True)) == []


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
