"""Decompresses the records of a batch. Pure; `kafka_bytes.compression` has the codecs.

Raises CorruptRecordsError for invalid data, and for data that decompresses to more than the limit.
"""

from kafka_bytes import compression
from kafka_bytes.compression import GZIP, NAMES, SNAPPY, CutShortError, UnpackedTooLargeError
from kafka_bytes.errors import FormatError
from sluicegate_consumer.errors import CorruptRecordsError

NONE = 0
_CUT_SHORT = {GZIP: "a gzip batch ends too early", SNAPPY: "a snappy block is cut off"}


def unpack(codec: int, packed: memoryview, limit: int) -> bytes | memoryview:
    if codec == NONE:
        return packed
    if codec not in NAMES:
        raise CorruptRecordsError(f"a batch is compressed with the unknown codec {codec}")
    try:
        return compression.unpack(codec, packed, limit)
    except UnpackedTooLargeError:
        raise CorruptRecordsError(f"a decompressed batch has more than Settings.unpacked_bytes_max={limit}") from None
    except CutShortError:
        raise CorruptRecordsError(_CUT_SHORT[codec]) from None
    except FormatError as error:
        what = "is not valid gzip data" if codec == GZIP else "cannot be decompressed"
        raise CorruptRecordsError(f"a batch {what}: {error}") from error
