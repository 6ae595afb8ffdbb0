"""The adaptive rates of quotas: what is counted for them, over changes of listeners and of settings."""

from dataclasses import replace

from connection_limits.accept_decision import AcceptOutcome
from connection_limits.adaptive.control import INTERVAL_MS
from connection_limits.adaptive_rates import AdaptiveRates
from connection_limits.limit_met import limit_met
from connection_limits.quotas import ConnectionQuotas
from connection_limits.settings import LimitReference, Objective, QuotaSettings

NOW = 5_000_000
IP, LISTENER = "10.0.0.1", "EXTERNAL"
OBJECTIVE = Objective(p99_ms=20, min_rate=5)


def quotas_of(settings: QuotaSettings) -> ConnectionQuotas:
    quotas = ConnectionQuotas(settings, NOW)
    quotas.add_listener(LISTENER, NOW)
    return quotas


def test_a_listener_without_a_maximum_waits_for_its_own_rate() -> None:
    quotas = quotas_of(QuotaSettings(listener_objectives={LISTENER: OBJECTIVE}))
    rates = AdaptiveRates(quotas, NOW)
    rates.decide(0, NOW)
    quotas.listeners[LISTENER].rate_limit.set_limit(1, NOW)
    decisions = [quotas.on_accepted(LISTENER, IP, NOW) for _ in range(2)]
    assert [one.outcome for one in decisions] == [AcceptOutcome.ADMIT, AcceptOutcome.WAIT_UNTIL]
    key = "listener.name.external.connection.quota.adaptive.p99.ms"
    assert limit_met(quotas, LISTENER, decisions[1], IP) == LimitReference(key, 20)
    assert rates.needs_delays(NOW + INTERVAL_MS)


def test_connections_over_the_count_of_their_address_are_measured() -> None:
    # They count in the rate, so a lower rate admits fewer of them.
    quotas = quotas_of(QuotaSettings(listener_objectives={LISTENER: OBJECTIVE}, max_connections_per_ip=1))
    rates = AdaptiveRates(quotas, NOW)
    rates.decide(0, NOW)
    for _ in range(100):
        quotas.on_accepted(LISTENER, IP, NOW + 1)
    assert rates.needs_delays(NOW + INTERVAL_MS)


def test_connections_from_before_a_change_of_the_objective_make_no_place_for_others() -> None:
    settings = QuotaSettings(listener_objectives={LISTENER: OBJECTIVE})
    quotas = quotas_of(settings)
    for _ in range(50):
        quotas.on_accepted(LISTENER, None, NOW)
    quotas.update(replace(settings, listener_objectives={}), NOW + 1)
    for _ in range(50):
        quotas.on_identified(LISTENER, None, NOW + 2, waited_ms=2, abandoned=True)
    assert quotas.listeners[LISTENER].meter.measure(NOW + 2) == 0
