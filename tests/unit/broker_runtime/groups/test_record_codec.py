"""The bytes of group records, which tests/integration/groups/test_group_records.py compares with Apache Kafka's."""

from contextlib import suppress
from struct import pack
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.record_codec import DamagedRecordError, decode, encode
from broker_runtime.groups.records import (
    ClassicMember,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    GroupRecord,
    OffsetCommitKey,
    OffsetCommitValue,
    PushMemberKey,
    PushMemberValue,
)

TOPIC_ID = UUID(int=7)
_texts = st.text(st.characters(codec="utf-8"), max_size=200)
_some = st.none() | _texts
_int = st.integers(-(2**31), 2**31 - 1)
_long = st.integers(-(2**63), 2**63 - 1)
_bytes = st.binary(max_size=300)
_ids = st.integers(1, 2**128 - 1).map(lambda number: UUID(int=number))
_numbers = st.lists(_int, max_size=5).map(tuple)
_assignments = st.dictionaries(_ids, _numbers, max_size=4)
_protocols = st.builds(ClassicProtocol, _texts, _bytes)
_members = st.builds(ClassicMember, _texts, _some, _texts, _texts, _int, _int, _bytes, _bytes)
_classic = st.builds(ClassicMemberMetadata, _int, st.lists(_protocols, max_size=3).map(tuple))
_offsets = st.builds(OffsetCommitValue, _long, _int, _texts, _long, st.none(), st.none() | _ids)
_expiring = st.builds(OffsetCommitValue, _long, st.just(-1), _texts, _long, st.integers(0, 2**63 - 1), st.none())
_names = st.lists(_texts, max_size=3).map(tuple)
_records = st.one_of(
    *(
        st.builds(GroupRecord, key, st.none() | value)
        for key, value in (
            (st.builds(OffsetCommitKey, _texts, _texts, _int), _offsets | _expiring),
            (
                st.builds(GroupMetadataKey, _texts),
                st.builds(
                    GroupMetadataValue, _texts, _int, _some, _some, _long, st.lists(_members, max_size=3).map(tuple)
                ),
            ),
            (st.builds(ConsumerGroupMetadataKey, _texts), st.builds(ConsumerGroupMetadataValue, _int, _long)),
            (
                st.builds(ConsumerGroupMemberMetadataKey, _texts, _texts),
                st.builds(
                    ConsumerGroupMemberMetadataValue,
                    _some,
                    _some,
                    _texts,
                    _texts,
                    _names,
                    _some,
                    _int,
                    _some,
                    st.none() | _classic,
                ),
            ),
            (
                st.builds(ConsumerGroupTargetAssignmentMetadataKey, _texts),
                st.builds(ConsumerGroupTargetAssignmentMetadataValue, _int, _long),
            ),
            (
                st.builds(ConsumerGroupTargetAssignmentMemberKey, _texts, _texts),
                st.builds(ConsumerGroupTargetAssignmentMemberValue, _assignments),
            ),
            (
                st.builds(ConsumerGroupCurrentMemberAssignmentKey, _texts, _texts),
                st.builds(
                    ConsumerGroupCurrentMemberAssignmentValue, _int, _int, st.integers(0, 2), _assignments, _assignments
                ),
            ),
            (
                st.builds(ConsumerGroupRegularExpressionKey, _texts, _texts),
                st.builds(ConsumerGroupRegularExpressionValue, _names, _long, _long),
            ),
            (
                st.builds(PushMemberKey, _texts, _texts),
                st.builds(PushMemberValue, _texts, st.booleans(), _texts, _int, _texts),
            ),
        )
    ),
    st.builds(GroupRecord, st.builds(ConsumerGroupPartitionMetadataKey, _texts), st.none()),
)


@given(_records)
def test_an_encoded_record_decodes_to_itself(record: GroupRecord) -> None:
    assert decode(*encode(record)) == record


@given(_records, st.data())
def test_bytes_that_are_cut_short_are_damage_that_is_named_or_no_record(
    record: GroupRecord, data: st.DataObject
) -> None:
    key, value = encode(record)
    assert key is not None
    with pytest.raises(DamagedRecordError):
        decode(key[: data.draw(st.integers(2, len(key) - 1))], value)
    if value is not None:
        with pytest.raises(DamagedRecordError, match="is damaged"):
            decode(key, value[: data.draw(st.integers(0, len(value) - 1))])


