"""Headers of requests and responses, complete and truncated."""

from importlib.util import find_spec

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.errors import ProtocolError
from broker_runtime.wire.encoding.varint import read_uvarint
from broker_runtime.wire.header import read_header, response_prefix
from broker_runtime.wire.messages import frame_request
from broker_runtime.wire.versions import API_VERSIONS, FORMATS, METADATA, OWN_KEYS_FROM
from kafka_bytes.varints import write_uvarint
from tests.support.requests.request_frames import encode_request, is_flexible


@pytest.mark.parametrize("version", range(13))
def test_the_body_begins_after_the_header_of_every_version(version: int) -> None:
    body = b"\x01\x02\x03"
    header = read_header(memoryview(frame_request(METADATA, version, 77, body))[4:])
    assert header[:4] == (METADATA, version, 77, "sluicegate-broker")
    frame = frame_request(METADATA, version, 77, body)[4:]
    assert frame[header[4] :] == (b"\x00" if is_flexible(METADATA, version) else b"") + body


def test_a_null_client_id_is_none() -> None:
    header = read_header(memoryview(b"\x00\x03\x00\x00\x00\x00\x00\x05\xff\xff"))
    assert header[3:] == (None, 10)


@given(st.binary(max_size=40))
def test_no_bytes_crash_the_header(raw: bytes) -> None:
    try:
        header = read_header(memoryview(raw))
    except ProtocolError:
        return
    assert header[4] <= len(raw)


def test_every_cut_of_a_header_is_refused() -> None:
    frame = encode_request(API_VERSIONS, 3, 1, {"client_software_name": "a", "client_software_version": "1"})[4:]
    body_at = read_header(memoryview(frame))[4]
    for length in range(body_at):
        with pytest.raises(ProtocolError):
            read_header(memoryview(frame[:length]))


def test_api_versions_answers_with_the_short_header_in_every_version() -> None:
    assert len(response_prefix(API_VERSIONS, 3, 9, 10)) == 8
    assert response_prefix(METADATA, 9, 9, 10) == b"\x00\x00\x00\x0f\x00\x00\x00\x09\x00"
    assert response_prefix(METADATA, 8, 9, 10) == b"\x00\x00\x00\x0e\x00\x00\x00\x09"


@given(st.integers(min_value=0, max_value=2**32 - 1))
def test_varints_round_trip(value: int) -> None:
    raw = write_uvarint(value)
    assert read_uvarint(memoryview(raw), 0) == (value, len(raw))
    with pytest.raises(ProtocolError, match="the request ends inside a varint"):
        read_uvarint(memoryview(raw)[:-1], 0)


def test_an_endless_varint_is_refused() -> None:
    with pytest.raises(ProtocolError, match="a varint is longer than five bytes"):
        read_uvarint(memoryview(b"\xff" * 20), 0)


def test_every_format_names_a_message_that_kio_has() -> None:
    for form in (form for key, form in FORMATS.items() if key < OWN_KEYS_FROM):
        assert find_spec(f"kio.schema.{form.module}") is not None
