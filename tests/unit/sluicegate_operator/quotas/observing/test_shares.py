"""The shares of brokers in a status: read from brokers, kept while they change little, and reported in Events."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sluicegate_operator.api.models.parts.broker_shares import SHARES_MAX, BrokerShares
from sluicegate_operator.quotas.observing.holding import reading
from sluicegate_operator.quotas.observing.shares import ReportedShare, reserve_words, shares, shares_of_groups

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(seconds=30)
CLUSTER = {"rate": 400, "share": 133.25, "demand": 210.5, "brokers": 3, "age_s": 0.4, "state": "granted"}
SHARE = ReportedShare(400, 133.25, 210.5, 0.4, "granted")


def share(value: float, demand: float = 50.0, state: str = "granted") -> ReportedShare:
    return ReportedShare(400, value, demand, 0.5, state)


def status(*values: float, old: BrokerShares | None = None, now: datetime = NOW) -> BrokerShares:
    found = shares(dict(enumerate(map(share, values))), range(len(values)), old, now)
    assert found is not None
    return found


def of_states(*states: str) -> BrokerShares:
    """Shares of 10 with these states; an empty one is not reported."""
    reported = {number: share(10, state=state) for number, state in enumerate(states) if state}
    found = shares(reported, range(len(states)), None, NOW)
    assert found is not None
    return found


def test_the_shares_of_brokers_are_read_from_their_answers() -> None:
    nothing: dict[str, Any] = {"held": {"rate": 0, "connections": 0}, "blocked_share": 0.0}
    found = reading(
        {
            "broker": nothing | {"cluster": None},
            # A broker of an earlier release does not have the field.
            "listeners": {"EXTERNAL": nothing | {"cluster": CLUSTER}, "OTHER": nothing},
            "default_ip": nothing,
            "ips": {},
            "groups": {},
            "left_out": 0,
        },
        at_s=1.0,
    )
    assert found.shares == {("listeners", "EXTERNAL"): SHARE}
    groups = {"shop/a": {"cluster": CLUSTER | {"age_s": None}}, "shop/b": {"cluster": None}, "shop/c": {}}
    assert shares_of_groups({"groups": groups}) == {"shop/a": ReportedShare(400, 133.25, 210.5, None, "granted")}


@pytest.mark.parametrize("page", [{}, {"groups": []}, {"groups": {"a": {"cluster": {"rate": 1}}}}])
def test_another_document_is_an_error(page: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="the broker's response has no shares of groups"):
        shares_of_groups(page)


def test_a_status_has_the_share_the_demand_and_the_state_of_each_broker() -> None:
    found = shares({1: SHARE, 0: share(0.0, 0.0, "waiting")}, [1, 0, 2], None, NOW)
    assert found is not None
    assert [(one.broker_id, one.share, one.demand, one.state, one.since) for one in found.brokers] == [
        (0, 0.0, 0.0, "Waiting", NOW),
        (1, 133.0, 210.0, "Granted", NOW),
        (2, None, None, "NotReported", NOW),
    ]
    assert found.summary == "0 to 133/s"
    assert status(33.3).summary == "33.3/s"
    assert status(1_234_567.0, 2).summary == "2 to 1230000/s"
    assert of_states("reserve", "granted").summary == "10/s, 1 on reserve"
    assert of_states("").summary == ""
    assert shares({}, (), None, NOW) is None


def test_a_small_change_is_not_written() -> None:
    old = status(120, 280)
    assert status(170, 230, old=old, now=LATER) is old


def test_after_a_large_change_all_values_are_of_one_moment() -> None:
    found = status(190, 210, old=status(120, 280), now=LATER)
    assert [one.share for one in found.brokers] == [190, 210]
    assert [one.since for one in found.brokers] == [NOW, NOW], "no state has changed"


def test_a_change_of_demand_is_written_unless_both_are_small() -> None:
    def demands(value: float, old: BrokerShares | None) -> BrokerShares | None:
        return shares({0: share(10, value)}, [0], old, LATER)

    little = demands(0.2, None)
    assert demands(0.9, little) is little
    assert demands(1.1, little) is not little
    some = demands(100.0, None)
    assert demands(149.0, some) is some
    assert demands(151.0, some) is not some


def test_a_change_of_the_state_or_of_the_brokers_is_written() -> None:
    old = status(100, 100)
    for reported, brokers in (
        ({0: share(100), 1: share(100, state="reserve")}, (0, 1)),
        ({0: share(100)}, (0, 1)),
        ({0: share(100)}, (0,)),
        ({0: share(100), 1: share(100), 2: share(100)}, (0, 1, 2)),
    ):
        found = shares(reported, brokers, old, LATER)
        assert found is not None
        assert found != old
        known = {(one.broker_id, one.state) for one in old.brokers}
        for one in found.brokers:
            assert one.since == (NOW if (one.broker_id, one.state) in known else LATER)


def test_the_status_of_a_large_cluster_is_bounded() -> None:
    assert len(status(*[1.0] * (2 * SHARES_MAX)).brokers) == SHARES_MAX


def test_events_name_the_brokers_that_fall_to_their_reserve_and_those_that_leave_it() -> None:
    fine, fallen = of_states("granted", "granted", ""), of_states("granted", "reserve", "")
    assert reserve_words(fine, fallen) == ("broker 1 (10/s)", "")
    assert reserve_words(fallen, fine) == ("", "broker 1")
    assert reserve_words(fallen, fallen) == ("", "")
    assert reserve_words(fallen, of_states("granted", "", "")) == ("", ""), "a broker that is silent has no share"
    assert reserve_words(None, fine) == reserve_words(fine, None) == ("", "")
    many, _ = reserve_words(None, of_states(*["reserve"] * 9))
    assert many.count("broker") == 5
    assert many.endswith(", ...")
