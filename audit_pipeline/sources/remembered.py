"""The state of a source as builds store it: a line of JSON for each entry, compressed. Pure.

A hundred thousand files have 57 MB of JSON: neither side has all of it in memory.
"""

import zlib
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeVar

import msgspec

_GZIP: Final = 31
"""zlib's code of gzip's format without a time: the same entries give the same bytes.

Names of such files must not end in .gz: Arrow would compress and decompress them once more.
"""
_FAST: Final = 1
_READ_BYTES: Final = 64 * 1024
T = TypeVar("T")


def packed(entries: Iterable[Any]) -> bytes:
    """Return the bytes of a state with these entries."""
    encoder, compressor = msgspec.json.Encoder(), zlib.compressobj(_FAST, wbits=_GZIP)
    parts = [compressor.compress(encoder.encode(entry) + b"\n") for entry in entries]
    return b"".join([*parts, compressor.flush()])


def unpacked(state: bytes, kind: type[T]) -> Iterator[T]:
    """Yield the entries of a stored state of a scan.

    Raises msgspec.ValidationError for an entry that is not of type `kind`, DecodeError for a damaged state.
    """
    decoder = msgspec.json.Decoder(kind)
    for line in _lines(state):
        yield decoder.decode(line)


def _lines(state: bytes) -> Iterator[bytes]:
    decompressor, rest = zlib.decompressobj(wbits=_GZIP), b""
    try:
        for first in range(0, len(state), _READ_BYTES):
            *lines, rest = (rest + decompressor.decompress(state[first : first + _READ_BYTES])).split(b"\n")
            yield from lines
    except zlib.error as error:
        raise msgspec.DecodeError(f"it cannot be decompressed: {error}") from error
    if rest or not decompressor.eof:
        raise msgspec.DecodeError("it is cut off")
