"""A coordinator that is killed after it has promised a commit, and before the markers are written."""

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.processes.broker_process import BrokerGroup
from tests.support.processes.clients.broker_admin import until
from tests.support.processes.clients.wire_client import ConnectionEnded, WireClient
from tests.support.transactions.clients import (
    COMMITTED,
    TIMEOUT_S,
    ConfluentProducer,
    end_offset,
    read_all,
)

PROPERTIES = {
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "6000",
}
TOPIC = "kills"


@pytest.fixture(scope="module")
def group() -> Iterator[BrokerGroup]:
    with BrokerGroup(3, properties=PROPERTIES) as running:
        yield running


def coordinator_of(group: BrokerGroup, transactional_id: str) -> int | None:
    """The node that coordinates the id; None while none does."""
    for broker in group.brokers:
        if not broker.is_running:
            continue
        asked = {"key_type": 1, "coordinator_keys": [transactional_id]}
        try:
            with WireClient((broker.host, broker.port())) as client:
                (found,) = client.ask("find_coordinator", 4, **asked)["coordinators"]
        except (ConnectionEnded, OSError):
            # A fenced broker serves no clients. On a slow machine this happens to one that runs.
            continue
        if found["error_code"] == "none":
            return int(found["node_id"])
    return None


@pytest.mark.full
def test_the_next_coordinator_writes_the_markers_of_a_commit_that_was_promised(group: BrokerGroup) -> None:
    admin = AdminClient({"bootstrap.servers": group.bootstrap})
    until(lambda: coordinator_of(group, "payments") is not None, "a broker coordinates the id")
    coordinator = coordinator_of(group, "payments")
    assert coordinator is not None
    # The partition's only replica is on a broker that is neither the coordinator nor, later, its successor in doubt.
    others = [broker.node_id for broker in group.brokers if broker.node_id != coordinator]
    leader = others[0]
    topic = NewTopic(TOPIC, 1, replica_assignment=[[leader]])
    admin.create_topics([topic])[TOPIC].result(TIMEOUT_S)
    producer = ConfluentProducer(group.bootstrap, "payments")
    producer.begin()
    producer.send(TOPIC, ["promised"])
    # The leader cannot write the marker now, but the coordinator answers as soon as its own record is replicated.
    paused = next(broker for broker in group.brokers if broker.node_id == leader)
    killed = next(broker for broker in group.brokers if broker.node_id == coordinator)
    paused.pause()
    try:
        producer.commit()
        killed.kill()
    finally:
        paused.resume()
    until(lambda: end_offset(paused.bootstrap, TOPIC, COMMITTED) == 2, "the next coordinator writes the marker")
    assert read_all(paused.bootstrap, TOPIC, COMMITTED) == ["promised"]
    until(lambda: coordinator_of(group, "payments") not in (None, coordinator), "another broker coordinates the id")
    heir = ConfluentProducer(paused.bootstrap, "payments")
    heir.begin()
    heir.send(TOPIC, ["next"])
    heir.commit()
    until(lambda: end_offset(paused.bootstrap, TOPIC, COMMITTED) == 4, "the marker is written")
    assert read_all(paused.bootstrap, TOPIC, COMMITTED) == ["promised", "next"]
