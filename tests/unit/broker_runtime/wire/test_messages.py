"""Fields to bytes and back, over every version of every message that we format."""

from importlib.util import find_spec
from uuid import UUID

import pytest

from broker_runtime.errors import ErrorCode, ProtocolError
from broker_runtime.wire.header import read_header
from broker_runtime.wire.messages import decode_request, decode_response, encode_response
from broker_runtime.wire.versions import CREATE_TOPICS, FORMATS, OWN_KEYS_FROM
from tests.support.requests.request_frames import encode_request, is_flexible

TOPIC = {
    "name": "orders",
    "topic_id": UUID(int=5),
    "error_code": ErrorCode.NONE,
    "error_message": None,
    "num_partitions": 6,
    "replication_factor": 1,
    "configs": [],
}
ASKED = {"name": "orders", "num_partitions": 6, "replication_factor": 1, "assignments": [], "configs": []}


@pytest.mark.parametrize("version", range(2, 8))
def test_one_answer_serves_every_version(version: int) -> None:
    frame = encode_response(CREATE_TOPICS, version, 7, {"topics": [TOPIC]})
    body = memoryview(frame)[9 if version >= 5 else 8 :]
    topic = decode_response(CREATE_TOPICS, version, body).topics[0]
    assert topic.name == "orders"
    assert topic.error_code == 0
    assert getattr(topic, "topic_id", UUID(int=5)) == UUID(int=5)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4


@pytest.mark.parametrize("version", range(2, 8))
def test_every_cut_of_a_request_is_refused(version: int) -> None:
    frame = memoryview(
        encode_request(CREATE_TOPICS, version, 3, {"topics": [ASKED], "timeout": 500, "validate_only": True})
    )[4:]
    at = read_header(frame)[4] + is_flexible(CREATE_TOPICS, version)
    whole = decode_request(CREATE_TOPICS, version, frame[at:])
    assert whole.timeout.total_seconds() == 0.5
    for end in range(at, len(frame)):
        with pytest.raises(ProtocolError):
            decode_request(CREATE_TOPICS, version, frame[at:end])


def test_a_missing_field_raises_an_error_with_its_name() -> None:
    with pytest.raises(TypeError, match="needs topics"):
        encode_response(CREATE_TOPICS, 7, 1, {})


def test_the_first_flexible_version_agrees_with_kio() -> None:
    for key, form in FORMATS.items():
        if key >= OWN_KEYS_FROM:
            continue
        name = "".join(part.title() for part in form.module.split("_")) + "Request"
        versions = [v for v in range(20) if find_spec(f"kio.schema.{form.module}.v{v}") is not None]
        for version in versions:
            module = __import__(f"kio.schema.{form.module}.v{version}", fromlist=[name])
            assert getattr(module, name).__flexible__ == is_flexible(key, version), (form.module, version)
