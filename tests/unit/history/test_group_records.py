"""The bytes of records in `__consumer_offsets`, as the release that begins their history wrote them.

A line is never changed: a record that is written in another way gets a further one. The tests of
tests/unit/broker_runtime/groups/test_record_codec.py have the versions of Apache Kafka that are only read.
"""

from typing import get_args
from uuid import UUID

import pytest

from broker_runtime.groups import records
from broker_runtime.groups.record_codec import decode, encode
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

HISTORY: list[tuple[GroupRecord, str, str | None]] = [
    (
        GroupRecord(
            OffsetCommitKey("g", "orders", 5), OffsetCommitValue(42, 3, "note", 1_700_000_000_000, None, UUID(int=7))
        ),
        "000100016700066f726465727300000005",
        "0004000000000000002a00000003056e6f74650000018bcfe5680001001000000000000000000000000000000007",
    ),
    (GroupRecord(OffsetCommitKey("g", "orders", 5), None), "000100016700066f726465727300000005", None),
    (
        GroupRecord(
            GroupMetadataKey("g"),
            GroupMetadataValue(
                "consumer",
                3,
                "range",
                "m",
                1_700_000_000_000,
                (ClassicMember("m", "static", "client", "/10.0.0.1", 300_000, 45_000, b"sub", b"assigned"),),
            ),
        ),
        "0002000167",
        "00030008636f6e73756d657200000003000572616e676500016d0000018bcfe568000000000100016d00067374617469630006636c69656e7400092f31302e302e302e31000493e00000afc8000000037375620000000861737369676e6564",
    ),
    (
        GroupRecord(ConsumerGroupMetadataKey("g"), ConsumerGroupMetadataValue(7, 11)),
        "0003000167",
        "000000000007010008000000000000000b",
    ),
    (GroupRecord(ConsumerGroupPartitionMetadataKey("g"), None), "0004000167", None),
    (
        GroupRecord(
            ConsumerGroupMemberMetadataKey("g", "m"),
            ConsumerGroupMemberMetadataValue(
                "static",
                "rack-1",
                "client",
                "/10.0.0.1",
                ("orders",),
                "ord.*",
                45_000,
                "uniform",
                ClassicMemberMetadata(45_000, (ClassicProtocol("range", b"sub"),)),
            ),
        ),
        "000500016700016d",
        "000007737461746963077261636b2d3107636c69656e740a2f31302e302e302e3102076f7264657273066f72642e2a0000afc808756e69666f726d010012010000afc8020672616e6765047375620000",
    ),
    (
        GroupRecord(
            ConsumerGroupTargetAssignmentMetadataKey("g"),
            ConsumerGroupTargetAssignmentMetadataValue(7, 1_700_000_000_000),
        ),
        "0006000167",
        "0000000000070100080000018bcfe56800",
    ),
    (
        GroupRecord(
            ConsumerGroupTargetAssignmentMemberKey("g", "m"),
            ConsumerGroupTargetAssignmentMemberValue({UUID(int=7): (0, 2)}),
        ),
        "000700016700016d",
        "000002000000000000000000000000000000070300000000000000020000",
    ),
    (
        GroupRecord(
            ConsumerGroupCurrentMemberAssignmentKey("g", "m"),
            ConsumerGroupCurrentMemberAssignmentValue(7, 6, 1, {UUID(int=7): (0,)}, {UUID(int=7): (2,)}),
        ),
        "000800016700016d",
        "00000000000700000006010200000000000000000000000000000007020000000000020000000000000000000000000000000702000000020000",
    ),
    (
        GroupRecord(
            ConsumerGroupRegularExpressionKey("g", "ord.*"),
            ConsumerGroupRegularExpressionValue(("orders",), 9, 1_700_000_000_000),
        ),
        "001000016700056f72642e2a",
        "000002076f726465727300000000000000090000018bcfe5680000",
    ),
    (
        GroupRecord(PushMemberKey("g", "c"), PushMemberValue("orders", True, "latest", 45_000, "/10.0.0.1")),
        "7531000167000163",
        "0000076f726465727301076c61746573740000afc80a2f31302e302e302e3100",
    ),
]
NO_STORED_KEYS = {"TransactionEndKey"}
"""Keys of what a coordinator keeps in memory, and stores as a marker of Kafka's."""


@pytest.mark.parametrize(("record", "key", "value"), HISTORY)
def test_a_record_has_its_bytes_and_is_read_from_them(record: GroupRecord, key: str, value: str | None) -> None:
    written_key, written_value = encode(record)
    assert written_key is not None
    assert written_key.hex() == key
    assert (None if written_value is None else written_value.hex()) == value
    assert decode(bytes.fromhex(key), None if value is None else bytes.fromhex(value)) == record


def test_every_kind_of_record_has_a_history() -> None:
    kinds = {kind.__name__ for kind in get_args(records.Key)} - NO_STORED_KEYS
    assert {type(record.key).__name__ for record, _, _ in HISTORY} == kinds
