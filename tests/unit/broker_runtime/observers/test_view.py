"""Views of messages: the same as kio's decoding of the same bytes, read-only, and invalid after the call."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.schema.fetch_snapshot.v0 import response as fetch_snapshot
from kio.schema.types import BrokerId
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import Records as RecordsBytes
from kio.static.primitive import i32, i64

from broker_runtime.errors import ProtocolError
from broker_runtime.observers.layout import layout_of, view_of
from broker_runtime.observers.source import MessageSource, OutlivedError
from broker_runtime.observers.view import Array, ReadOnlyError, Records, Struct, UnknownFieldError
from broker_runtime.wire.encoding.decode import read_entity
from broker_runtime.wire.messages import encode_request_body, message_type
from broker_runtime.wire.reply import FileRegion
from broker_runtime.wire.versions import FETCH, PRODUCE
from kafka_bytes.batches import encode_batch
from tests.support.logs.packed_batches import packed
from tests.support.requests.random_messages import KIND_IDS, KINDS, messages, messages_of_every_version


def same(shown: Any, entity: Any) -> None:
    """Assert that a view shows what kio has decoded, field by field."""
    if is_dataclass(entity):
        assert isinstance(shown, Struct)
        assert shown.fields == tuple(field.name for field in fields(entity))
        for name in shown.fields:
            same(shown.get(name), getattr(entity, name))
            check_milliseconds(shown, name, getattr(entity, name))
    elif isinstance(shown, Array):
        assert len(shown) == len(entity)
        for one, other in zip(shown, entity, strict=True):
            same(one, other)
    elif isinstance(shown, Records):
        assert shown.to_bytes() == entity
        assert shown.size == len(entity)
    else:
        assert shown == entity
        assert type(shown) is type(entity)


def check_milliseconds(shown: Struct, name: str, value: Any) -> None:
    if isinstance(value, timedelta):
        assert shown.get(f"{name}_ms") == value // timedelta(milliseconds=1)
    elif isinstance(value, datetime):
        assert shown.get(f"{name}_ms") == round(value.timestamp() * 1000)


@pytest.mark.parametrize(("key", "direction"), KINDS, ids=KIND_IDS)
@settings(max_examples=6, deadline=None, derandomize=True)
@given(data=st.data())
def test_a_view_shows_what_kio_decodes(key: int, direction: str, data: st.DataObject) -> None:
    for kind, body in data.draw(messages_of_every_version(key, direction)):
        entity, size = entity_reader(kind)(body, 0)
        assert size == len(body)
        same(view_of(kind, MessageSource(memoryview(b"??" + body + b"behind")), 2), entity)


@pytest.mark.parametrize(("key", "direction"), KINDS, ids=KIND_IDS)
@settings(max_examples=10, deadline=None, derandomize=True)
@given(data=st.data())
def test_fields_may_be_looked_at_in_any_order(key: int, direction: str, data: st.DataObject) -> None:
    """Skipping a field, and reading behind a partly read one, leads to the same place."""
    kind, body = data.draw(messages(key, direction))
    entity = read_entity(kind, body)
    view = view_of(kind, MessageSource(body), 0)
    names = data.draw(st.permutations(view.fields))
    for name in names:
        found = view.get(name)
        if isinstance(found, Array) and len(found):
            found[data.draw(st.integers(0, len(found) - 1))].get(found[0].fields[0])
    for name in reversed(names):
        same(view.get(name), getattr(entity, name))
    assert layout_of(kind).after(MessageSource(body), 0) == len(body)


@pytest.mark.parametrize(("key", "direction"), KINDS, ids=KIND_IDS)
@settings(max_examples=4, deadline=None, derandomize=True)
@given(data=st.data())
def test_a_message_that_is_cut_short_is_said_to_be(key: int, direction: str, data: st.DataObject) -> None:
    kind, body = data.draw(messages(key, direction))
    for end in range(len(body)):
        with pytest.raises(ProtocolError):
            view_of(kind, MessageSource(body[:end]), 0).to_dict()


def test_a_tagged_struct_that_is_left_out_has_zeros() -> None:
    leader = fetch_snapshot.LeaderIdAndEpoch(leader_id=BrokerId(0), leader_epoch=i32(0))
    partition = fetch_snapshot.PartitionSnapshot(
        index=i32(3),
        error_code=ErrorCode.none,
        snapshot_id=fetch_snapshot.SnapshotId(end_offset=i64(7), epoch=i32(1)),
        current_leader=leader,
        size=i64(0),
        position=i64(0),
        unaligned_records=RecordsBytes(b""),
    )
    buffer = BytesIO()
    entity_writer(fetch_snapshot.PartitionSnapshot)(buffer, partition)
    assert buffer.getvalue().endswith(b"\x01\0"), "kio writes no tag"
    assert read_entity(fetch_snapshot.PartitionSnapshot, buffer.getvalue()) == partition
    same(view_of(fetch_snapshot.PartitionSnapshot, MessageSource(buffer.getvalue()), 0), partition)


RECORDS = encode_batch([(b"k", b"v"), (None, b"w")], 1_000) + encode_batch([(b"k", b"v")], 1_000)


def produce() -> tuple[Struct, MessageSource]:
    content = {
        "transactional_id": None,
        "acks": 1,
        "timeout": 30_000,
        "topic_data": [{"name": "orders", "partition_data": [{"index": 3, "records": RECORDS}]}],
    }
    source = MessageSource(memoryview(encode_request_body(PRODUCE, 9, content)))
    return view_of(message_type(PRODUCE, 9, "Request"), source, 0), source


def test_what_the_seed_reads_can_be_read() -> None:
    struct, _ = produce()
    found = {
        (topic.get("name"), partition.index): (partition.records.size, partition.records.count)
        for topic in struct.get_array("topic_data")
        for partition in topic.get_array("partition_data")
    }
    assert found == {("orders", 3): (len(RECORDS), 3)}
    assert struct.timeout_ms == 30_000
    assert struct.to_dict() == {
        "transactional_id": None,
        "acks": 1,
        "timeout_ms": 30_000,
        "topic_data": [
            {"name": "orders", "partition_data": [{"index": 3, "records": {"size": len(RECORDS), "count": 3}}]}
        ],
    }


def test_a_view_cannot_be_written() -> None:
    struct, _ = produce()
    with pytest.raises(ReadOnlyError, match="acks cannot be set: observers may not change messages"):
        struct.acks = 0
    with pytest.raises(ReadOnlyError, match="acks cannot be deleted"):
        del struct.acks
    with pytest.raises(TypeError):
        struct.topic_data[0] = None
    with pytest.raises(AttributeError):
        struct.topic_data[0].partition_data[0].records.size = 1


def test_a_view_is_over_when_the_call_is() -> None:
    struct, source = produce()
    topics = struct.topic_data
    topic = topics[0]
    partitions = topic.partition_data
    records = partitions[0].records
    source.end()
    uses: list[Callable[[], object]] = [
        lambda: struct.acks,
        lambda: struct.timeout_ms,
        lambda: struct.topic_data,
        lambda: struct.context,
        lambda: len(topics),
        lambda: topics[0],
        lambda: list(topics),
        lambda: topic.name,
        lambda: records.size,
        lambda: records.count,
        lambda: records.to_bytes(),
    ]
    for use in uses:
        with pytest.raises(OutlivedError, match="valid only during the call"):
            use()


def test_records_report_their_compression_and_nothing_for_unknown_formats() -> None:
    plain, compressed, old = bytearray(RECORDS), bytearray(RECORDS), bytearray(RECORDS)
    compressed[22] |= 4
    old[16] = 1
    shown = [Records(MessageSource(bytes(each)), 0, len(each)) for each in (plain, compressed, old, RECORDS[:70])]
    assert [each.compressed for each in shown] == [False, True, None, False]
    assert [each.count for each in shown] == [3, 3, None, 0]


def test_a_field_that_there_is_not_is_named_with_those_that_there_are() -> None:
    struct, _ = produce()
    asked: list[Callable[[], object]] = [
        lambda: struct.record_set,
        lambda: struct.get("record_set"),
        lambda: struct.get("to_dict"),
    ]
    for ask in asked:
        with pytest.raises(UnknownFieldError, match=r"version 9 has no field '\w+'; its fields are transactional_id"):
            ask()
    with pytest.raises(UnknownFieldError, match="acks is not an array of structs"):
        struct.get_array("acks")


def shown(records: bytes) -> tuple[int, int | None, bool | None]:
    """Size, count and compression of records in the middle of other bytes."""
    found = Records(MessageSource(b"before" + records + b"behind"), 6, len(records))
    return found.size, found.count, found.compressed


def test_records_are_counted_by_the_headers_of_their_batches() -> None:
    plain = encode_batch([(b"k", b"v"), (None, b"w")], 1_000)
    old = plain[:16] + b"\x01" + plain[17:]
    size = len(plain)
    assert shown(b"") == (0, 0, False)
    assert shown(plain) == (size, 2, False)
    assert shown(plain + packed(4, plain))[1:] == (4, True)
    assert shown(old) == (size, None, None), "a format whose header has no count"
    assert shown(plain + plain[:-1]) == (2 * size - 1, 2, False), "the last batch is not whole"
    assert shown(plain[:8] + b"\xff\xff\xff\xff" + plain[12:]) == (size, 0, False), "a length that is none"


class NoFile:
    def fileno(self) -> int:
        raise AssertionError("nobody reads it")

    def pread(self, size: int, offset: int) -> bytes:
        raise AssertionError("nobody reads it")


def test_records_in_a_file_are_described_without_being_read() -> None:
    region = FileRegion(NoFile(), 0, 1000)
    head = bytes(4) + bytes(2) + bytes(4) + b"\x02" + bytes(16) + b"\x03"
    one = (7).to_bytes(4, "big") + bytes(2 + 8 + 8 + 8) + b"\x00" + b"\xff\xff\xff\xff"
    before = head + one + (1001).to_bytes(2, "big")[:0] + b"\xe9\x07"
    other = b"\x00" + (8).to_bytes(4, "big") + bytes(2 + 8 + 8 + 8) + b"\x00" + b"\xff\xff\xff\xff" + b"\x01" + b"\x00"
    source = MessageSource(before + other + b"\x00\x00", {len(before): region})
    struct = view_of(message_type(FETCH, 15, "Response"), source, 0)
    first, second = struct.responses[0].partitions
    assert (first.records.size, first.records.count, first.records.from_file) == (1000, None, True)
    assert first.records.to_bytes() == b""
    assert (second.partition_index, second.records.size, second.records.count) == (8, 0, 0)
