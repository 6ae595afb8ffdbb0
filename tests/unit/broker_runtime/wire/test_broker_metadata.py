"""The layouts of the seed, byte for byte, and the tagged fields of a registration."""

import struct
from uuid import UUID

import pytest

from broker_runtime.errors import ProtocolError
from broker_runtime.wire.messages import (
    decode_request,
    decode_response,
    encode_request_body,
    encode_response,
    encode_response_body,
)
from broker_runtime.wire.versions import BROKER_REGISTRATION, OWN_KEYS_FROM
from kafka_bytes.own_keys import BROKER_METADATA
from tests.support.requests.request_frames import encode_request


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack(">h", len(raw)) + raw


BROKER = {
    "node_id": 3,
    "host": "höst",
    "port": 9092,
    "protocol_version_min": 1,
    "protocol_version_max": 2,
    "tags": [{"key": "broker.id", "value": "3"}, {"key": "rack", "value": "r8a9"}],
}
BROKER_BYTES = (
    struct.pack(">i", 3)
    + text("höst")
    + struct.pack(">iii", 9092, 1, 2)
    + struct.pack(">i", 2)
    + text("broker.id")
    + text("3")
    + text("rack")
    + text("r8a9")
)


def test_a_request_is_an_array_of_node_ids() -> None:
    frame = encode_request(BROKER_METADATA, 0, 7, {"node_ids": [-1, 3]})
    head = struct.pack(">hhi", BROKER_METADATA, 0, 7) + text("sluicegate-broker")
    body = struct.pack(">iii", 2, -1, 3)
    assert frame == struct.pack(">i", len(head + body)) + head + body
    assert decode_request(BROKER_METADATA, 0, memoryview(body)).node_ids == (-1, 3)
    assert decode_request(BROKER_METADATA, 0, memoryview(struct.pack(">i", 0))).node_ids == ()


def test_an_answer_is_an_array_of_brokers_with_their_tags() -> None:
    frame = encode_response(BROKER_METADATA, 0, 7, {"brokers": [BROKER]})
    body = struct.pack(">i", 1) + BROKER_BYTES
    assert frame == struct.pack(">ii", 4 + len(body), 7) + body
    assert encode_response_body(BROKER_METADATA, 0, {"brokers": []}) == bytes(4)
    (broker,) = decode_response(BROKER_METADATA, 0, memoryview(body)).brokers
    assert (broker.host, [(tag.key, tag.value) for tag in broker.tags]) == (
        "höst",
        [("broker.id", "3"), ("rack", "r8a9")],
    )


@pytest.mark.parametrize("body", [b"", b"\x00\x00", struct.pack(">i", -1), struct.pack(">ii", 2**31 - 1, 1)])
def test_a_malformed_request_is_rejected(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_request(BROKER_METADATA, 0, memoryview(body))


def test_its_key_is_outside_of_kafkas() -> None:
    assert OWN_KEYS_FROM <= BROKER_METADATA < 2**15


REGISTRATION = {
    "broker_id": 1,
    "cluster_id": "c",
    "incarnation_id": UUID(int=1),
    "listeners": [],
    "features": [],
    "rack": None,
    "previous_broker_epoch": 5,
}


def test_a_registrations_own_fields_follow_kafkas_as_tagged_fields() -> None:
    silent = encode_request_body(BROKER_REGISTRATION, 4, REGISTRATION)
    assert silent.endswith(struct.pack(">q", 5) + b"\x00"), "as Kafka's brokers send it"
    told = {"protocol_version_min": 1, "protocol_version_max": 2, "broker_tags": [{"key": "rack", "value": "ä"}]}
    body = encode_request_body(BROKER_REGISTRATION, 4, REGISTRATION | told)
    assert body.startswith(silent[:-1] + b"\x03"), "three tagged fields"
    read = decode_request(BROKER_REGISTRATION, 4, memoryview(body))
    assert (read.protocol_version_min, read.protocol_version_max) == (1, 2)
    assert [(tag.key, tag.value) for tag in read.broker_tags] == [("rack", "ä")]
    assert decode_request(BROKER_REGISTRATION, 4, memoryview(silent)).broker_tags == ()
