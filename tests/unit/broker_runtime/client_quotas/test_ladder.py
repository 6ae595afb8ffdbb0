"""The quota of a caller, checked against a slow oracle in two stages as Apache Kafka computes it."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.client_quotas.ladder import Caller, Entity, Limit, limit_of

KEY, OTHER_KEY = "producer_byte_rate", "consumer_byte_rate"
NAMES = ("a", "b", None)
Quotas = Mapping[Entity, Mapping[str, float]]


def entity(user: str | bool | None = False, client_id: str | bool | None = False) -> Entity:
    """Return an entity; False leaves a type out, and None is its default."""
    parts = {"client-id": client_id, "user": user}
    return tuple((kind, name) for kind, name in parts.items() if not isinstance(name, bool))


ENTITIES = [
    *(entity(user=name) for name in NAMES),
    *(entity(client_id=name) for name in NAMES),
    *(entity(user, client_id) for user in NAMES for client_id in NAMES),
]


def tags(caller: Caller, quotas: Quotas) -> tuple[str, str]:
    """Return the tags of the metric in which Kafka records a caller: first by kinds of quotas, then by the ladder."""
    user, client_id = caller
    has = {each for each, keys in quotas.items() if KEY in keys}
    kinds = {tuple(kind for kind, _ in each) for each in has}
    if kinds == {("client-id",)}:
        return "", client_id
    if kinds == {("user",)}:
        return user, ""
    if kinds == {("client-id", "user")}:
        return user, client_id
    if entity(user, client_id) in has or entity(user, None) in has:
        return user, client_id
    if entity(user) in has:
        return user, ""
    if entity(None, client_id) in has or entity(None, None) in has:
        return user, client_id
    if entity(None) in has:
        return user, ""
    return "", client_id


def quota_of(found: tuple[str, str], quotas: Quotas) -> float | None:
    """Return the quota that Kafka finds for the tags of a metric."""
    user, client_id = found
    if user and client_id:
        tried = [entity(user, client_id), entity(user, None), entity(None, client_id), entity(None, None)]
    elif user:
        tried = [entity(user), entity(None)]
    elif client_id:
        tried = [entity(client_id=client_id), entity(client_id=None)]
    else:
        tried = []
    return next((quotas[each][KEY] for each in tried if KEY in quotas.get(each, {})), None)


def expected(caller: Caller, quotas: Quotas) -> Limit | None:
    if not any(KEY in keys for keys in quotas.values()):
        return None
    found = tags(caller, quotas)
    value = quota_of(found, quotas)
    return None if value is None else Limit(found, value)


@given(
    st.dictionaries(
        st.sampled_from(ENTITIES),
        st.dictionaries(st.sampled_from([KEY, OTHER_KEY]), st.sampled_from([1.0, 2.0, 3.0, 4.0]), min_size=1),
    ),
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from(["a", "b", "c", ""]),
)
def test_the_limit_is_that_of_kafka(quotas: Quotas, user: str, client_id: str) -> None:
    found = limit_of((user, client_id), KEY, quotas)
    wanted = expected((user, client_id), quotas)
    assert found == wanted


LEVELS = [
    (entity("u", "c"), ("u", "c")),
    (entity("u", None), ("u", "c")),
    (entity("u"), ("u", "")),
    (entity(None, "c"), ("u", "c")),
    (entity(None, None), ("u", "c")),
    (entity(None), ("u", "")),
    (entity(client_id="c"), ("", "c")),
    (entity(client_id=None), ("", "c")),
]


@pytest.mark.parametrize("level", range(8))
def test_the_most_specific_level_applies_alone(level: int) -> None:
    quotas = {each: {KEY: float(number)} for number, (each, _) in enumerate(LEVELS) if number >= level}
    assert limit_of(("u", "c"), KEY, quotas) == Limit(LEVELS[level][1], level)


def test_a_caller_without_a_client_id_has_only_the_quotas_of_users() -> None:
    quotas = {each: {KEY: float(number)} for number, (each, _) in enumerate(LEVELS)}
    assert limit_of(("u", ""), KEY, quotas) == Limit(("u", ""), 2)
    del quotas[entity("u")]
    assert limit_of(("u", ""), KEY, quotas) == Limit(("u", ""), 5)
    del quotas[entity(None)]
    assert limit_of(("u", ""), KEY, quotas) is None
