"""Changes of SCRAM credentials are checked as in Apache Kafka (AlterUserScramCredentialsRequestTest)."""

from broker_runtime.controller.scram_credentials import Deletion, Upsertion, alter_scram_credentials
from broker_runtime.errors import ErrorCode
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.scram_credentials import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from broker_runtime.security.sasl.scram_keys import ScramHash
from broker_runtime.slicing.steps import at_once

SALT = b"salt"


def upsertion(name: str, mechanism: int = 1, iterations: int = 4096) -> Upsertion:
    return Upsertion(name, mechanism, iterations, SALT, b"salted password")


def outcomes(image: MetadataImage, *changes: Deletion | Upsertion) -> dict[str, ErrorCode]:
    records, found = at_once(alter_scram_credentials(changes, image))
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
    _, found = at_once(alter_scram_credentials(changes, MetadataImage()))
    assert [name for name, _ in found] == ["good", ""]


def test_no_key_is_shown() -> None:
    record = UserScramCredentialRecord("alice", 1, SALT, b"stored-key", b"server-key", 4096)
    image = MetadataImage()
    image.apply(record, 0)
    assert "key" not in repr(record) + repr(upsertion("x")) + repr(dict(image.scram_credentials))
    image.apply(RemoveUserScramCredentialRecord("alice", 1), 1)
    image.apply(RemoveUserScramCredentialRecord("alice", 1), 2)
    assert not image.scram_credentials
