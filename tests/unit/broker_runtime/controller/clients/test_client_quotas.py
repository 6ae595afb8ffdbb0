"""Client quotas: Kafka's checks of entities, keys, values and filters."""

import math

import pytest

from broker_runtime.controller.clients.client_quotas import (
    EntityParts,
    QuotaChange,
    alter_quotas,
    hosts_to_resolve,
)
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.quotas import ClientQuotaRecord
from tests.support.worlds.controller import Metadata

RATE = "connection_creation_rate"
IP = "ip"


def metadata_with(*quotas: tuple[EntityParts, str, float]) -> Metadata:
    metadata = Metadata()
    for entity, key, value in quotas:
        metadata.write(*alter_quotas(entity, [QuotaChange(key, value)], metadata.image, ()))
    return metadata


def test_an_ip_quota_is_set_changed_and_removed() -> None:
    metadata = metadata_with(
        ([(IP, "10.0.0.1")], RATE, 100.0), ([(IP, "10.0.0.1")], RATE, 150.0), ([(IP, None)], RATE, 200.0)
    )
    assert metadata.image.quotas.ip_rate("10.0.0.1") == 150.0
    assert metadata.image.quotas.ip_rate(None) == 200.0
    for name in ("10.0.0.1", None):
        metadata.write(*alter_quotas([(IP, name)], [QuotaChange(RATE, None)], metadata.image, ()))
    assert metadata.image.quotas == {}


def test_a_change_without_effect_writes_no_record() -> None:
    metadata = metadata_with(([(IP, None)], RATE, 5.0))
    assert alter_quotas([(IP, None)], [QuotaChange(RATE, 5.0)], metadata.image, ()) == []
    assert alter_quotas([(IP, "::1")], [QuotaChange(RATE, None)], metadata.image, ()) == []


def test_a_type_named_twice_counts_as_named_last() -> None:
    metadata = metadata_with(([(IP, "1.1.1.1"), (IP, "1.1.1.2")], RATE, 5.0))
    assert list(metadata.image.quotas) == [((IP, "1.1.1.2"),)]


def test_a_host_name_that_resolves_is_stored_unchanged() -> None:
    image = Metadata().image
    assert hosts_to_resolve([[(IP, "shop")], [(IP, "::1")], [(IP, None)], [("user", "u")]]) == {"shop"}
    (record,) = alter_quotas([(IP, "shop")], [QuotaChange(RATE, 5.0)], image, {"shop"})
    assert record.entity == ((IP, "shop"),)


@pytest.mark.parametrize(
    ("entity", "key", "value", "message"),
    [
        ([], RATE, 1.0, "Invalid empty client quota entity"),
        ([("planet", "x")], RATE, 1.0, "Unhandled client quota entity type: planet"),
        ([(IP, "")], RATE, 1.0, "Empty ip not supported"),
        ([(IP, "::1"), ("user", "u")], RATE, 1.0, "Invalid quota entity combination"),
        ([(IP, "no host")], RATE, 1.0, "no host is not a valid IP or resolvable host."),
        ([(IP, "::1")], "producer_byte_rate", 1.0, "Invalid configuration key producer_byte_rate"),
        ([("user", "u")], RATE, 1.0, f"Invalid configuration key {RATE}"),
        ([(IP, "::1")], RATE, 0.0, f"Quota {RATE} must be greater than 0"),
        ([(IP, "::1")], RATE, -1.0, f"Quota {RATE} must be greater than 0"),
        ([(IP, "::1")], RATE, math.nan, f"Quota {RATE} must be greater than 0"),
        ([(IP, "::1")], RATE, 1.5, f"{RATE} cannot be a fractional value."),
        ([(IP, "::1")], RATE, 0.5, f"{RATE} cannot be a fractional value."),
        ([(IP, "::1")], RATE, 5e-324, f"Quota {RATE} must be at least 1, not 5e-324; remove the quota to"),
        ([(IP, None)], RATE, 1e-9, f"Quota {RATE} must be at least 1, not 1e-09"),
        ([("connection-group", "g")], RATE, 1e-9, f"Quota {RATE} must be at least 1"),
        ([("connection-group", "g")], "max_connections", 1e-9, "Quota max_connections must be at least 1"),
        ([("user", "u")], "producer_byte_rate", 1e-7, "Quota producer_byte_rate must be at least 1"),
        ([("user", "u")], "request_percentage", 5e-324, "Quota request_percentage must be at least 0.001"),
        ([("user", "u")], "controller_mutation_rate", 0.0009, "must be at least 0.001"),
        ([("user", "u")], "controller_mutation_rate", math.nan, "must be greater than 0"),
        ([(IP, "::1")], RATE, 2.0**31, f"Proposed value for {RATE} is too large for an INT."),
        ([(IP, "::1")], RATE, math.inf, f"Proposed value for {RATE} is too large for an INT."),
        ([("user", "u")], "consumer_byte_rate", 1e20, "too large for a LONG"),
        ([("user", "u")], "request_percentage", math.inf, "must be a finite number"),
    ],
)
def test_quotas_that_are_refused(entity: EntityParts, key: str, value: float, message: str) -> None:
    with pytest.raises(KafkaError) as refused:
        alter_quotas(entity, [QuotaChange(key, value)], Metadata().image, ())
    assert refused.value.code == ErrorCode.INVALID_REQUEST
    assert message in str(refused.value)


def test_a_rate_that_was_taken_before_there_was_a_minimum_can_be_removed_and_replaced() -> None:
    metadata = Metadata()
    metadata.write(ClientQuotaRecord(((IP, "::1"),), RATE, 5e-324))
    for value in (None, 5.0):
        (record,) = alter_quotas([(IP, "::1")], [QuotaChange(RATE, value)], metadata.image, ())
        assert record.value == value


def test_a_key_twice_is_refused() -> None:
    with pytest.raises(KafkaError, match="Duplicate quota key"):
        alter_quotas([(IP, None)], [QuotaChange(RATE, 1.0), QuotaChange(RATE, 2.0)], Metadata().image, ())


def test_taking_away_a_key_that_there_is_not_changes_nothing() -> None:
    assert alter_quotas([("ip", "10.0.0.1")], [QuotaChange("no_such_rate", None)], Metadata().image, ()) == []
