"""Every packer's output has space for its records; truncated or empty bytes have not."""

import gzip
import time
import zlib
from collections.abc import Callable, Mapping

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.storage.records.record_space import LENGTHS_READ_MAX, has_room
from kafka_bytes.batches import HEADER_BYTES, RECORD_BYTES_MIN, encode_batch
from kafka_bytes.compression import GZIP, LZ4, SNAPPY, ZSTD
from tests.support.logs.packed_batches import PACKERS, xerial
from tests.support.logs.zigzag import varint

HEADER = bytes(HEADER_BYTES)


def zstd_of_a_stream(data: bytes) -> bytes:
    """Zstd without the size of its content."""
    stream = cramjam.zstd.Compressor()
    stream.compress(data)
    return bytes(stream.finish())


def zstd_of_frames(data: bytes) -> bytes:
    """Several frames, one of which has no data, as the format allows."""
    half = len(data) // 2
    skippable = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
    return skippable + zstd_of_a_stream(data[:half]) + PACKERS[ZSTD](data[half:])


def zstd_by_hand(data: bytes) -> bytes:
    """Stored and repeated blocks, and a checksum behind them, which this code does not read."""
    kinds = [(1, 131_072, b"r")] * 2 + [(0, len(part), part) for part in pieces(data, 100_000)]
    blocks = [
        (size << 3 | kind << 1 | (number == len(kinds) - 1)).to_bytes(3, "little") + content
        for number, (kind, size, content) in enumerate(kinds)
    ]
    return b"\x28\xb5\x2f\xfd\x04\x58" + b"".join(blocks) + b"sum!"


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)] or [b""]


def lz4_linked(data: bytes) -> bytes:
    return bytes(cramjam.lz4.compress(data))


def gzip_of_a_stream(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=31)
    return stream.compress(data) + stream.flush(zlib.Z_FULL_FLUSH) + stream.flush()


def gzip_of_members(data: bytes) -> bytes:
    """Several members, as the format allows; the last one is empty."""
    half = len(data) // 2
    return gzip.compress(data[:half]) + gzip.compress(data[half:]) + gzip.compress(b"")


WAYS: Mapping[str, tuple[int, Callable[[bytes], bytes]]] = {
    **{f"codec {codec}": (codec, packer) for codec, packer in PACKERS.items()},
    "gzip stored": (GZIP, lambda data: gzip.compress(data, 0)),
    "gzip of a stream": (GZIP, gzip_of_a_stream),
    "gzip of several members": (GZIP, gzip_of_members),
    "snappy of Java": (SNAPPY, xerial),
    "lz4 linked": (LZ4, lz4_linked),
    "zstd of a stream": (ZSTD, zstd_of_a_stream),
    "zstd of several frames": (ZSTD, zstd_of_frames),
}
EXACT = ("codec 1", "codec 2", "codec 4", "gzip stored", "gzip of a stream", "snappy of Java")
"""Packers whose output states the size of its content."""
PADDED = "zstd by hand"
DATA = (
    st.binary(min_size=RECORD_BYTES_MIN, max_size=300)
    | st.builds(bytes, st.integers(RECORD_BYTES_MIN, 2_000_000))
    | st.binary(min_size=1, max_size=50).map(lambda part: part * 5_000)
)


@pytest.mark.parametrize("way", [*WAYS, PADDED])
@given(data=DATA)
def test_compressed_records_have_room_for_their_number(way: str, data: bytes) -> None:
    codec, packer = (ZSTD, zstd_by_hand) if way == PADDED else WAYS[way]
    body = memoryview(HEADER + packer(data))
    assert has_room(codec, body, len(data) // RECORD_BYTES_MIN)
    assert way not in EXACT or not has_room(codec, body, len(data) // RECORD_BYTES_MIN + 1)


@pytest.mark.parametrize("way", [way for way in WAYS if way != "gzip of several members"])
def test_nothing_has_no_room_for_a_record(way: str) -> None:
    codec, packer = WAYS[way]
    assert not has_room(codec, memoryview(HEADER + packer(b"")), 1)


@pytest.mark.parametrize("way", WAYS)
def test_bytes_that_are_cut_short_raise_nothing(way: str) -> None:
    codec, packer = WAYS[way]
    whole = packer(b"some bytes " * 20)
    for end in range(len(whole)):
        has_room(codec, memoryview(HEADER + whole[:end]), 2)


@given(codec=st.sampled_from(sorted(PACKERS)), body=st.binary(max_size=60), count=st.integers(1, 2**31 - 1))
def test_bytes_that_are_nothing_raise_nothing(codec: int, body: bytes, count: int) -> None:
    has_room(codec, memoryview(HEADER + body), count)


def test_blocks_bound_what_they_unpack_to() -> None:
    body = memoryview(HEADER + zstd_by_hand(b"x" * 70))
    most = 2 * 131_072 + 70
    assert has_room(ZSTD, body, most // RECORD_BYTES_MIN)
    assert not has_room(ZSTD, body, most // RECORD_BYTES_MIN + 1)


@pytest.mark.parametrize(
    ("codec", "begin", "empty"),
    [
        (SNAPPY, xerial(b"")[:16], b"\x00\x00\x00\x01\x00"),
        (ZSTD, b"\x28\xb5\x2f\xfd\x00\x58", b"\x00\x00\x00"),
        (ZSTD, b"", b"\x50\x2a\x4d\x18\x00\x00\x00\x00"),
    ],
    ids=["snappy", "blocks of zstd", "frames of zstd without data"],
)
def test_endless_empty_blocks_are_neither_followed_nor_believed(codec: int, begin: bytes, empty: bytes) -> None:
    """A megabyte of them would take up to a second."""
    body = memoryview(HEADER + begin + empty * 200_000)
    began_s = time.thread_time()
    assert not has_room(codec, body, 2)
    assert time.thread_time() - began_s < 0.01


@given(st.lists(st.tuples(st.none() | st.binary(max_size=20), st.binary(max_size=20_000)), min_size=1, max_size=9))
def test_records_have_room_for_themselves(records: list[tuple[bytes | None, bytes]]) -> None:
    batch = memoryview(encode_batch(records, 5))
    assert has_room(0, batch, len(records))
    assert not has_room(0, batch, len(batch))
    if len(records) <= LENGTHS_READ_MAX:
        assert not has_room(0, batch, len(records) + 1)
        assert not has_room(0, batch[:-1], len(records))


@given(st.integers(-(2**40), 2**40))
def test_a_length_is_read_as_others_write_it(length: int) -> None:
    body = varint(length) + bytes(100)
    assert has_room(0, memoryview(HEADER + body), 1) == (len(body) == len(varint(length)) + length)
