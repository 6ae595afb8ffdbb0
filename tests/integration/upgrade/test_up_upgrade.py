"""`sluicegate up` of the previous release is followed by this one's on the same folder, and the reverse.

Records, committed offsets, dynamic configuration and the audit log stay. The manifests are the previous release's.
"""

import shutil
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from audit_pipeline.reading.query import Events
from audit_pipeline.spool.targets import FolderTarget
from audit_pipeline.upkeep.check import check
from tests.support.obtain.previous_release import left_out, previous_release
from tests.support.processes.broker_process import ROOT
from tests.support.processes.local_fleet import LocalUp, copy_quickstart

pytestmark = [pytest.mark.full, pytest.mark.skipif(left_out() is not None, reason=left_out() or "")]

TOPIC, PARTITIONS, GROUP, AT_ONCE = "orders", 6, "billing", 60
PRODUCED = "SELECT sum(records) FROM partition WHERE api_key = 0"


def produce(up: LocalUp) -> None:
    producer = Producer({"bootstrap.servers": up.bootstrap(), "acks": "all", "message.timeout.ms": 60_000})
    acknowledged: list[bool] = []
    for number in range(AT_ONCE):
        value = b"%d" % number
        producer.produce(
            TOPIC, value, partition=number % PARTITIONS, on_delivery=lambda error, _: acknowledged.append(error is None)
        )
    producer.flush(60)
    assert acknowledged == [True] * AT_ONCE


def read_and_commit(up: LocalUp) -> Sequence[int]:
    """Read what the group has not committed yet, commit it, and return the number of records and the offsets."""
    settings = {"bootstrap.servers": up.bootstrap(), "group.id": GROUP, "auto.offset.reset": "earliest"}
    with closing(Consumer(settings | {"enable.auto.commit": False})) as consumer:
        consumer.subscribe([TOPIC])
        found = 0
        while found < AT_ONCE:
            messages = consumer.consume(AT_ONCE, timeout=60)
            assert messages, f"{found} records only"
            assert [message.error() for message in messages] == [None] * len(messages)
            found += len(messages)
        consumer.commit(asynchronous=False)
        asked = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
        return [found, *(each.offset for each in consumer.committed(asked, timeout=60))]


def test_up_continues_with_the_data_of_the_other_release(tmp_path: Path) -> None:
    old, data = previous_release(), tmp_path / "data"
    manifests = copy_quickstart(tmp_path, brokers=2, checkout=old)
    shutil.copy(old / "examples" / "observers" / "audit-log.yaml", manifests / "audit-log.yaml")
    for round_, checkout in enumerate((old, ROOT, old, ROOT), 1):
        with LocalUp(manifests, data, checkout=checkout) as up:
            up.wait_until(partial(up.all_online, 2), "both brokers are online")
            produce(up)
            each = round_ * AT_ONCE // PARTITIONS
            assert read_and_commit(up) == [AT_ONCE, *[each] * PARTITIONS], "what was committed is not read again"
            assert up.stop() == 0
    target = FolderTarget(data / "shop" / "audit")
    assert check(target).findings == []
    assert Events(target).ask(PRODUCED)[1] == [(4 * AT_ONCE,)]
