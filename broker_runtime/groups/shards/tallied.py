"""Counts applied records in the tally of a broker. Pure."""

from broker_runtime.groups.records import (
    ConsumerGroupMetadataKey,
    GroupMetadataKey,
    GroupMetadataValue,
    GroupRecord,
    OffsetCommitKey,
)
from broker_runtime.groups.tally import Tally


def add_to(tally: Tally, record: GroupRecord, *, expired: bool) -> None:
    """Count an applied record in `tally`.

    `expired`: the record is the tombstone of an offset that no request has deleted.
    """
    key, value = record
    if isinstance(key, OffsetCommitKey):
        if value is not None:
            tally.offset_commits += 1
        elif expired:
            tally.offset_expirations += 1
        else:
            tally.offset_deletions += 1
    elif isinstance(key, GroupMetadataKey):
        tally.classic_rebalances += isinstance(value, GroupMetadataValue) and bool(value.members)
    elif isinstance(key, ConsumerGroupMetadataKey):
        tally.consumer_rebalances += value is not None
