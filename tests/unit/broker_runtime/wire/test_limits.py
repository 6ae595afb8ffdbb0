"""A request with too many items is refused at the announcement, before any item is created."""

import struct
from typing import Any

import pytest

from broker_runtime.errors import ProtocolError
from broker_runtime.slicing.steps import at_once
from broker_runtime.wire.encoding.encode import Pieces, encode_in_steps
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.encoding.varint import skip_tagged_fields
from broker_runtime.wire.limits import ItemBudget, RequestLimits, RequestTooLargeError, ResponseTooLargeError
from broker_runtime.wire.messages import decode_request_in_steps, encode_request_body, message_type
from broker_runtime.wire.versions import DELETE_TOPICS, METADATA
from kafka_bytes.varints import write_uvarint
from tests.support.requests.filled_requests import filled_request
from tests.support.requests.random_messages import SERVED
from tools.request_arrays import Path, arrays_of

LIMITS = RequestLimits(items_max=100, tagged_fields_max=3, tagged_bytes_max=20, bytes_max=100_000)


def entity_arrays() -> list[tuple[str, int, int, Path]]:
    return [
        (api.name, api.key, version, path)
        for api in SERVED.values()
        if api.reads != "frame"
        for path, version in arrays_of(api).items()
    ]


@pytest.mark.parametrize(("name", "key", "version", "path"), entity_arrays(), ids=str)
def test_every_array_of_every_request_has_a_limit(name: str, key: int, version: int, path: Path) -> None:
    body, count = filled_request(key, version, path, 100)
    assert at_once(decode_request_in_steps(key, version, memoryview(body), LIMITS)) is not None, (name, count)
    body, count = filled_request(key, version, path, 400)
    if count > 100:
        with pytest.raises(RequestTooLargeError, match=r"more than 100 items.*sluicegate\.request\.items\.max"):
            at_once(decode_request_in_steps(key, version, memoryview(body), LIMITS))


def test_an_announcement_is_enough() -> None:
    """None of the items can be read."""
    body = struct.pack(">i", 5_000) + b"\xff" * 10_000
    with pytest.raises(RequestTooLargeError, match="more than 100 items"):
        at_once(decode_request_in_steps(METADATA, 1, memoryview(body), LIMITS))


def test_an_api_may_have_a_limit_of_its_own() -> None:
    names = {"topic_names": [f"n{number}" for number in range(150)], "timeout": 0}
    body = memoryview(encode_request_body(DELETE_TOPICS, 4, names))
    own = RequestLimits(items_max=100, items_max_of={DELETE_TOPICS: 150})
    assert len(at_once(decode_request_in_steps(DELETE_TOPICS, 4, body, own)).topic_names) == 150


def test_nested_arrays_are_counted_together() -> None:
    budget = ItemBudget(LIMITS, METADATA)
    budget.take(60)
    budget.take(40)
    with pytest.raises(RequestTooLargeError):
        budget.take(1)


def test_a_reader_of_frames_counts_too_and_goes_back() -> None:
    frame = memoryview(struct.pack(">ii", 60, 60) + bytes(200))
    reader = RequestReader(frame, 0, False, LIMITS).counting(METADATA)
    place, counts = reader.position, reader.counts
    assert reader.array_length() == 60
    with pytest.raises(RequestTooLargeError):
        reader.array_length()
    reader.go_back(place, counts)
    assert reader.nullable_array_length() == 60


def tags(*sizes: int) -> bytes:
    return write_uvarint(len(sizes)) + b"".join(
        write_uvarint(100 + tag) + write_uvarint(size) + bytes(size) for tag, size in enumerate(sizes)
    )


@pytest.mark.parametrize(
    ("sizes", "is_allowed"), [((), True), ((1, 1, 1), True), ((14,), True), ((1, 1, 1, 1), False), ((60,), False)]
)
def test_tagged_fields_of_a_header_and_of_structs_are_few_and_short(sizes: tuple[int, ...], is_allowed: bool) -> None:
    body = b"\x01" + b"\x00\x00\x00" + tags(*sizes)

    def read(what: Any) -> bool:
        try:
            what()
        except RequestTooLargeError:
            return False
        return True

    assert read(lambda: skip_tagged_fields(tags(*sizes), 0, LIMITS)) is is_allowed
    assert read(RequestReader(memoryview(tags(*sizes)), 0, True, LIMITS).end_struct) is is_allowed
    assert read(lambda: RequestReader(memoryview(tags(*sizes)), 0, True, LIMITS).tagged_field(1)) is is_allowed
    assert read(lambda: at_once(decode_request_in_steps(METADATA, 9, memoryview(body), LIMITS))) is is_allowed


def test_millions_of_tagged_fields_are_refused_by_their_number() -> None:
    with pytest.raises(RequestTooLargeError, match=r"6300000 tagged fields in one struct; at most 100"):
        skip_tagged_fields(write_uvarint(6_300_000), 0)


def test_an_answer_that_would_be_too_large_is_refused() -> None:
    answer = {"error_code": 0, "groups": [{"group_id": "g" * 1_000, "protocol_type": ""} for _ in range(2_000)]}
    pieces = Pieces(RequestLimits(response_bytes_max=1_000_000).check_response)
    with pytest.raises(ResponseTooLargeError, match=r"sluicegate\.response\.max\.bytes"):
        at_once(encode_in_steps(message_type(16, 1, "Response"), answer, pieces))


def test_a_text_of_a_compact_format_has_a_greatest_length() -> None:
    """A topic name of 90 MB would block the event loop for 0.1 s, and be repeated in the answer."""
    text = b"a" * 65_537
    whole, longest = (write_uvarint(len(each) + 1) + each for each in (text, text[:-1]))
    assert RequestReader(memoryview(longest), 0, True).string() == text[:-1].decode()
    for read in (RequestReader.string, RequestReader.nullable_string):
        with pytest.raises(ProtocolError, match="a text has 65537 bytes; at most 65536"):
            read(RequestReader(memoryview(whole), 0, True))
    body = write_uvarint(2) + whole + bytes(10)
    with pytest.raises(ProtocolError, match="a text has 65537 bytes; at most 65536"):
        at_once(decode_request_in_steps(METADATA, 9, memoryview(body), RequestLimits()))
