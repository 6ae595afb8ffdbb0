"""Transactions of protocol version 2 (KIP-890), request by request: no client that is tested here speaks it.

Partitions are added by the first Produce, groups by TxnOffsetCommit, and each EndTxn returns the next epoch.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_bytes.batches import TRANSACTIONAL, ProducerStamp, encode_batch
from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.clients.broker_admin import until
from tests.support.processes.clients.wire_client import WireClient
from tests.support.transactions.clients import COMMITTED, TIMEOUT_S, UNCOMMITTED, end_offset, read_all

PROPERTIES = {
    "num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
}
GROUP = "readers"


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess(properties=PROPERTIES) as running:
        yield running


class Producer:
    """A producer of version 2 over one connection. Its methods return the names of error codes."""

    def __init__(self, client: WireClient, transactional_id: str) -> None:
        self.client, self.name = client, transactional_id
        self.sequence = 0
        until(lambda: self._find() == "none", "the id has a coordinator")
        until(lambda: self._init() == "none", "the id has a producer")

    def _find(self) -> str:
        asked = {"key_type": 1, "coordinator_keys": [self.name]}
        return str(self.client.ask("find_coordinator", 4, **asked)["coordinators"][0]["error_code"])

    def _init(self) -> str:
        asked = {"transactional_id": self.name, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
        answer = self.client.ask("init_producer_id", 5, **asked)
        self.producer_id, self.epoch = answer["producer_id"], answer["producer_epoch"]
        return str(answer["error_code"])

    def send(self, topic: str, value: str, *, epoch: int | None = None, sequence: int | None = None) -> str:
        at = self.sequence if sequence is None else sequence
        stamp = ProducerStamp(self.producer_id, self.epoch if epoch is None else epoch, at)
        records = encode_batch([(None, value.encode())], 0, stamp, attributes=TRANSACTIONAL)
        data = {"name": topic, "partition_data": [{"index": 0, "records": records}]}
        asked: Mapping[str, Any] = {"transactional_id": self.name, "acks": -1, "timeout": 30_000, "topic_data": [data]}
        answer = self.client.ask("produce", 12, **asked)
        code = str(answer["responses"][0]["partition_responses"][0]["error_code"])
        if code == "none":
            self.sequence = at + 1
        return code

    def send_offset(self, topic: str, offset: int) -> str:
        partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
        answer = self.client.ask(
            "txn_offset_commit",
            5,
            transactional_id=self.name,
            group_id=GROUP,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[{"name": topic, "partitions": [partition]}],
        )
        return str(answer["topics"][0]["partitions"][0]["error_code"])

    def end(self, *, is_commit: bool, epoch: int | None = None) -> tuple[str, int]:
        """Return the error and the next epoch."""
        answer = self.client.ask(
            "end_txn",
            5,
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            committed=is_commit,
        )
        return str(answer["error_code"]), int(answer["producer_epoch"])

    def next_transaction(self, epoch: int) -> None:
        self.epoch, self.sequence = epoch, 0


def offset_of(client: WireClient, topic: str) -> tuple[int, str]:
    """The group's stable offset, and the error."""
    group = {"group_id": GROUP, "topics": [{"name": topic, "partition_indexes": [0]}]}
    answer = client.ask("offset_fetch", 8, groups=[group], require_stable=True)
    (part,) = answer["groups"][0]["topics"][0]["partitions"]
    return part["committed_offset"], part["error_code"]


def test_partitions_and_groups_are_added_by_their_first_request_and_each_end_has_a_new_epoch(
    broker: BrokerProcess,
) -> None:
    with WireClient((broker.host, broker.port())) as client:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("second", 1)])["second"].result(TIMEOUT_S)
        until(lambda: end_offset(broker.bootstrap, "second", UNCOMMITTED) == 0, "the topic exists")
        client.ask("find_coordinator", 4, key_type=0, coordinator_keys=[GROUP])
        producer = Producer(client, "version-2")
        assert producer.send("second", "a") == "none"
        until(lambda: producer.send_offset("second", 7) == "none", "the group's coordinator is loaded")
        assert offset_of(client, "second") == (-1, "unstable_offset_commit")
        first = producer.epoch
        assert producer.end(is_commit=True) == ("none", first + 1)
        until(lambda: offset_of(client, "second") == (7, "none"), "the offset counts")
        # A retry of the same EndTxn has the same answer, and the old epoch writes nothing any more.
        until(lambda: producer.end(is_commit=True, epoch=first) == ("none", first + 1), "the transaction is complete")
        assert producer.send("second", "late", epoch=first) == "invalid_producer_epoch"
        producer.next_transaction(first + 1)
        # The first batch of an epoch has sequence 0.
        assert producer.send("second", "gap", sequence=3) == "out_of_order_sequence_number"
        assert producer.send("second", "b", sequence=0) == "none"
        assert producer.end(is_commit=False) == ("none", first + 2)
        producer.next_transaction(first + 2)
        # The coordinator may still end the last transaction; the leader asks again for a while.
        until(lambda: producer.send("second", "c") == "none", "the last transaction has ended")
        assert producer.end(is_commit=True) == ("none", first + 3)
        until(lambda: end_offset(broker.bootstrap, "second", COMMITTED) == 6, "the markers are written")
        # An abort of a transaction without partitions is legal, because the client may not know.
        producer.next_transaction(first + 3)
        until(lambda: producer.end(is_commit=False) == ("none", first + 4), "the empty transaction is aborted")
    assert read_all(broker.bootstrap, "second", COMMITTED) == ["a", "c"]
    assert read_all(broker.bootstrap, "second", UNCOMMITTED) == ["a", "b", "c"]
