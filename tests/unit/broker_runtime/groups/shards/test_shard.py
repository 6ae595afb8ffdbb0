"""A shard reads a log that coordinators of other kinds of groups have written to."""

import logging

import pytest

from broker_runtime.groups.record_codec import encode
from broker_runtime.groups.records import GroupRecord, OffsetCommitKey, OffsetCommitValue
from tests.support.groups.coordinating_broker import CoordinatingBroker

SHARE_GROUP, STREAMS_GROUP = b"\x00\x0a\x00\x01s", b"\x00\x11\x00\x01s"


async def test_records_of_groups_that_are_not_served_stay_and_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async with CoordinatingBroker(partitions=1) as node:
        await node.lead()
        for other in (SHARE_GROUP, STREAMS_GROUP, SHARE_GROUP):
            node.append(other, b"\x00\x00whatever")
        key, value = encode(GroupRecord(OffsetCommitKey("billing", "orders", 0), OffsetCommitValue(5, -1, "", 1)))
        assert key is not None
        assert value is not None
        node.append(key, value)
        end = node.leader().log.log_end_offset
        with caplog.at_level(logging.INFO, "broker_runtime.groups.shards.shard"):
            await node.lead()
        state = node.groups.term_of("billing").state
        assert state.offsets.of("billing")["orders", 0].offset == 5
        assert (state.next_offset, list(state.groups)) == (end, ["billing"])
        (told,) = [record.getMessage() for record in caplog.records]
        assert told.endswith("they are kept: 2 of type 10, 1 of type 17")