@given(_records, st.data())
def test_any_bytes_are_a_record_or_damage(record: GroupRecord, data: st.DataObject) -> None:
    key, value = encode(record)
    assert key is not None
    at = data.draw(st.integers(2, len(key) - 1))
    odd = data.draw(st.binary(min_size=1, max_size=4))
    for pair in ((key[:at] + odd + key[at + len(odd) :], value), (key, odd + (value or b"")[len(odd) :])):
        with suppress(DamagedRecordError):
            decode(*pair)


KEY = b"\x00\x01" + b"\x00\x01g" + b"\x00\x06orders" + b"\x00\x00\x00\x05"
COMMIT = OffsetCommitKey("g", "orders", 5)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (pack(">hqh1sq", 0, 42, 1, b"m", 1000), OffsetCommitValue(42, -1, "m", 1000)),
        (pack(">hqh1sqq", 1, 42, 1, b"m", 1000, 2000), OffsetCommitValue(42, -1, "m", 1000, 2000)),
        (pack(">hqh1sqq", 1, 42, 1, b"m", 1000, -1), OffsetCommitValue(42, -1, "m", 1000)),
        (pack(">hqh1sq", 2, 42, 1, b"m", 1000), OffsetCommitValue(42, -1, "m", 1000)),
        (pack(">hqih1sq", 3, 42, 9, 1, b"m", 1000), OffsetCommitValue(42, 9, "m", 1000)),
        (pack(">hqiB1sqB", 4, 42, 9, 2, b"m", 1000, 0), OffsetCommitValue(42, 9, "m", 1000)),
        (
            pack(">hqiB1sqBBB16s", 4, 42, 9, 2, b"m", 1000, 1, 0, 16, TOPIC_ID.bytes),
            OffsetCommitValue(42, 9, "m", 1000, None, TOPIC_ID),
        ),
        (pack(">hqiB1sqBBB16s", 4, 42, 9, 2, b"m", 1000, 1, 0, 16, bytes(16)), OffsetCommitValue(42, 9, "m", 1000)),
        # A tagged field that a newer broker knows.
        (pack(">hqiB1sqBBB1s", 4, 42, 9, 2, b"m", 1000, 1, 7, 1, b"?"), OffsetCommitValue(42, 9, "m", 1000)),
    ],
)
def test_every_version_of_an_offset_is_read(value: bytes, expected: OffsetCommitValue) -> None:
    assert decode(KEY, value) == GroupRecord(COMMIT, expected)
    assert decode(b"\x00\x00" + KEY[2:], value) == GroupRecord(COMMIT, expected)


def test_offsets_are_written_as_apache_kafka_writes_them() -> None:
    assert encode(GroupRecord(COMMIT, None)) == (KEY, None)
    assert encode(GroupRecord(COMMIT, OffsetCommitValue(42, 9, "m", 1000)))[1] == pack(
        ">hqiB1sqB", 4, 42, 9, 2, b"m", 1000, 0
    )
    assert encode(GroupRecord(COMMIT, OffsetCommitValue(42, 9, "m", 1000, 2000)))[1] == pack(
        ">hqh1sqq", 1, 42, 1, b"m", 1000, 2000
    )


def _text(text: str) -> bytes:
    return pack(f">h{len(text)}s", len(text), text.encode())


def _blob(data: bytes) -> bytes:
    return pack(f">i{len(data)}s", len(data), data)


HEAD = _text("c") + pack(">i", 3) + _text("p") + _text("l")
MEMBER = _text("i") + _text("h")
END = pack(">i", 10) + _blob(b"s") + _blob(b"a")
ONE, SINCE, TIMEOUT = pack(">i", 1), pack(">q", 99), pack(">i", 20)
FLEXIBLE_HEAD = b"\x02c" + pack(">i", 3) + b"\x02p\x02l" + SINCE + b"\x02"
FLEXIBLE_MEMBER = b"\x02l\x02x\x02i\x02h" + TIMEOUT + pack(">i", 10) + b"\x02s\x02a\x00"


