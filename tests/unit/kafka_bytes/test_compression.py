"""Compressed records that end too early."""

import pytest

from kafka_bytes.compression import SNAPPY, XERIAL_HEADER_BYTES, CutShortError, unpack
from tests.support.logs.packed_batches import xerial


@pytest.mark.parametrize("length", range(8, XERIAL_HEADER_BYTES))
def test_the_header_of_javas_blocks_must_be_whole(length: int) -> None:
    with pytest.raises(CutShortError):
        unpack(SNAPPY, memoryview(xerial(b"value"))[:length], 1_000)


def test_blocks_of_java_may_have_no_data() -> None:
    assert unpack(SNAPPY, memoryview(xerial(b"")), 1_000) == b""
