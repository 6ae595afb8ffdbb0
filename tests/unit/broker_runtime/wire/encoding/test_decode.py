"""Our reader of messages against kio's: the same values for kio's output, a refusal for everything else.

kio's reader gets only the output of kio's writer: truncated or changed bytes could end the process there.
"""

from dataclasses import fields
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader

from broker_runtime.errors import ProtocolError
from broker_runtime.wire.encoding.decode import read_entity
from broker_runtime.wire.limits import DEFAULT_LIMITS
from broker_runtime.wire.messages import decode_request
from broker_runtime.wire.versions import (
    DELETE_TOPICS,
    DESCRIBE_CLIENT_QUOTAS,
    DESCRIBE_CONFIGS,
    FETCH,
    LIST_OFFSETS,
    METADATA,
    PRODUCE,
)
from tests.support.requests.random_messages import KIND_IDS, KINDS, messages


def places(body: bytes) -> list[int]:
    """Offsets to try in a message: all of its beginning, and a hundred that are spread over the rest."""
    return sorted({*range(min(len(body), 60)), *range(0, len(body), max(1, len(body) // 100))})


@pytest.mark.parametrize(("key", "direction"), KINDS, ids=KIND_IDS)
@settings(max_examples=20, deadline=None, derandomize=True)
@given(data=st.data())
def test_decoding_equals_kios(key: int, direction: str, data: st.DataObject) -> None:
    kind, body = data.draw(messages(key, direction))
    expected, size = entity_reader(kind)(body, 0)
    assert size == len(body)
    found = read_entity(kind, body)
    assert found == expected
    assert repr(found) == repr(expected), "of the same types too"
    assert read_entity(kind, body + b"behind the last field") == expected


@pytest.mark.parametrize(("key", "direction"), KINDS, ids=KIND_IDS)
@settings(max_examples=6, deadline=None, derandomize=True)
@given(data=st.data())
def test_what_is_cut_is_refused(key: int, direction: str, data: st.DataObject) -> None:
    kind, body = data.draw(messages(key, direction))
    for end in places(body):
        with pytest.raises(ProtocolError):
            read_entity(kind, body[:end])


@pytest.mark.parametrize(("key", "direction"), KINDS, ids=KIND_IDS)
@settings(max_examples=6, deadline=None, derandomize=True)
@given(data=st.data())
def test_a_changed_byte_is_read_or_refused(key: int, direction: str, data: st.DataObject) -> None:
    kind, body = data.draw(messages(key, direction))
    outcomes: set[Any] = set()
    for at in places(body):
        for byte in {0, 1, 0x7F, 0x80, 0xFF, body[at] ^ 1, body[at] ^ 0x80} - {body[at]}:
            try:
                outcomes.add(type(read_entity(kind, body[:at] + bytes((byte,)) + body[at + 1 :])))
            except ProtocolError as error:
                outcomes.add(error.kind)
    assert outcomes <= {kind, "malformed", "truncated"}


@pytest.mark.parametrize(("key", "direction"), KINDS, ids=KIND_IDS)
@settings(max_examples=6, deadline=None, derandomize=True)
@given(data=st.data(), unknown=st.lists(st.tuples(st.integers(90, 127), st.binary(max_size=5)), max_size=3))
def test_tags_that_are_newer_than_us_are_skipped(
    key: int, direction: str, data: st.DataObject, unknown: list[tuple[int, bytes]]
) -> None:
    kind, body = data.draw(messages(key, direction))
    without_tags = all("tag" not in field.metadata for field in fields(kind))
    if not kind.__flexible__ or not without_tags:
        return
    assert body[-1] == 0, "no tagged fields"
    tags = b"".join(bytes((tag, len(value))) + value for tag, value in unknown)
    assert read_entity(kind, body[:-1] + bytes((len(unknown),)) + tags) == read_entity(kind, body)


@pytest.mark.parametrize("announced", [b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\x7f", b"\x03"])
def test_an_announced_array_reserves_nothing(announced: bytes) -> None:
    with pytest.raises(ProtocolError, match="components, but only 0 bytes are left") as refused:
        decode_request(DESCRIBE_CLIENT_QUOTAS, 1, memoryview(announced))
    assert refused.value.kind == "truncated"


def test_an_array_is_held_against_the_least_that_its_items_take() -> None:
    nine_empty_resources = b"\x0a" + 9 * b"\x02\x01\x00\x00" + b"\x00\x00\x00"
    assert len(decode_request(DESCRIBE_CONFIGS, 4, memoryview(nine_empty_resources)).resources) == 9
    with pytest.raises(ProtocolError, match="10 resources, but only 39 bytes are left"):
        decode_request(DESCRIBE_CONFIGS, 4, memoryview(b"\x0b" + nine_empty_resources[1:]))


REFUSED = [
    ("null array", LIST_OFFSETS, 1, b"\xff\xff\xff\xff" * 2, "malformed", "topics is null"),
    ("null compact array", DESCRIBE_CLIENT_QUOTAS, 1, b"\x00\x00\x00", "malformed", "components is null"),
    ("negative array", LIST_OFFSETS, 1, b"\xff\xff\xff\xff\xff\xff\xff\xfe", "malformed", "-2 is not a valid length"),
    ("null string", METADATA, 0, b"\x00\x00\x00\x01\xff\xff", "malformed", "name is null"),
    ("null item", DELETE_TOPICS, 4, b"\x02\x00" + bytes(5), "malformed", "topic_names is null"),
    ("negative string", METADATA, 0, b"\x00\x00\x00\x01\xff\xfe", "malformed", "-2 is not a valid length"),
    ("long string", METADATA, 0, b"\x00\x00\x00\x01\x00\x09abc", "truncated", "9 bytes, but only 3 are left"),
    ("no text", METADATA, 0, b"\x00\x00\x00\x01\x00\x01\xff", "malformed", "UTF-8"),
    ("surrogate", METADATA, 0, b"\x00\x00\x00\x01\x00\x03\xed\xa0\x80", "malformed", "UTF-8"),
    ("endless varint", METADATA, 9, b"\xff" * 6, "malformed", "longer than five bytes"),
    ("tag past the end", METADATA, 12, b"\x00\x00\x00\x01\x63\x09a", "truncated", "announces 9 bytes"),
    ("tag of another size", FETCH, 12, b"\x01\x00\x03\x02a!", "malformed", "cluster_id does not fill"),
    (
        "records past the end",
        PRODUCE,
        3,
        b"\xff\xff" + bytes(6) + b"\x00\x00\x00\x01\x00\x01t" + b"\x00\x00\x00\x01" * 2 + b"\x00\x00\x00\x09abc",
        "truncated",
        "9 bytes, but only 3 are left",
    ),
]


@pytest.mark.parametrize(
    ("key", "version", "body", "kind", "text"), [item[1:] for item in REFUSED], ids=[item[0] for item in REFUSED]
)
def test_why_it_is_refused(key: int, version: int, body: bytes, kind: str, text: str) -> None:
    if text.startswith("cluster_id"):
        # Replica, wait, minimum, maximum, isolation, session and epoch, then no topics, no forgotten ones, no rack.
        body = b"\x00" * 17 + b"\x00" * 8 + b"\x01\x01\x01" + body
    with pytest.raises(ProtocolError, match=text) as refused:
        decode_request(key, version, memoryview(body))
    assert refused.value.kind == kind


def test_a_request_has_a_greatest_size() -> None:
    with pytest.raises(ProtocolError, match="split the request into several") as refused:
        decode_request(METADATA, 12, memoryview(bytes(DEFAULT_LIMITS.bytes_max + 1)))
    assert refused.value.kind == "too-large"


def test_a_zero_id_is_none() -> None:
    body = b"\x02" + bytes(16) + b"\x02a\x00" + b"\x02\x00\x00"
    request = decode_request(METADATA, 12, memoryview(body))
    assert request.topics[0].topic_id is None
    assert request.allow_auto_topic_creation is True, "any byte but zero"
    body = b"\x02" + UUID(int=7).bytes + b"\x00\x00" + b"\x00\x00\x00"
    assert decode_request(METADATA, 12, memoryview(body)).topics[0].topic_id == UUID(int=7)
