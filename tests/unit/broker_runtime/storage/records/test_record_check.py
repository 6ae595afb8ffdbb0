"""The results of a check of every record, in every compression, and within bounds."""

import gzip
import tracemalloc
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, KafkaError, RecordsRefusedError
from broker_runtime.storage.records.record_check import ERRORS_MAX, check_records, is_quick
from kafka_bytes import compression
from kafka_bytes.batches import HEADER_BYTES, encode_batch
from tests.support.logs.packed_batches import PACKERS, packed, with_body, xerial

COMPACT = TopicConfig(cleanup_policy=("compact",))
ALL = TopicConfig(sluicegate_record_validation="all")
LIMIT = 1_000_000
WHERE = "orders-0"
KEYED = encode_batch([(b"key", b"value"), (b"k", None), (b"", b"v" * 200)], 5)
WAYS: list[tuple[int, Callable[[bytes], bytes]]] = [*PACKERS.items(), (2, xerial)]


def refused(batch: bytes, config: TopicConfig = COMPACT, limit: int = LIMIT) -> KafkaError:
    with pytest.raises(KafkaError) as error:
        check_records(batch, config, limit, WHERE)
    return error.value


def bad_records(batch: bytes, config: TopicConfig = COMPACT) -> list[int]:
    error = refused(batch, config)
    assert isinstance(error, RecordsRefusedError)
    assert error.code == ErrorCode.INVALID_RECORD
    assert error.message is not None
    return [index for index, _ in error.records]


@pytest.mark.parametrize(("codec", "packer"), WAYS)
def test_good_records_pass_in_every_packing(codec: int, packer: Callable[[bytes], bytes]) -> None:
    check_records(KEYED, COMPACT, LIMIT, WHERE)
    check_records(packed(codec, KEYED, packer), COMPACT, LIMIT, WHERE)
    large = encode_batch([(b"%d" % number, bytes(100)) for number in range(2_000)], 5)
    check_records(packed(codec, large, packer), ALL, LIMIT, WHERE)


@pytest.mark.parametrize(("codec", "packer"), [(0, bytes), *WAYS])
def test_records_without_keys_are_named(codec: int, packer: Callable[[bytes], bytes]) -> None:
    batch = encode_batch([(b"k", b"v"), (None, b"v"), (b"k", b"v"), (None, None)], 5)
    sent = packed(codec, batch, packer)
    assert bad_records(sent) == [1, 3]
    assert "without key" in (refused(sent).message or "")
    check_records(sent, ALL, LIMIT, WHERE)


def test_only_some_of_very_many_bad_records_are_named() -> None:
    batch = encode_batch([(None, b"v")] * 1_000, 5)
    assert bad_records(batch) == list(range(ERRORS_MAX))
    assert "1000 of the batch's records" in (refused(batch).message or "")


def test_bad_records_that_are_not_named_take_no_memory() -> None:
    batch = encode_batch([(None, b"v")] * 50_000, 5)
    tracemalloc.start()
    try:
        refused(batch)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * len(batch)


@pytest.mark.parametrize("codec", [0, 1])
def test_records_that_do_not_fit_their_header_are_found(codec: int) -> None:
    body = KEYED[HEADER_BYTES:]
    for wrong in (bytes(len(body)), body[:-1], body + b"\x00", body[1:], b"\xff" * 60, body.replace(b"key", b"")):
        sent = with_body(codec, KEYED, gzip.compress(wrong) if codec else wrong)
        assert bad_records(sent, ALL)


@pytest.mark.parametrize("codec", PACKERS)
def test_what_cannot_be_unpacked_is_refused(codec: int) -> None:
    whole = packed(codec, KEYED)[HEADER_BYTES:]
    for body in (whole[:-3], whole[:8] + bytes(30), b""):
        error = refused(with_body(codec, KEYED, body), ALL)
        assert error.code == ErrorCode.INVALID_RECORD
        assert error.message


@pytest.mark.parametrize(("codec", "packer"), WAYS)
def test_unpacking_is_bounded(codec: int, packer: Callable[[bytes], bytes]) -> None:
    bomb = with_body(codec, KEYED, packer(bytes(3 * LIMIT)))
    assert refused(bomb, ALL).code == ErrorCode.MESSAGE_TOO_LARGE


def test_without_a_decompressor_the_broker_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(compression, "import_module", missing)
    error = refused(packed(4, KEYED))
    assert error.code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert "cramjam" in (error.message or "")
    check_records(packed(1, KEYED), COMPACT, LIMIT, WHERE)


def test_long_and_compressed_batches_belong_into_another_thread() -> None:
    assert is_quick(memoryview(KEYED))
    assert not is_quick(memoryview(packed(1, KEYED)))
    assert not is_quick(memoryview(encode_batch([(b"k", b"v")] * 101, 5)))


@given(st.binary(max_size=120))
def test_arbitrary_records_are_accepted_or_rejected_without_a_crash(body: bytes) -> None:
    for codec in range(5):
        with suppress(KafkaError):
            check_records(with_body(codec, KEYED, body), COMPACT, 10_000, WHERE)
