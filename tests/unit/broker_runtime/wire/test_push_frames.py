"""Frames of consumers that the broker refuses: its errors name the field, or what is malformed."""

import pytest

from broker_runtime.errors import ProtocolError
from broker_runtime.wire.push_frames import UnfitError, partition_number, read_message
from kafka_bytes.push import layouts


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("7532 ffff", "-1 bytes"),
        ("7532 0401" + "61" * 0x401, "ends in the middle"),
        ("7532 0001 ff", "UTF-8"),
        ("7532 0000 0000 0000", "ends in the middle"),
        ("7532 0000 0000 0000 02", "ends in the middle"),
        ("7532 0000 0000 0000 02 0000 00000000 00", "1 bytes follow"),
        ("7531 0000", "30002"),
    ],
)
def test_an_invalid_registration_is_malformed(body: str, why: str) -> None:
    with pytest.raises(ProtocolError, match=why) as raised:
        read_message(layouts.REGISTER_CONSUMER_REQUEST, memoryview(bytes.fromhex(body)))
    assert not isinstance(raised.value, UnfitError)


@pytest.mark.parametrize(
    ("body", "field", "why"),
    [
        ("0401" + "61" * 0x401 + "0000 0000 01 0000 00000000", "group_id", "1025 bytes"),
        ("0000 0401" + "61" * 0x401 + "0000 01 0000 00000000", "consumer_id", "1025 bytes"),
        ("0000 0000 0000 02 0000 00000000", "auto_commit", "a boolean must be 0 or 1, not 2"),
        ("0000 0000 0000 01 0011" + "61" * 0x11 + "00000000", "auto_offset_rest", "17 bytes"),
        ("0000 0000 0000 02 0011" + "61" * 0x11 + "00000000", "auto_commit", "a boolean must be 0 or 1"),
    ],
)
def test_a_registration_with_a_value_beyond_its_limit_names_the_first_such_field(
    body: str, field: str, why: str
) -> None:
    with pytest.raises(UnfitError, match=why) as raised:
        read_message(layouts.REGISTER_CONSUMER_REQUEST, memoryview(bytes.fromhex("7532" + body)))
    assert raised.value.field == field


@pytest.mark.parametrize(
    "text", ["", "-", "1-", "-1", "-1-0", "1-2-3", "a", "1-a", " 1", "1\n", "٣", "2147483648", "1" * 21]
)
def test_what_names_no_partition_is_refused(text: str) -> None:
    with pytest.raises(ProtocolError):
        partition_number(text)
