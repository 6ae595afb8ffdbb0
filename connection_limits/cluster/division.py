"""Divide one rate of the cluster among brokers: max-min fairness by demand, and the surplus equally. Pure."""

from collections.abc import Sequence

FLOOR_PARTS = 40
"""The floors of all brokers together are the rate divided by this."""


def floor_of(rate: int, brokers: int) -> int:
    """Return the smallest share of a broker: clients of a broker without demand so far get their first connections."""
    return rate // (FLOOR_PARTS * max(brokers, 1))


def divide(rate: int, demands: Sequence[int], floor: int) -> list[int]:
    """Return a share for each of `demands`, in their order; the shares sum up to `rate`.

    No broker gets more than its demand while another one gets less than its demand, except that each gets `floor`,
    which must fit: `floor * len(demands) <= rate`. What exceeds all demands is divided equally.
    """
    count = len(demands)
    wanted = [max(demand, floor) for demand in demands]
    shares = [0] * count
    left = rate
    for position, index in enumerate(sorted(range(count), key=wanted.__getitem__)):
        shares[index] = min(wanted[index], left // (count - position))
        left -= shares[index]
    if not count:
        return shares
    each, odd = divmod(left, count)
    return [share + each + (index < odd) for index, share in enumerate(shares)]
