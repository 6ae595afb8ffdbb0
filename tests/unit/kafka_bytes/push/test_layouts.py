"""The bytes of the push protocol: the draft's layouts, field by field."""

from contextlib import suppress
from struct import pack
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker_runtime.wire.versions import FORMATS
from kafka_bytes import own_keys
from kafka_bytes.errors import FormatError
from kafka_bytes.own_keys import type_of
from kafka_bytes.push import layouts
from kafka_bytes.push.layouts import ID_BYTES_MAX, Layout
from kafka_bytes.push.messages import (
    Broker,
    ClusterMetadataRequest,
    ClusterMetadataResponse,
    PartitionOffset,
    PingRequest,
    PingResponse,
    RegisterConsumerRequest,
    RegisterConsumerResponse,
    StartFetcherRequest,
    StartFetcherResponse,
    StopFetcherRequest,
    StopFetcherResponse,
    ThreadOwnership,
)

BROKERS = (Broker(1, "a", 9092), Broker(2, "bc", 9093))
_BROKERS_BYTES = "0002" + "00000001" + "000161" + "00002384" + "00000002" + "00026263" + "00002385"
_OFFSET_BYTES = "000174" + "0003312d30" + "0000000000000007"
"""Topic t, partition 1-0, offset 7."""
_OFFSETS = (PartitionOffset("t", "1-0", 7),)

EXAMPLES: tuple[tuple[Layout[Any], Any, str], ...] = (
    (layouts.CLUSTER_METADATA_REQUEST, ClusterMetadataRequest(), "00000002 7531"),
    (layouts.CLUSTER_METADATA_REQUEST, ClusterMetadataRequest("g"), "00000005 7531 0001 67"),
    (
        layouts.CLUSTER_METADATA_RESPONSE,
        ClusterMetadataResponse(0, 2, BROKERS),
        "0000001f 0000 00000002" + _BROKERS_BYTES,
    ),
    (
        layouts.REGISTER_CONSUMER_REQUEST,
        RegisterConsumerRequest("g", "c", '{"t":1}', True, "smallest", 6000),
        "00000020 7532 000167 000163 0007" + b'{"t":1}'.hex() + "01 0008" + b"smallest".hex() + "00001770",
    ),
    (layouts.REGISTER_CONSUMER_RESPONSE, RegisterConsumerResponse(26), "00000002 001a"),
    (layouts.PING_REQUEST, PingRequest("c", 1), "00000009 7533 000163 00000001"),
    (layouts.PING_RESPONSE, PingResponse(0, "c", None), "00000007 7533 0000 000163"),
    (layouts.PING_RESPONSE, PingResponse(0, "c", ()), "00000009 7533 0000 000163 0000"),
    (layouts.PING_RESPONSE, PingResponse(0, "c", _OFFSETS), "00000019 7533 0000 000163 0001" + _OFFSET_BYTES),
    (layouts.STOP_FETCHER_REQUEST, StopFetcherRequest("c"), "00000005 7534 000163"),
    (layouts.STOP_FETCHER_RESPONSE, StopFetcherResponse(-1, "c", None), "00000007 7534 ffff 000163"),
    (
        layouts.STOP_FETCHER_RESPONSE,
        StopFetcherResponse(0, "c", _OFFSETS),
        "00000019 7534 0000 000163 0001" + _OFFSET_BYTES,
    ),
    (
        layouts.START_FETCHER_REQUEST,
        StartFetcherRequest("c", (ThreadOwnership("c-0", _OFFSETS),), BROKERS),
        "00000037 7535 000163 0001" + "0003632d30 0001" + _OFFSET_BYTES + _BROKERS_BYTES,
    ),
    (layouts.START_FETCHER_RESPONSE, StartFetcherResponse(0, "c"), "00000007 7535 0000 000163"),
)

