"""The quota state machine under random scripts, and cases that the scenarios of tests/simulation leave out."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from connection_limits.accept_decision import AcceptOutcome
from connection_limits.errors import InvalidLimitError
from connection_limits.quotas import ConnectionQuotas, UnknownListenerError
from connection_limits.settings import UNLIMITED, IpAction, QuotaSettings, Strategy

NOW = 1_000_000
CLIENTS, BROKERS = "CLIENTS", "BROKERS"
IPS = ("10.0.0.1", "10.0.0.2", "10.0.0.3")


def quotas_of(settings: QuotaSettings, *listeners: str) -> ConnectionQuotas:
    quotas = ConnectionQuotas(settings, NOW)
    for name in listeners or (CLIENTS,):
        quotas.add_listener(name, NOW)
    return quotas


def test_a_waiting_listener_must_not_accept_another_connection() -> None:
    quotas = quotas_of(QuotaSettings(max_connections=0))
    assert quotas.on_accepted(CLIENTS, IPS[0], NOW).outcome is AcceptOutcome.WAIT_FOR_SLOT
    with pytest.raises(RuntimeError, match="during a wait"):
        quotas.on_accepted(CLIENTS, IPS[0], NOW)


def test_names_of_quotas_wake_no_waiting_listener() -> None:
    woken: list[str] = []
    settings = QuotaSettings(max_connection_creation_rate=1, quota_window_num=2)
    quotas = ConnectionQuotas(settings, NOW, woken.append)
    quotas.add_listener(CLIENTS, NOW)
    while quotas.on_accepted(CLIENTS, IPS[0], NOW).outcome is AcceptOutcome.ADMIT:
        pass
    named = replace(settings, quota_names={"max.connection.creation.rate": "shop/all"})
    quotas.update(named, NOW)
    assert (woken, quotas.settings) == ([], named)
    quotas.update(replace(named, max_connection_creation_rate=2), NOW)
    assert woken == [CLIENTS]


def test_only_a_waiting_listener_may_ask_again() -> None:
    with pytest.raises(RuntimeError, match="has no wait"):
        quotas_of(QuotaSettings()).on_wait_over(CLIENTS, IPS[0], NOW)


def test_a_connection_that_was_never_admitted_cannot_be_closed() -> None:
    quotas = quotas_of(QuotaSettings(), CLIENTS, BROKERS)
    quotas.on_accepted(CLIENTS, IPS[0], NOW)
    with pytest.raises(ValueError, match="no open connection"):
        quotas.on_closed(BROKERS, IPS[0], NOW)


def test_an_abandoned_wait_frees_the_listener_and_ends_the_blocked_time() -> None:
    quotas = quotas_of(QuotaSettings(max_connections=0))
    quotas.on_accepted(CLIENTS, IPS[0], NOW)
    quotas.on_wait_abandoned(CLIENTS, NOW + 500)
    assert quotas.listeners[CLIENTS].blocked.total_s(NOW + 900) == 0.5
    assert quotas.on_accepted(CLIENTS, IPS[0], NOW).outcome is AcceptOutcome.WAIT_FOR_SLOT


@pytest.mark.parametrize("strategy", Strategy)
def test_a_client_that_hangs_up_while_it_waits_costs_no_rate(strategy: Strategy) -> None:
    quotas = quotas_of(QuotaSettings(max_connection_creation_rate=1, quota_window_num=2, strategy=strategy))
    meters = [quotas.rate_limit.meter, quotas.listeners[CLIENTS].meter]
    while quotas.on_accepted(CLIENTS, IPS[0], NOW).outcome is AcceptOutcome.ADMIT:
        pass
    with_the_wait = [meter.measure(NOW + 300) for meter in meters]
    quotas.on_wait_abandoned(CLIENTS, NOW + 300, by_client=True)
    assert all(meter.measure(NOW + 300) < before for meter, before in zip(meters, with_the_wait, strict=True))
    assert quotas.listeners[CLIENTS].blocked.total_s(NOW + 900) == 0.3


def test_after_more_than_a_window_nothing_is_taken_back_for_a_client_that_hangs_up() -> None:
    quotas = quotas_of(QuotaSettings(max_connections=0))
    assert quotas.on_accepted(CLIENTS, IPS[0], NOW).outcome is AcceptOutcome.WAIT_FOR_SLOT
    before = quotas.listeners[CLIENTS].meter.measure(NOW + 1_001)
    quotas.on_wait_abandoned(CLIENTS, NOW + 1_001, by_client=True)
    assert quotas.listeners[CLIENTS].meter.measure(NOW + 1_001) == before


def test_the_next_client_takes_a_wait_over_and_is_judged_by_its_own_address() -> None:
    quotas = quotas_of(QuotaSettings(max_connection_creation_rate=1, quota_window_num=2, max_connections_per_ip=1))
    assert quotas.on_accepted(CLIENTS, IPS[0], NOW).outcome is AcceptOutcome.ADMIT
    waits = quotas.on_accepted(CLIENTS, IPS[0], NOW)
    assert waits.outcome is AcceptOutcome.WAIT_UNTIL
    assert quotas.on_wait_over(CLIENTS, IPS[1], waits.at_ms).outcome is AcceptOutcome.ADMIT
    assert (quotas.addresses.counts.count(IPS[0]), quotas.addresses.counts.count(IPS[1])) == (1, 1)
    assert quotas.listeners[CLIENTS].waits_total == 1


def test_a_listener_goes_with_its_last_connection() -> None:
    quotas = quotas_of(QuotaSettings())
    quotas.on_accepted(CLIENTS, IPS[0], NOW)
    quotas.retire_listener(CLIENTS, NOW)
    assert quotas.listeners[CLIENTS].count == 1
    quotas.on_closed(CLIENTS, IPS[0], NOW)
    with pytest.raises(UnknownListenerError):
        quotas.on_accepted(CLIENTS, IPS[0], NOW)


def test_a_listener_that_holds_a_waiting_connection_cannot_go() -> None:
    quotas = quotas_of(QuotaSettings(max_connections=0))
    quotas.on_accepted(CLIENTS, IPS[0], NOW)
    with pytest.raises(ValueError, match="still has a waiting connection"):
        quotas.retire_listener(CLIENTS, NOW)


def test_a_listener_that_is_added_again_before_its_last_connection_has_ended_stays() -> None:
    quotas = quotas_of(QuotaSettings())
    quotas.on_accepted(CLIENTS, IPS[0], NOW)
    quotas.retire_listener(CLIENTS, NOW)
    quotas.add_listener(CLIENTS, NOW)
    quotas.on_closed(CLIENTS, IPS[0], NOW)
    assert quotas.on_accepted(CLIENTS, IPS[0], NOW).outcome is AcceptOutcome.ADMIT
    assert quotas.listeners[CLIENTS].admitted_total == 2


def test_a_listener_is_added_once() -> None:
    with pytest.raises(ValueError, match="already added"):
        quotas_of(QuotaSettings(), CLIENTS, CLIENTS)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"quota_window_num": 2}, "quota.window.num"),
        ({"quota_window_size_s": 2}, "quota.window.size.seconds"),
        ({"strategy": Strategy.TOKEN_BUCKET}, "connection.quota.strategy"),
        ({"inter_broker_listener": BROKERS}, "inter.broker.listener.name"),
    ],
)
def test_what_cannot_change_while_running_is_refused(change: dict[str, object], key: str) -> None:
    quotas = quotas_of(QuotaSettings())
    with pytest.raises(InvalidLimitError, match=key):
        quotas.update(replace(quotas.settings, **change), NOW)  # type: ignore[arg-type]


def test_a_broker_rate_of_zero_is_refused_where_a_listener_would_inherit_it() -> None:
    quotas = quotas_of(QuotaSettings())
    with pytest.raises(InvalidLimitError, match=r"listener\.name\.clients\.max\.connection\.creation\.rate"):
        quotas.update(QuotaSettings(max_connection_creation_rate=0), NOW)
    quotas.update(
        QuotaSettings(max_connection_creation_rate=0, listener_max_connection_creation_rate={CLIENTS: 5}), NOW
    )
    assert quotas.on_accepted(CLIENTS, IPS[0], NOW).outcome is AcceptOutcome.WAIT_UNTIL


@pytest.mark.parametrize(
    "limits",
    [
        {"max_connections": 1},
        {"max_connection_creation_rate": 1},
        {"max_connections_per_ip": 0, "max_connections_per_ip_overrides": {"10.9.9.9": 1}},
        {"max_connection_creation_rate_per_ip": 1},
    ],
)
def test_no_limit_for_clients_reaches_the_listener_that_brokers_and_the_operator_use(limits: dict[str, Any]) -> None:
    settings = QuotaSettings(inter_broker_listener=BROKERS)
    quotas = quotas_of(settings, CLIENTS, BROKERS)
    quotas.on_accepted(CLIENTS, IPS[0], NOW)
    quotas.update(replace(settings, **limits), NOW)
    for _ in range(50):
        assert quotas.on_accepted(BROKERS, IPS[0], NOW).outcome is AcceptOutcome.ADMIT
    assert quotas.addresses.counts.count(IPS[0]) == 1
    for _ in range(50):
        quotas.on_closed(BROKERS, IPS[0], NOW)
    assert quotas.total == 1


def test_a_limit_of_its_own_holds_on_the_listener_between_brokers() -> None:
    settings = QuotaSettings(inter_broker_listener=BROKERS, listener_max_connections={BROKERS: 1})
    quotas = quotas_of(settings, CLIENTS, BROKERS)
    assert quotas.on_accepted(BROKERS, IPS[0], NOW).outcome is AcceptOutcome.ADMIT
    assert quotas.on_accepted(BROKERS, IPS[0], NOW).outcome is AcceptOutcome.WAIT_FOR_SLOT


def test_a_negative_limit_is_refused() -> None:
    quotas = quotas_of(QuotaSettings())
    with pytest.raises(InvalidLimitError, match=r"max\.connections\.per\.ip"):
        quotas.update(QuotaSettings(max_connections_per_ip=-1), NOW)
    with pytest.raises(InvalidLimitError, match=r"connection_creation_rate of 10\.0\.0\.1"):
        quotas.addresses.update_rate(IPS[0], -1, NOW)


@pytest.mark.parametrize("strategy", list(Strategy))
def test_a_flood_of_addresses_keeps_the_number_of_tracked_ones(strategy: Strategy) -> None:
    quotas = quotas_of(QuotaSettings(max_tracked_ips=50, strategy=strategy))
    quotas.addresses.update_rate(None, 1, NOW)
    for number in range(1_000):
        quotas.on_accepted(CLIENTS, f"10.1.{number // 250}.{number % 250}", NOW + number)
        quotas.on_accepted(CLIENTS, "10.0.0.1", NOW + number)
    assert len(quotas.addresses.rates) == 50
    # The busy address was never evicted: its burst is spent.
    assert quotas.on_accepted(CLIENTS, "10.0.0.1", NOW + 999).outcome is AcceptOutcome.REFUSE_DELAYED


def test_an_address_is_forgotten_after_an_hour() -> None:
    quotas = quotas_of(QuotaSettings())
    quotas.addresses.update_rate(None, 5, NOW)
    quotas.on_accepted(CLIENTS, IPS[0], NOW)
    quotas.on_accepted(CLIENTS, IPS[1], NOW + 1)
    quotas.addresses.rates.expire(NOW + 3_600_000)
    assert [ip for ip, _ in quotas.addresses.rates.recent()] == [IPS[1]]
    quotas.on_accepted(CLIENTS, IPS[2], NOW + 3_600_001)
    assert [ip for ip, _ in quotas.addresses.rates.recent()] == [IPS[2]]


class QuotaMachine(RuleBasedStateMachine):
    """Random limits, clients, closes and time against a plain list of open and waiting connections."""

    @initialize(
        strategy=st.sampled_from(list(Strategy)),
        action=st.sampled_from(list(IpAction)),
        window_num=st.integers(1, 4),
        brokers_limit=st.one_of(st.none(), st.integers(1, 6)),
    )
    def begin(self, strategy: Strategy, action: IpAction, window_num: int, brokers_limit: int | None) -> None:
        self.now_ms = NOW
        self.open: list[tuple[str, str]] = []
        self.held: dict[str, tuple[str, int]] = {}
        self.woken: set[str] = set()
        settings = QuotaSettings(
            strategy=strategy,
            ip_action=action,
            quota_window_num=window_num,
            inter_broker_listener=BROKERS,
            listener_max_connections={} if brokers_limit is None else {BROKERS: brokers_limit},
        )
        self.quotas = ConnectionQuotas(settings, self.now_ms, self.woken.add)
        for name in (CLIENTS, BROKERS):
            self.quotas.add_listener(name, self.now_ms)

    def sums(self) -> list[float]:
        meters = [self.quotas.rate_limit.meter, *(known.meter for known in self.quotas.listeners.values())]
        return [meter.measure(self.now_ms) for meter in meters]

    def settle(self, name: str, ip: str, decision_outcome: AcceptOutcome, at_ms: int) -> None:
        settings = self.quotas.settings
        if decision_outcome is AcceptOutcome.ADMIT:
            if name == CLIENTS:
                assert len(self.open) < settings.max_connections
            limit = settings.max_connections_of(name, protected=name == BROKERS)
            assert sum(1 for listener, _ in self.open if listener == name) < limit
            if name == CLIENTS:
                assert self.open.count((CLIENTS, ip)) < settings.max_connections_per_ip
            self.open.append((name, ip))
        elif decision_outcome in (AcceptOutcome.WAIT_UNTIL, AcceptOutcome.WAIT_FOR_SLOT):
            if decision_outcome is AcceptOutcome.WAIT_UNTIL:
                assert self.now_ms < at_ms <= self.now_ms + settings.window_ms
            self.held[name] = (ip, at_ms)
        elif decision_outcome is AcceptOutcome.REFUSE_DELAYED:
            assert self.now_ms < at_ms <= self.now_ms + settings.window_ms

    @rule(name=st.sampled_from([CLIENTS, BROKERS]), ip=st.sampled_from(IPS))
    def connect(self, name: str, ip: str) -> None:
        if name in self.held:
            return
        before = self.sums()
        decision = self.quotas.on_accepted(name, ip, self.now_ms)
        if decision.outcome in (AcceptOutcome.REFUSE_DELAYED, AcceptOutcome.REFUSE_DROPPED):
            assert self.sums() == before
        self.settle(name, ip, decision.outcome, decision.at_ms)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def ask_again(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.held)))
        ip, _ = self.held.pop(name)
        decision = self.quotas.on_wait_over(name, ip, self.now_ms)
        self.settle(name, ip, decision.outcome, decision.at_ms)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), ip=st.sampled_from(IPS))
    def hang_up_while_waiting(self, data: st.DataObject, ip: str) -> None:
        """Hang up; the next client, if there is one, takes over the wait."""
        name = data.draw(st.sampled_from(sorted(self.held)))
        _, at_ms = self.held[name]
        if data.draw(st.booleans()):
            self.held[name] = (ip, at_ms)
        else:
            del self.held[name]
            self.quotas.on_wait_abandoned(name, self.now_ms, by_client=True)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        name, ip = self.open.pop(data.draw(st.integers(0, len(self.open) - 1)))
        self.woken.clear()
        self.quotas.on_closed(name, ip, self.now_ms)
        # A waiting listener that has a free connection now is woken.
        for waiting in self.held:
            listener = self.quotas.listeners[waiting]
            room = listener.count < listener.max_connections
            if room and (listener.protected or self.quotas.total < self.quotas.settings.max_connections):
                assert waiting in self.woken

    @rule(pause_ms=st.integers(0, 2_500))
    def pass_time(self, pause_ms: int) -> None:
        self.now_ms += pause_ms

    @rule(
        max_connections=st.integers(1, 12) | st.just(UNLIMITED),
        rate=st.integers(1, 8) | st.just(UNLIMITED),
        per_ip=st.integers(0, 5) | st.just(UNLIMITED),
    )
    def change_limits(self, max_connections: int, rate: int, per_ip: int) -> None:
        changed = replace(
            self.quotas.settings,
            max_connections=max_connections,
            max_connection_creation_rate=rate,
            max_connections_per_ip=per_ip,
        )
        self.quotas.update(changed, self.now_ms)

    @rule(ip=st.sampled_from([None, *IPS]), rate=st.none() | st.integers(0, 5))
    def change_ip_rate(self, ip: str | None, rate: int | None) -> None:
        self.quotas.addresses.update_rate(ip, rate, self.now_ms)

    @invariant()
    def counts_are_those_of_the_open_connections(self) -> None:
        if not hasattr(self, "quotas"):
            return
        assert self.quotas.total == len(self.open)
        for name, listener in self.quotas.listeners.items():
            assert listener.count == sum(1 for owner, _ in self.open if owner == name)
        for ip in IPS:
            assert self.quotas.addresses.counts.count(ip) == self.open.count((CLIENTS, ip))
        assert {name for name, known in self.quotas.listeners.items() if known.waiting} == set(self.held)
        assert all(0 <= known.blocked.fraction(self.now_ms) <= 1 for known in self.quotas.listeners.values())


TestQuotaMachine = QuotaMachine.TestCase
TestQuotaMachine.settings = hypothesis_settings(max_examples=60, stateful_step_count=40, deadline=None)
