"""The rows of shares of rates of the cluster, applied to another limiter."""

from connection_limits.cluster.reports import Answer, Grant, Verdict
from connection_limits.cluster.shares import Shares
from connection_limits.cluster_rates import ClusterRates
from connection_limits.keys import MAX_CONNECTION_CREATION_RATE
from connection_limits.quotas import ConnectionQuotas
from connection_limits.recorded.applied import AppliedLimits
from connection_limits.recorded.changes import moved_share
from connection_limits.recorded.rows import LimitEvent, LimitRow, RateKind
from connection_limits.settings import QuotaSettings

SETTINGS = QuotaSettings(max_connection_creation_rate=100, cluster_wide=True)
LEASE_MS, BROKERS = 1_000, 4
CONNECTED_MS, NOTICED_MS = 1_500, 1_550


def test_the_end_of_a_lease_has_a_row_with_its_own_time() -> None:
    quotas = ConnectionQuotas(SETTINGS, 0)
    shares = Shares(200, LEASE_MS, 0)
    rates = ClusterRates(quotas, shares, 0)
    shares.note_serving(True, 0)
    rates.update({}, 0)
    report = shares.begin_report(1, 1, 0)
    shares.answered(report, Answer(Verdict.GRANTED, 1, LEASE_MS, BROKERS, False, [Grant("broker", 100_000, 80_000)]), 0)
    rates.apply(0)
    meter = quotas.rate_limit.share
    assert meter is not None
    for _ in range(30):
        meter.record(CONNECTED_MS)
    rates.update({}, NOTICED_MS)
    moved = rates.take_moved()
    assert [(one.share, one.ended_ms) for one in moved] == [(80_000, None), (25_000, LEASE_MS)]

    replayed = ConnectionQuotas(SETTINGS, 0)
    for one, at_ms in zip(moved, (0, LEASE_MS), strict=True):
        AppliedLimits().apply([moved_share(one)], replayed, at_ms)
    other = replayed.rate_limit.share
    assert other is not None
    for _ in range(30):
        other.record(CONNECTED_MS)
    assert other.delay_ms(NOTICED_MS) == meter.delay_ms(NOTICED_MS) > 0
    AppliedLimits().apply([moved_share(moved[0])], replayed, NOTICED_MS)
    assert other.delay_ms(NOTICED_MS) != meter.delay_ms(NOTICED_MS)


def test_a_row_that_changes_only_the_number_of_brokers_changes_no_wait() -> None:
    replayed = ConnectionQuotas(SETTINGS, 0)
    replayed.add_listener("EXTERNAL", 0)
    decision = replayed.on_accepted("EXTERNAL", "10.0.0.1", 0)
    row = LimitRow(LimitEvent.SET, RateKind.SHARE, MAX_CONNECTION_CREATION_RATE, None, None, None, 0, "3")
    AppliedLimits().apply([row], replayed, 34)
    assert replayed.listeners["EXTERNAL"].waiting is not None
    assert replayed.listeners["EXTERNAL"].waiting.deadline_ms == decision.at_ms == 1_000
    AppliedLimits().apply([row._replace(value=100_000)], replayed, 40)
    assert replayed.listeners["EXTERNAL"].waiting.deadline_ms < 100
