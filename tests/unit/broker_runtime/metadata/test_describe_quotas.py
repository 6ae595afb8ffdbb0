"""Describing client quotas: Kafka's filters."""

import pytest

from broker_runtime.controller.clients.client_quotas import EntityParts, QuotaChange, alter_quotas
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.quotas import CONNECTION_GROUP, MEMBER_KEY, ClientQuotaRecord
from broker_runtime.metadata.describe_quotas import Component, Match, describe_quotas
from broker_runtime.slicing.steps import Steps, at_once, let_go
from tests.support.requests.step_sizes import objects_of_a_step
from tests.support.worlds.controller import Metadata

RATE = "connection_creation_rate"
IP = "ip"
ENTITIES = 4_000
USER = [("user", "u")]
USER_AND_CLIENT: EntityParts = [("user", "u"), ("client-id", None)]


def metadata_with(*quotas: tuple[EntityParts, str, float]) -> Metadata:
    metadata = Metadata()
    for entity, key, value in quotas:
        metadata.write(*alter_quotas(entity, [QuotaChange(key, value)], metadata.image, ()))
    return metadata


@pytest.mark.parametrize(
    ("components", "strict", "found"),
    [
        ([], False, 5),
        ([], True, 0),
        ([(IP, Match.SPECIFIED, None)], False, 3),
        ([(IP, Match.DEFAULT, None)], False, 1),
        ([(IP, Match.EXACT, "::1")], True, 1),
        ([(IP, Match.EXACT, "::2")], False, 0),
        ([("user", Match.SPECIFIED, None)], False, 2),
        ([("user", Match.SPECIFIED, None)], True, 1),
        ([("user", Match.EXACT, "u"), ("client-id", Match.DEFAULT, None)], True, 1),
        ([("client-id", Match.EXACT, "c")], False, 0),
    ],
)
def test_what_a_filter_finds(components: list[tuple[str, int, str | None]], strict: bool, found: int) -> None:
    metadata = metadata_with(
        ([(IP, None)], RATE, 1.0),
        ([(IP, "::1")], RATE, 2.0),
        ([(IP, "10.0.0.1")], RATE, 3.0),
        (USER, "producer_byte_rate", 4.0),
        (USER_AND_CLIENT, "producer_byte_rate", 5.0),
    )
    assert len(list(at_once(describe_quotas([Component(*c) for c in components], strict, metadata.image)))) == found


@pytest.mark.parametrize(
    ("components", "code", "message"),
    [
        ([("", 2, None)], ErrorCode.INVALID_REQUEST, "Invalid empty entity type."),
        ([(IP, 2, None), (IP, 1, None)], ErrorCode.INVALID_REQUEST, "cannot appear more than once"),
        ([("planet", 2, None)], ErrorCode.UNSUPPORTED_VERSION, "planet"),
        ([(IP, 0, None)], ErrorCode.INVALID_REQUEST, "MATCH_TYPE_EXACT, but set match string to null."),
        ([(IP, 1, "x")], ErrorCode.INVALID_REQUEST, "MATCH_TYPE_DEFAULT, but also specified"),
        ([(IP, 2, "x")], ErrorCode.INVALID_REQUEST, "MATCH_TYPE_SPECIFIED, but also specified"),
        ([(IP, 9, None)], ErrorCode.INVALID_REQUEST, "Unknown match type 9"),
        ([(IP, 2, None), ("user", 2, None)], ErrorCode.INVALID_REQUEST, "should not be used with user"),
    ],
)
def test_filters_that_are_refused(components: list[tuple[str, int, str | None]], code: ErrorCode, message: str) -> None:
    with pytest.raises(KafkaError) as refused:
        at_once(describe_quotas([Component(*c) for c in components], False, Metadata().image))
    assert refused.value.code == code
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "components",
    [[], [(IP, Match.SPECIFIED, None)], [(CONNECTION_GROUP, Match.SPECIFIED, None)]],
    ids=["all quotas", "those of addresses", "members of a group"],
)
def test_no_step_makes_many_objects_or_frees_many(components: list[tuple[str, int, str | None]]) -> None:
    """Making or freeing an object for each quota in one step would block the event loop for milliseconds."""
    metadata = Metadata()
    group = metadata.image.connection_groups
    for number in range(ENTITIES):
        address = f"10.0.{number // 256}.{number % 256}"
        of_group = ((CONNECTION_GROUP, "g"), (IP, address))
        for record in (ClientQuotaRecord(((IP, address),), RATE, 1.0), ClientQuotaRecord(of_group, MEMBER_KEY, 1.0)):
            metadata.image.apply(record, metadata.image.next_offset)
    assert len(group["g"].members) == ENTITIES

    def answer() -> Steps[None]:
        found = yield from describe_quotas([Component(*c) for c in components], False, metadata.image)
        assert len(found) == ENTITIES
        yield from let_go(found)

    # A page of `in_order` has 500 entities, each with some objects as its key.
    assert objects_of_a_step(answer()) < ENTITIES / 2
