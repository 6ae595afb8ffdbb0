"""Connections of proxies in the quotas: counted at their accept, and against an address once that is known."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connection_limits.accept_decision import AcceptOutcome
from connection_limits.groups.connection_group import AddressGroupLimits
from connection_limits.quotas import ConnectionQuotas
from connection_limits.settings import QuotaSettings

NOW, PROXIED, PLAIN, BROKERS = 1_000_000, "PROXIED", "PLAIN", "BROKERS"
ALICE, BOB = "203.0.113.7", "203.0.113.8"


def quotas_of(settings: QuotaSettings) -> ConnectionQuotas:
    quotas = ConnectionQuotas(settings, NOW)
    for name in (PROXIED, PLAIN, BROKERS):
        quotas.add_listener(name, NOW)
    return quotas


def test_a_connection_without_a_known_client_takes_a_slot_and_releases_it() -> None:
    woken: list[str] = []
    quotas = ConnectionQuotas(QuotaSettings(max_connections=1), NOW, woken.append)
    quotas.add_listener(PROXIED, NOW)
    assert quotas.on_accepted(PROXIED, None, NOW).outcome is AcceptOutcome.ADMIT
    assert quotas.on_accepted(PROXIED, None, NOW).outcome is AcceptOutcome.WAIT_FOR_SLOT
    quotas.on_identified(PROXIED, None, NOW)
    assert woken == [PROXIED]
    assert quotas.on_wait_over(PROXIED, None, NOW).outcome is AcceptOutcome.ADMIT
    assert quotas.on_identified(PROXIED, ALICE, NOW).outcome is AcceptOutcome.ADMIT
    assert (quotas.total, quotas.addresses.counts.count(ALICE), quotas.listeners[PROXIED].admitted_total) == (1, 1, 1)


def test_a_client_over_its_rate_gives_back_slot_and_rates() -> None:
    quotas = quotas_of(QuotaSettings(max_connection_creation_rate=100))
    quotas.addresses.update_rate(ALICE, 0, NOW)
    before = quotas.rate_limit.meter.measure(NOW)
    quotas.on_accepted(PROXIED, None, NOW)
    assert quotas.on_identified(PROXIED, ALICE, NOW).outcome is AcceptOutcome.REFUSE_DELAYED
    assert (quotas.total, quotas.listeners[PROXIED].count, quotas.rate_limit.meter.measure(NOW)) == (0, 0, before)


@pytest.mark.parametrize("windows", [2, 11])
def test_clients_that_are_refused_late_let_no_others_in_above_the_rate(windows: int) -> None:
    """Some proxies send their header with the first byte of the client, which therefore decides when."""
    quotas = quotas_of(QuotaSettings(max_connection_creation_rate=10, quota_window_num=windows))
    quotas.addresses.update_rate(ALICE, 0, NOW)
    for _ in range(10):
        assert quotas.on_accepted(PROXIED, None, NOW).outcome is AcceptOutcome.ADMIT
    late, all_forgotten = NOW + 4_900, NOW + 1_000 * (windows + 1)
    for _ in range(10):
        quotas.on_identified(PROXIED, ALICE, late, waited_ms=late - NOW)
    assert quotas.rate_limit.meter.measure(max(late, all_forgotten)) >= 0
    assert quotas.listeners[PROXIED].meter.measure(max(late, all_forgotten)) >= 0


def test_the_listener_of_brokers_counts_no_address() -> None:
    quotas = quotas_of(QuotaSettings(max_connections_per_ip=0, inter_broker_listener=BROKERS))
    quotas.on_accepted(BROKERS, None, NOW)
    assert quotas.on_identified(BROKERS, ALICE, NOW).outcome is AcceptOutcome.ADMIT
    quotas.on_closed(BROKERS, ALICE, NOW)
    assert (quotas.total, quotas.addresses.counts.count(ALICE)) == (0, 0)


@given(st.lists(st.tuples(st.sampled_from(["accept", "say", "leave", "close", "retire", "add"]), st.integers(0, 7))))
def test_counts_equal_open_connections_after_any_sequence_of_events(acts: list[tuple[str, int]]) -> None:
    quotas = quotas_of(QuotaSettings(max_connections_per_ip=2, inter_broker_listener=BROKERS))
    names, ips = (PROXIED, PLAIN), (ALICE, BOB)
    silent: Counter[str] = Counter()
    opened: Counter[tuple[str, str]] = Counter()
    listening = set(names)
    for act, choice in acts:
        name, ip = names[choice % 2], ips[choice // 2 % 2]
        if act == "accept" and name in listening:
            quotas.on_accepted(name, None, NOW)
            silent[name] += 1
        elif act == "say" and silent[name]:
            silent[name] -= 1
            if quotas.on_identified(name, ip, NOW).outcome is AcceptOutcome.ADMIT:
                opened[name, ip] += 1
        elif act == "leave" and silent[name]:
            silent[name] -= 1
            quotas.on_identified(name, None, NOW)
        elif act == "close" and opened[name, ip]:
            opened[name, ip] -= 1
            quotas.on_closed(name, ip, NOW)
        elif act == "retire" and name in listening:
            listening.remove(name)
            quotas.retire_listener(name, NOW)
        elif act == "add" and name not in listening:
            listening.add(name)
            quotas.add_listener(name, NOW)
        assert quotas.total == silent.total() + opened.total()
        for each in names:
            count = silent[each] + sum(opened[each, one] for one in ips)
            assert (each in quotas.listeners) == (each in listening or count > 0)
            assert count == (quotas.listeners[each].count if each in quotas.listeners else 0)
        for one in ips:
            assert quotas.addresses.counts.count(one) == opened[PROXIED, one] + opened[PLAIN, one] <= 2


def test_a_connection_group_holds_the_client_and_not_its_proxy() -> None:
    quotas = quotas_of(QuotaSettings(max_connection_creation_rate=100))
    quotas.addresses.groups.set_limits("g", AddressGroupLimits(rate=1_000, max_connections=1), NOW)
    quotas.addresses.groups.add_member("g", "203.0.113.0/24", NOW)
    outcomes = []
    for ip in (ALICE, ALICE, BOB):
        quotas.on_accepted(PROXIED, None, NOW)
        outcomes.append(quotas.on_identified(PROXIED, ip, NOW).outcome)
    assert outcomes == [AcceptOutcome.ADMIT, AcceptOutcome.REFUSE_TOO_MANY, AcceptOutcome.ADMIT]
    quotas.on_closed(PROXIED, BOB, NOW)
    assert quotas.addresses.groups.by_name["g"].connections == 1
