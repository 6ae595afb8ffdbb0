from dataclasses import dataclass

import msgspec
import pytest

from audit_pipeline.sources.remembered import packed, unpacked


@dataclass(frozen=True, slots=True)
class Entry:
    path: str
    rows: int


ENTRIES = [Entry(f"request/{number:08d}.parquet", number) for number in range(20_000)]


def test_entries_come_back_and_the_same_entries_give_the_same_bytes() -> None:
    state = packed(ENTRIES)
    assert list(unpacked(state, Entry)) == ENTRIES
    assert (packed(ENTRIES), list(unpacked(packed([]), Entry))) == (state, [])


def test_a_state_takes_a_tenth_of_its_text() -> None:
    assert len(packed(ENTRIES)) < len(msgspec.json.encode(ENTRIES)) / 8


@pytest.mark.parametrize("state", [packed(ENTRIES)[:-20], b"[]", b"", packed(ENTRIES)[:100] + b"\0" * 50])
def test_a_damaged_state_is_an_error(state: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        list(unpacked(state, Entry))


def test_a_state_of_another_source_is_an_error() -> None:
    with pytest.raises(msgspec.ValidationError):
        list(unpacked(packed([{"7": 3}]), Entry))
