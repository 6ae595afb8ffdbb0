"""A rate of the cluster is divided by demand: nothing is left over, nobody is starved, nobody gets another's part."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connection_limits.cluster.division import divide, floor_of

DEMANDS = st.lists(st.integers(0, 2_000_000), min_size=1, max_size=100)
RATES = st.integers(0, 2_000_000_000)


@given(RATES, DEMANDS)
def test_the_shares_are_the_whole_rate(rate: int, demands: list[int]) -> None:
    shares = divide(rate, demands, floor_of(rate, len(demands)))
    assert sum(shares) == rate
    assert min(shares) >= floor_of(rate, len(demands))


@given(RATES, DEMANDS)
def test_no_broker_gets_more_than_it_needs_while_another_lacks_it(rate: int, demands: list[int]) -> None:
    floor = floor_of(rate, len(demands))
    wanted = [max(demand, floor) for demand in demands]
    shares = divide(rate, demands, floor)
    lacking = [share for share, want in zip(shares, wanted, strict=True) if share < want]
    if lacking:
        assert all(share <= want for share, want in zip(shares, wanted, strict=True))
        # Max-min fairness: whoever lacks something has as much as any other, but for the remainder of a division.
        assert max(shares) <= min(lacking) + 1


@given(RATES, DEMANDS)
def test_the_surplus_is_divided_equally(rate: int, demands: list[int]) -> None:
    floor = floor_of(rate, len(demands))
    wanted = [max(demand, floor) for demand in demands]
    if sum(wanted) <= rate:
        more = [share - want for share, want in zip(divide(rate, demands, floor), wanted, strict=True)]
        assert max(more) - min(more) <= 1


@given(RATES, DEMANDS, st.data())
def test_the_order_of_brokers_changes_shares_by_a_remainder_only(
    rate: int, demands: list[int], data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(demands))))
    floor = floor_of(rate, len(demands))
    straight, turned = divide(rate, demands, floor), divide(rate, [demands[one] for one in order], floor)
    assert all(abs(straight[one] - share) <= 1 for one, share in zip(order, turned, strict=True))


@pytest.mark.parametrize(
    ("demands", "shares"),
    [
        ([], []),
        ([0], [1_000]),
        ([0, 0], [500, 500]),
        ([100, 2_000], [100, 900]),
        ([100, 300, 2_000], [100, 300, 600]),
        ([2_000, 2_000, 100], [450, 450, 100]),
        ([0, 2_000], [10, 990]),
        ([100, 200], [450, 550]),
    ],
)
def test_a_rate_is_divided_by_demand(demands: list[int], shares: list[int]) -> None:
    assert divide(1_000, demands, 10) == shares
