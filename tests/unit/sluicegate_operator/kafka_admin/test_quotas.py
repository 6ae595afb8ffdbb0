"""The number of limits in one request, and the limits that are never changed separately."""

from sluicegate_operator.kafka_admin.quotas import ALTERED_A_REQUEST, requests
from sluicegate_operator.planning.limits.connection_groups import group_limits, membership
from sluicegate_operator.planning.limits.limits import QuotaKey, ip_rates


def test_no_request_is_longer_than_a_controller_may_be_held_up_by_it() -> None:
    values: dict[QuotaKey, float | None] = dict(ip_rates({f"10.0.{n // 250}.{n % 250}": 5.0 for n in range(950)}))
    pages = list(requests(values))
    assert [len(page) for page in pages] == [ALTERED_A_REQUEST] * 9 + [50]
    assert {key: value for page in pages for key, value in page.items()} == values
    assert list(requests({})) == []


def test_a_group_is_never_changed_by_halves() -> None:
    values: dict[QuotaKey, float | None] = {}
    for number in range(90):
        name = f"default/q{number}"
        values |= group_limits(name, 5, 9, shared=number % 2 == 0, observe=True) | membership(
            name, {"10.0.0.0/8": 2.0**40}
        )
    pages = list(requests(values))
    assert sum(map(len, pages)) == len(values)
    assert max(map(len, pages)) <= ALTERED_A_REQUEST
    entities = [entity for page in pages for entity in {key[0] for key in page}]
    assert len(entities) == len(set(entities))