_int16, _int32, _int64 = (st.integers(-(2**bits), 2**bits - 1) for bits in (15, 31, 63))
_ids = st.text(st.characters(codec="utf-8"), max_size=40)
_topics = st.text("abc._-09", max_size=249)
_brokers = st.lists(st.builds(Broker, _int32, _ids, _int32), max_size=4).map(tuple)
_offsets = st.lists(st.builds(PartitionOffset, _topics, st.text("0123456789-", max_size=21), _int64), max_size=4).map(
    tuple
)
_owned = st.lists(st.builds(ThreadOwnership, _ids, _offsets), max_size=3).map(tuple)
_messages: dict[str, st.SearchStrategy[Any]] = {
    "ClusterMetadataRequest": st.builds(ClusterMetadataRequest, st.none() | _ids),
    "ClusterMetadataResponse": st.builds(ClusterMetadataResponse, _int16, _int32, _brokers),
    "RegisterConsumerRequest": st.builds(
        RegisterConsumerRequest, _ids, _ids, _ids, st.booleans(), st.text("abc", max_size=16), _int32
    ),
    "RegisterConsumerResponse": st.builds(RegisterConsumerResponse, _int16),
    "PingRequest": st.builds(PingRequest, _ids, _int32),
    "PingResponse": st.builds(PingResponse, _int16, _ids, st.none() | _offsets),
    "StopFetcherRequest": st.builds(StopFetcherRequest, _ids),
    "StopFetcherResponse": st.builds(StopFetcherResponse, _int16, _ids, st.none() | _offsets),
    "StartFetcherRequest": st.builds(StartFetcherRequest, _ids, _owned, _brokers),
    "StartFetcherResponse": st.builds(StartFetcherResponse, _int16, _ids),
}
_LAYOUTS = {layout.message.__name__: layout for layout, _, _ in EXAMPLES}
_any_message: st.SearchStrategy[tuple[Layout[Any], Any]] = st.one_of(
    [st.tuples(st.just(_LAYOUTS[name]), drawn) for name, drawn in _messages.items()]
)


def test_every_message_is_looked_at() -> None:
    made = {layout.message.__name__ for layout in vars(layouts).values() if isinstance(layout, Layout)}
    assert made == set(_LAYOUTS) == set(_messages)


@pytest.mark.parametrize(("layout", "message", "written"), EXAMPLES, ids=lambda each: type(each).__name__)
def test_a_message_has_the_bytes_of_the_draft(layout: Layout[Any], message: Any, written: str) -> None:
    frame = bytes.fromhex(written)
    assert layout.write(message) == frame
    assert layout.read(memoryview(frame)[4:]) == message


@given(_any_message)
def test_what_is_written_is_read_again(pair: tuple[Layout[Any], Any]) -> None:
    layout, message = pair
    frame = layout.write(message)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert layout.read(memoryview(frame)[4:]) == message


@given(_any_message, st.data())
def test_what_is_cut_short_or_too_long_is_refused(pair: tuple[Layout[Any], Any], data: st.DataObject) -> None:
    layout, message = pair
    frame = memoryview(layout.write(message))[4:]
    cut = data.draw(st.integers(0, len(frame) - 1))
    with suppress(FormatError):
        # A message without optional parts at its end is another valid message.
        shorter = layout.read(frame[:cut])
        assert shorter != message
        assert layout.write(shorter)[4:] == frame[:cut]
    if None not in message:
        with pytest.raises(FormatError):
            layout.read(memoryview(bytes(frame) + b"\0"))


@given(st.sampled_from(sorted(_LAYOUTS)), st.binary(max_size=80))
@example("PingResponse", b"\x75\x33\x00\x00\x00\x01c\xff\xff")
def test_any_bytes_are_a_message_or_a_format_error(name: str, data: bytes) -> None:
    layout = _LAYOUTS[name]
    begin = b"" if layout.type_id is None else pack(">h", layout.type_id)
    with suppress(FormatError):
        message = layout.read(memoryview(begin + data))
        assert layout.write(message)[4:] == begin + data


@pytest.mark.parametrize("count", ["ffff", "0002", "7fff"])
def test_a_list_announces_what_is_there(count: str) -> None:
    with pytest.raises(FormatError):
        layouts.PING_RESPONSE.read(memoryview(bytes.fromhex("7533 0000 000163" + count + _OFFSET_BYTES)))


def test_what_is_beyond_a_limit_is_not_written() -> None:
    with pytest.raises(ValueError, match="1025 bytes"):
        layouts.PING_REQUEST.write(PingRequest("a" * (ID_BYTES_MAX + 1), 0))
    with pytest.raises(ValueError, match="32768 items"):
        layouts.PING_RESPONSE.write(PingResponse(0, "c", _OFFSETS * 0x8000))


def test_its_frames_are_told_from_those_of_kafka() -> None:
    for _, _, written in EXAMPLES:
        frame = memoryview(bytes.fromhex(written))[4:]
        assert type_of(frame) in (None, 30001, 30002, 30003, 30004, 30005)
    assert type_of(memoryview(bytes.fromhex("7533"))) == own_keys.PING
    assert [type_of(memoryview(data)) for data in (b"", b"\x75", b"\x75\x30", b"\x75\x36")] == [None] * 4
    assert not [key for key in FORMATS if type_of(memoryview(pack(">h", key))) is not None]
