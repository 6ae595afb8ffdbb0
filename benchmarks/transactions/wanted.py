"""The rows of the tables, in their order: their units, and what is wanted of them."""

from collections.abc import Mapping

from benchmarks.round_table import Wanted
from benchmarks.transactions.before import LOADS

SIZES: Mapping[int, tuple[int, float]] = {1: (1, 2.0), 100: (4, 2.0), 10_000: (4, 1.5)}
"""The partitions that a transaction of so many records has, and the wanted ratio of its rate."""
VERSIONS: Mapping[int, str] = {2: "version 2", 1: "version 1"}
"""The transaction versions of clients: of Apache Kafka's own client, and of librdkafka."""
PRODUCERS = 8
IDS = 100_000
HANGING = 1_000
_COMMIT_RATIO, _MEMORY_RATIO, _COMMITTED_SHARE, _NOT_SLOWER, _TURN_MS = 0.7, 0.125, 0.98, 0.97, 5.0

INIT_IDS = f"InitProducerId of {IDS:,} new transactional ids"
MEMORY_OF_IDS = f"memory that {IDS:,} transactional ids take"
ALONE_COMMIT = "EndTxn p99, one producer that pauses"
READ_RATE = "read_committed, none aborted: rate"
READ_PROCESSOR = "read_committed, none aborted: fetches in a second of the broker's processor"
LONGEST_TURN = f"abort of {HANGING:,} hanging transactions: longest iteration"


def rate_of(records: int, version: int) -> str:
    """Return the name of the row."""
    return f"transactions of {records:,} record{'s' if records > 1 else ''}, {VERSIONS[version]}"


def commit_of(version: int) -> str:
    """Return the name of the row."""
    return f"EndTxn p99, {PRODUCERS} producers, {VERSIONS[version]}"


BESIDE_KAFKA: Mapping[str, Wanted] = {
    **{
        rate_of(records, version): Wanted("/s", True, ratio, work="transaction")
        for version in VERSIONS
        for records, (_, ratio) in SIZES.items()
    },
    **{commit_of(version): Wanted("ms", ratio=_COMMIT_RATIO) for version in VERSIONS},
    ALONE_COMMIT: Wanted("ms", ratio=_COMMIT_RATIO),
    READ_RATE: Wanted("x of read_uncommitted", True, own=_COMMITTED_SHARE),
    READ_PROCESSOR: Wanted("x of read_uncommitted", True, own=_COMMITTED_SHARE),
    INIT_IDS: Wanted("/s", True, work="id"),
    MEMORY_OF_IDS: Wanted("MB", ratio=_MEMORY_RATIO),
}
BESIDE_BEFORE: Mapping[str, Wanted] = {
    name: Wanted("requests in a second of processor time", True, _NOT_SLOWER, work="request") for name in LOADS
}
ALONE: Mapping[str, Wanted] = {LONGEST_TURN: Wanted("ms", own=_TURN_MS)}
