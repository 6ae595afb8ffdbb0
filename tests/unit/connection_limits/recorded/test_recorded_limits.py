"""Limits as rows: a limiter that receives a report, and the changes after it, has the limits of the first one."""

from hypothesis import given
from hypothesis import strategies as st

from connection_limits.groups.connection_group import NO_LIMITS, AddressGroupLimits
from connection_limits.quotas import ConnectionQuotas
from connection_limits.recorded.applied import AppliedLimits
from connection_limits.recorded.changes import (
    changed_group,
    changed_ip_rate,
    changed_listener,
    changed_member,
    members_in,
    moved_rate,
)
from connection_limits.recorded.report import MEMBERS_PER_ROW, AllLimits
from connection_limits.recorded.rows import MEMBER, LimitEvent, LimitRow, RateKind
from connection_limits.recorded.settings_rows import changed_settings, settings_of, values_of
from connection_limits.settings import UNLIMITED, IpAction, Objective, QuotaSettings, Strategy

LIMITS = st.one_of(st.just(UNLIMITED), st.integers(1, 10_000))
NAMES = st.sampled_from(["EXTERNAL", "Internal", "OTHERS"])
OBJECTIVES = st.builds(Objective, st.integers(1, 500), st.integers(1, 50))
SETTINGS = st.builds(
    QuotaSettings,
    max_connections=LIMITS,
    max_connection_creation_rate=LIMITS,
    listener_max_connections=st.dictionaries(NAMES, st.integers(1, 100)),
    listener_max_connection_creation_rate=st.dictionaries(NAMES, st.integers(1, 100)),
    objective=st.none() | OBJECTIVES,
    listener_objectives=st.dictionaries(NAMES, OBJECTIVES),
    max_connections_per_ip=LIMITS,
    max_connections_per_ip_overrides=st.dictionaries(st.sampled_from(["10.0.0.1", "2001:db8::1"]), st.integers(0, 9)),
    max_connection_creation_rate_per_ip=LIMITS,
    inter_broker_listener=st.sampled_from(["", "Internal"]),
    quota_window_num=st.integers(2, 20),
    quota_window_size_s=st.integers(1, 5),
    strategy=st.sampled_from(Strategy),
    ip_action=st.sampled_from(IpAction),
    max_tracked_ips=st.integers(1, 100_000),
    count_abandoned=st.booleans(),
    cluster_wide=st.booleans(),
    cluster_wide_listeners=st.frozensets(NAMES),
)


@given(SETTINGS)
def test_settings_are_the_same_after_they_were_rows(settings: QuotaSettings) -> None:
    assert settings_of(values_of(settings)) == settings


@given(SETTINGS, SETTINGS)
def test_a_change_of_settings_is_as_good_as_the_settings(before: QuotaSettings, after: QuotaSettings) -> None:
    applied = AppliedLimits()
    applied.read_settings(changed_settings(QuotaSettings(quota_window_num=0, quota_window_size_s=0), before))
    applied.read_settings(changed_settings(before, after))
    assert applied.settings == after
    assert changed_settings(after, after) == []


def reported(quotas: ConnectionQuotas) -> ConnectionQuotas:
    """Return a new limiter with the limits of a report."""
    rows = list(AllLimits(quotas))
    assert len(rows) == len(AllLimits(quotas))
    applied = AppliedLimits()
    applied.read_settings(rows)
    settings = QuotaSettings(
        strategy=applied.settings.strategy, inter_broker_listener=applied.settings.inter_broker_listener
    )
    found = ConnectionQuotas(settings, 0)
    applied.apply(rows, found, 0)
    return found


def test_a_report_has_every_kind_of_limit() -> None:
    quotas = ConnectionQuotas(QuotaSettings(inter_broker_listener="INTERNAL"), 0)
    for name in ("EXTERNAL", "INTERNAL"):
        quotas.add_listener(name, 0)
    quotas.update(
        QuotaSettings(inter_broker_listener="INTERNAL", max_connection_creation_rate=100, objective=Objective(20, 5)),
        0,
    )
    quotas.rate_limit.move_to(37, 0)
    quotas.addresses.update_rate(None, 9, 0)
    quotas.addresses.update_rate("10.0.0.1", 3, 0)
    limits = AddressGroupLimits(rate=4, shared=True, observe=True)
    quotas.addresses.groups.set_limits("shop/range", limits, 0)
    quotas.addresses.groups.add_member("shop/range", "10.0.0.0/24", 0, 1.0)
    quotas.addresses.groups.add_member("shop/range", "2001:db8::1", 0, 2.5)
    quotas.addresses.groups.add_member("later", "10.1.0.1", 0, 7.0)
    found = reported(quotas)
    assert found.settings == quotas.settings
    assert found.rate_limit.meter.limit == 37
    assert found.listeners["INTERNAL"].protected
    assert found.addresses.rates.overrides == {"10.0.0.1": 3}
    assert found.addresses.rates.limit() == 9
    group = found.addresses.groups.by_name["shop/range"]
    assert group.limits == limits
    assert {(one.member, one.number) for one in group.members.values()} == {("10.0.0.0/24", 1.0), ("2001:db8::1", 2.5)}
    assert list(found.addresses.groups.by_name["later"].members) == ["10.1.0.1"]


def test_a_hundred_thousand_members_are_a_thousand_rows_of_bounded_size() -> None:
    quotas = ConnectionQuotas(QuotaSettings(), 0)
    for number in range(100_000):
        quotas.addresses.groups.add_member("shop/pods", f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", 0, 1.0)
    report = AllLimits(quotas)
    rows = [row for row in report if row.key == MEMBER]
    assert len(rows) == 100_000 // MEMBERS_PER_ROW
    assert max(len(row.text or "") for row in rows) < 20 * MEMBERS_PER_ROW
    assert sum(row.value or 0 for row in rows) == 100_000


def test_changes_are_carried_out() -> None:
    quotas, applied = ConnectionQuotas(QuotaSettings(), 0), AppliedLimits()

    def change(*rows: LimitRow) -> None:
        applied.apply(rows, quotas, 1)

    change(*changed_listener("EXTERNAL", is_open=True))
    change(*changed_ip_rate("10.0.0.1", 5))
    change(*changed_group("shop/one", AddressGroupLimits(max_connections=3)))
    change(*changed_member("shop/one", "10.0.0.9", 4.0))
    change(moved_rate("EXTERNAL", 12, RateKind.ADAPTIVE))
    assert list(quotas.listeners) == ["EXTERNAL"]
    assert quotas.listeners["EXTERNAL"].meter.limit == 12
    assert quotas.addresses.rates.limit("10.0.0.1") == 5
    assert quotas.addresses.groups.by_name["shop/one"].limits.max_connections == 3
    change(*changed_ip_rate("10.0.0.1", None))
    change(*changed_group("shop/one", NO_LIMITS))
    change(*changed_member("shop/one", "10.0.0.9", None))
    change(*changed_listener("EXTERNAL", is_open=False))
    assert quotas.listeners == {}
    assert quotas.addresses.rates.limit("10.0.0.1") == UNLIMITED
    assert quotas.addresses.groups.by_name == {}


def test_the_text_of_members_has_their_holders() -> None:
    (row,) = changed_member("shop/one", "2001:db8::/32", 2.5)
    assert (row.event, row.quota, row.value, row.text) == (LimitEvent.SET, "shop/one", 1, "2001:db8::/32=2.5")
    assert list(members_in("10.0.0.1=17 10.0.0.2")) == [("10.0.0.1", 17.0), ("10.0.0.2", None)]
