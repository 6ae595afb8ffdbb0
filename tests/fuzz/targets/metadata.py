"""Records and snapshots of the metadata log, as each node reads them from a controller and from its disk."""

import random
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache

from broker_runtime.metadata.codec import RecordFormatError, decode_record, encode_record
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.snapshots import SnapshotFormatError, load_in_steps, snapshot_pieces
from broker_runtime.slicing.steps import at_once
from kafka_bytes.batches import encode_batch
from tests.fuzz.target import Cut, Target, kept
from tests.fuzz.targets.records import mended

_RECORDS = "metadata-record"
_END = 1_000
_NOW_MS = 1_700_000_000_000


def _record(data: bytes) -> None:
    with suppress(RecordFormatError):
        record = decode_record(data)
        written = encode_record(record)
        assert encode_record(decode_record(written)) == written
        image = MetadataImage()
        with suppress(ValueError):
            image.apply(record, 0)


def _history(data: bytes) -> None:
    """A log of records: each one is applied, or refused without a change."""
    image = MetadataImage()
    for part in Cut(data).parts():
        before = list(image.records())
        with suppress(RecordFormatError):
            record = decode_record(part)
            try:
                image.apply(record, image.next_offset)
            except ValueError:
                assert list(image.records()) == before
    again = at_once(MetadataImage.of_snapshot(image.records(), image.next_offset))
    assert list(again.records()) == list(image.records())


def _snapshot(data: bytes) -> None:
    cut = Cut(data)
    payload = mended(cut.rest()) if cut.number(2) else cut.rest()
    with suppress(SnapshotFormatError):
        image = at_once(load_in_steps(payload, _END))
        again = at_once(load_in_steps(b"".join(snapshot_pieces(image, _NOW_MS)), _END))
        assert list(again.records()) == list(image.records())


@cache
def _written() -> Sequence[bytes]:
    """Return a record of each type, which the corpus has."""
    return list(kept(_RECORDS))


def _histories() -> Iterable[bytes]:
    rng = random.Random(0)
    known = [each for each in _written() if len(each) < 256]
    yield b"".join(bytes((len(each),)) + each for each in known)
    for _ in range(5):
        some = rng.sample(known, 8)
        yield b"".join(bytes((len(each),)) + each for each in some)


def _snapshots() -> Iterable[bytes]:
    yield b"\x01" + encode_batch([(None, each) for each in _written()], _NOW_MS)
    yield b"\x01" + encode_batch([(None, _written()[0])], _NOW_MS)


TARGETS = (
    Target(_RECORDS, _record, lambda: ()),
    Target("metadata-history", _history, _histories),
    Target("metadata-snapshot", _snapshot, _snapshots),
)
