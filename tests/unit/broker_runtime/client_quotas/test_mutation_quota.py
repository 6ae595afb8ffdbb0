"""The quota of created and deleted partitions in virtual time: Kafka's vectors."""

import pytest

from broker_runtime.client_quotas.ladder import Entity
from broker_runtime.client_quotas.managed_quota import Windows
from broker_runtime.client_quotas.mutation_quota import MutationQuota
from broker_runtime.errors import ErrorCode, KafkaError

USER: Entity = (("user", "u"),)
CALLER = ("u", "c")


def quota(per_second: float = 2, num: int = 10, buckets_max: int = 10) -> MutationQuota:
    return MutationQuota(Windows(num, 1000, buckets_max), lambda: {USER: {"controller_mutation_rate": per_second}})


def test_a_strict_charge_refuses_while_there_are_no_tokens() -> None:
    limited = quota()
    charge = limited.charge(CALLER, strict=True)
    charge.record(30, 0)
    with pytest.raises(KafkaError) as refused:
        charge.record(30, 0)
    assert refused.value.code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert charge.throttle_ms(0) == 5000
    # The time since the refusal does not have to be waited again.
    assert charge.throttle_ms(1500) == 3500
    later = limited.charge(CALLER, strict=True)
    later.record(30, 5000)
    assert later.throttle_ms(5000) == 0


def test_a_permissive_charge_refuses_nothing() -> None:
    charge = quota().charge(CALLER, strict=False)
    charge.record(30, 0)
    charge.record(30, 0)
    assert charge.throttle_ms(0) == 20_000


def test_eleven_seconds_of_tokens_are_saved_by_default() -> None:
    limited = quota(num=11)
    charge = limited.charge(CALLER, strict=True)
    charge.record(22, 0)
    charge.record(1, 0)
    with pytest.raises(KafkaError):
        charge.record(1, 0)
    # A day later there are no more tokens than at first.
    charge = limited.charge(CALLER, strict=False)
    charge.record(23, 86_400_000)
    assert charge.throttle_ms(86_400_000) == 500


def test_a_user_without_a_quota_is_not_charged() -> None:
    limited = quota()
    charge = limited.charge(("other", "c"), strict=True)
    for _ in range(3):
        charge.record(1_000_000, 0)
    assert charge.throttle_ms(0) == 0
    assert len(limited.buckets) == 0


def test_callers_of_one_user_share_its_tokens() -> None:
    limited = quota()
    limited.charge(("u", "a"), strict=True).record(30, 0)
    with pytest.raises(KafkaError):
        limited.charge(("u", "b"), strict=True).record(1, 0)
    assert limited.figures.throttled_total == 0


def test_a_full_bucket_gives_its_place_to_another_caller() -> None:
    entities: dict[Entity, dict[str, float]] = {(("user", None),): {"controller_mutation_rate": 2.0}}
    limited = MutationQuota(Windows(10, 1000, 1), lambda: entities)
    limited.charge(("a", ""), strict=False).record(10, 0)
    shared = limited.charge(("b", ""), strict=False)
    shared.record(10, 0)
    assert limited.figures.shared_total == 1
    # Five seconds refill ten tokens.
    limited.charge(("b", ""), strict=False).record(1, 5001)
    assert (limited.buckets.get(("a", "")), len(limited.buckets)) == (None, 1)
    assert limited.figures.shared_total == 1
