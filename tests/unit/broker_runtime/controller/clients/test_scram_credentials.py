"""Changes of SCRAM credentials are checked as in Apache Kafka (AlterUserScramCredentialsRequestTest)."""

from dataclasses import replace
from typing import Any

import pytest

from broker_runtime.controller.clients.scram_credentials import Deletion, Upsertion, alter_scram_credentials
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.scram_credentials import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.security.sasl.scram_keys import ScramHash
from broker_runtime.slicing.steps import at_once

SALT = b"salt"
USERS_MAX = 10_000


def upsertion(name: str, mechanism: int = 1, iterations: int = 4096) -> Upsertion:
    return Upsertion(name, mechanism, iterations, SALT, b"salted password")


def outcomes(image: MetadataImage, *changes: Deletion | Upsertion) -> dict[str, ErrorCode]:
    records, found = at_once(alter_scram_credentials(changes, image, USERS_MAX))
    for record in records:
        image.apply(record, image.next_offset)
    return {name: ErrorCode.NONE if error is None else error.code for name, error in found}


def test_credentials_are_set_and_removed() -> None:
    image = MetadataImage()
    assert outcomes(image, upsertion("alice"), upsertion("bob", 2, 16_384)) == {"alice": 0, "bob": 0}
    keys = ScramHash("SCRAM-SHA-256").keys(b"salted password", SALT, 4096)
    assert image.scram_credentials["alice"][1] == (keys.salt, keys.stored_key, keys.server_key, 4096)
    assert outcomes(image, upsertion("alice", 2)) == {"alice": 0}
    assert sorted(image.scram_credentials["alice"]) == [1, 2]
    assert outcomes(image, Deletion("alice", 1)) == {"alice": 0}
    assert outcomes(image, Deletion("alice", 2)) == {"alice": 0}
    assert list(image.scram_credentials) == ["bob"]


def test_refusals_change_nothing_and_others_succeed() -> None:
    image = MetadataImage()
    assert outcomes(
        image,
        Deletion("nobody", 1),
        Deletion("strange", 0),
        upsertion(""),
        upsertion("unknown", 3),
        upsertion("few", 1, 4095),
        upsertion("many", 1, 16_385),
        upsertion("twice", 1),
        upsertion("twice", 2),
        upsertion("good"),
    ) == {
        "good": ErrorCode.NONE,
        "nobody": ErrorCode.RESOURCE_NOT_FOUND,
        "strange": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        "": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "unknown": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        "few": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "many": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "twice": ErrorCode.DUPLICATE_RESOURCE,
    }
    assert list(image.scram_credentials) == ["good"]


def test_successes_come_first() -> None:
    changes = [upsertion("", 1), upsertion("good", 1)]
    _, found = at_once(alter_scram_credentials(changes, MetadataImage(), USERS_MAX))
    assert [name for name, _ in found] == ["good", ""]


def test_no_key_is_shown() -> None:
    record = UserScramCredentialRecord("alice", 1, SALT, b"stored-key", b"server-key", 4096)
    image = MetadataImage()
    image.apply(record, 0)
    assert "key" not in repr(record) + repr(upsertion("x")) + repr(dict(image.scram_credentials))
    image.apply(RemoveUserScramCredentialRecord("alice", 1), 1)
    image.apply(RemoveUserScramCredentialRecord("alice", 1), 2)
    assert not image.scram_credentials


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "n" * 1_025},
        {"salt": b"s" * 1_025},
        {"salted_password": b"p" * 1_025},
    ],
    ids=["name", "salt", "password"],
)
def test_what_every_node_would_keep_or_derive_for_long_is_refused(wrong: dict[str, Any]) -> None:
    image = MetadataImage()
    change = replace(upsertion("alice"), **wrong)
    assert outcomes(image, change) == {change.name: ErrorCode.UNACCEPTABLE_CREDENTIAL}
    assert not image.scram_credentials


def test_the_records_of_a_request_are_limited() -> None:
    changes = [upsertion(f"u{number}") for number in range(10_001)]
    with pytest.raises(KafkaError, match="at most 10000 records") as refused:
        at_once(alter_scram_credentials(changes, MetadataImage(), 100_000))
    assert refused.value.code == ErrorCode.POLICY_VIOLATION


def test_the_users_of_a_cluster_are_limited() -> None:
    image = MetadataImage()
    assert outcomes(image, upsertion("a"), upsertion("b")) == {"a": 0, "b": 0}
    with pytest.raises(KafkaError, match=r"sluicegate\.scram\.users\.max") as refused:
        at_once(alter_scram_credentials([upsertion("c")], image, 2))
    assert refused.value.code == ErrorCode.POLICY_VIOLATION
    allowed: list[list[Upsertion | Deletion]] = [
        [upsertion("a", 2)],
        [Deletion("a", 1)],
        [Deletion("a", 1), upsertion("b")],
    ]
    for changes in allowed:
        assert at_once(alter_scram_credentials(changes, image, 1))[0]