@pytest.mark.parametrize(
    ("value", "since_ms", "instance_id", "rebalance_timeout_ms"),
    [
        (b"\x00\x00" + HEAD + ONE + _text("l") + MEMBER + END, -1, None, -1),
        (b"\x00\x01" + HEAD + ONE + _text("l") + MEMBER + TIMEOUT + END, -1, None, 20),
        (b"\x00\x02" + HEAD + SINCE + ONE + _text("l") + MEMBER + TIMEOUT + END, 99, None, 20),
        (b"\x00\x03" + HEAD + SINCE + ONE + _text("l") + _text("x") + MEMBER + TIMEOUT + END, 99, "x", 20),
        (b"\x00\x04" + FLEXIBLE_HEAD + FLEXIBLE_MEMBER + b"\x00", 99, "x", 20),
    ],
)
def test_every_version_of_a_classic_group_is_read(
    value: bytes, since_ms: int, instance_id: str | None, rebalance_timeout_ms: int
) -> None:
    member = ClassicMember("l", instance_id, "i", "h", rebalance_timeout_ms, 10, b"s", b"a")
    assert decode(b"\x00\x02\x00\x01g", value) == GroupRecord(
        GroupMetadataKey("g"), GroupMetadataValue("c", 3, "p", "l", since_ms, (member,))
    )


@pytest.mark.parametrize("number", [9, 10, 11, 12, 13, 14, 15, 17, 18, 19, 20, 21, 22, 23, 300])
def test_types_of_other_coordinators_are_no_records(number: int) -> None:
    assert decode(pack(">hh1s", number, 1, b"g"), b"\x00\x00whatever") is None


def test_the_topics_that_brokers_before_4_1_wrote_are_forgotten() -> None:
    key, _ = encode(GroupRecord(ConsumerGroupPartitionMetadataKey("g"), None))
    assert decode(key, b"\x00\x00\x01\x00") == GroupRecord(ConsumerGroupPartitionMetadataKey("g"), None)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (None, b"", "no key"),
        (b"\x00", b"", "no key"),
        (b"\x00\x01\x00\x05g", b"", "the key of an offset is damaged"),
        (b"\x00\x03\x7f\xffg", b"", "the key of a record of type 3 is damaged"),
        (b"\x00\x03\x00\x01\xff", b"", "the key of a record of type 3 is damaged"),
        (KEY, pack(">hq", 5, 1), "the offset at .*'g'.*'orders'.*: version 5 is not known"),
        (KEY, pack(">hq", -1, 1), "version -1 is not known"),
        (b"\x00\x02\x00\x01g", b"\x00\x05", "the record of type 2 at .*'g'.*: version 5 is not known"),
        (b"\x00\x03\x00\x01g", b"\x00\x01", "the record of type 3 at .*'g'.*: version 1 is not known"),
        # An array of more items than there are bytes.
        (b"\x00\x10\x00\x01g\x00\x01r", b"\x00\x00\xff\xff\xff\xff\x07", "the record of type 16"),
    ],
)
def test_damage_names_type_and_group(key: bytes | None, value: bytes, message: str) -> None:
    with pytest.raises(DamagedRecordError, match=message):
        decode(key, value)


@pytest.mark.parametrize(
    "record",
    [
        GroupRecord(OffsetCommitKey("g" * 32_768, "t", 0), None),
        GroupRecord(OffsetCommitKey("g", "t", 0), OffsetCommitValue(1, 1, "m" * 32_768, 1)),
        GroupRecord(ConsumerGroupMemberMetadataKey("g", "m" * 32_768), None),
    ],
)
def test_a_text_that_has_no_room_is_the_clients_fault_and_not_the_coordinators_end(record: GroupRecord) -> None:
    with pytest.raises(KafkaError, match="32768 bytes") as refused:
        encode(record)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_epochs_of_assignments_are_kept_by_topic() -> None:
    other = UUID(int=8)
    value = ConsumerGroupCurrentMemberAssignmentValue(
        4, 3, 1, {TOPIC_ID: (0, 1), other: (2,)}, {other: (9,)}, {TOPIC_ID: (3, 4)}, {other: (2,)}
    )
    record = GroupRecord(ConsumerGroupCurrentMemberAssignmentKey("g", "m"), value)
    assert decode(*encode(record)) == record
