"""Produce and Fetch in the versions that name topics by id, and their statements about new leaders (KIP-951)."""

from typing import Any
from uuid import UUID

import pytest

from broker_runtime.apis.fetch import fetch
from broker_runtime.apis.produce import produce
from broker_runtime.apis.request.context import ApiSpec
from broker_runtime.errors import ErrorCode, KafkaError, ProtocolError
from broker_runtime.metadata.areas.topics import Partition, PartitionRecord, RemoveTopic, TopicRecord
from broker_runtime.observers.samples import sample_request
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.wire.messages import decode_response
from broker_runtime.wire.reply import FileRegion, PendingReply
from kafka_bytes.batches import encode_batch
from tests.support.logs.logs import TOPIC_ID, LogHouse
from tests.support.logs.replicas import LeadingNode, leading
from tests.support.requests.calls import handled, handled_call
from tests.support.requests.request_frames import encode_request
from tests.support.worlds.controller import Metadata

PRODUCE, FETCH = 0, 1
STRANGER = UUID(int=77)
EPOCH = 4


class Node(LeadingNode):
    """Broker 1, which leads orders-0 until `lose_to`."""

    def __init__(self, replicas: tuple[int, ...] = (1,)) -> None:
        self.house = LogHouse()
        super().__init__(leading(self.house.log, *replicas, epoch=EPOCH), self.house.clock)
        self.leads = True

    def led(self, topic: str, partition: int) -> LeaderReplica:
        if not self.leads:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "not here")
        return super().led(topic, partition)

    def lose_to(self, leader: int, *, fenced: bool = False) -> None:
        """Let the metadata name another leader."""
        self.leads = False
        metadata = Metadata()
        metadata.broker(2, rack="far", fenced=fenced)
        metadata.write(TopicRecord("orders", TOPIC_ID), PartitionRecord(TOPIC_ID, 0, (1, 2), (2,), leader, 9, 9))
        self.image = metadata.image

    def ask(self, api: ApiSpec[Any], version: int, content: dict[str, Any], **of: Any) -> Any:
        frame = memoryview(encode_request(api.key, version, 1, content))[4:]
        reply = handled(api, frame, self, **of)
        return None if isinstance(reply, PendingReply) else told(api, version, reply)


def told(api: ApiSpec[Any], version: int, reply: Any) -> Any:
    whole = b"".join(part.read() if isinstance(part, FileRegion) else part for part in reply)
    return decode_response(api.key, version, memoryview(whole)[9:])


def records() -> bytes:
    return encode_batch([(b"k", b"v")], 1_000)


def to(version: int, *topics: UUID, acks: int = 1, index: int = 0) -> dict[str, Any]:
    named = [{"topic_id": topic_id} if version >= 13 else {"name": "orders"} for topic_id in topics]
    parts = [{"index": index, "records": records()}]
    return {
        "transactional_id": None,
        "acks": acks,
        "timeout": 1000,
        "topic_data": [topic | {"partition_data": parts} for topic in named],
    }


def of(
    version: int, *topics: UUID, epoch: int = -1, session: tuple[int, int] = (0, -1), wait_ms: int = 0
) -> dict[str, Any]:
    part = {"partition": 0, "current_leader_epoch": epoch, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    named = [{"topic_id": topic_id} if version >= 13 else {"topic": "orders"} for topic_id in topics]
    return {
        "max_wait": wait_ms,
        "min_bytes": 0,
        "isolation_level": 0,
        "session_id": session[0],
        "session_epoch": session[1],
        "topics": [topic | {"partitions": [part]} for topic in named],
        "forgotten_topics_data": [],
    }


def test_produce_accepts_a_topic_id_and_reports_an_unknown_one() -> None:
    node = Node()
    answer = node.ask(produce.API, 13, to(13, TOPIC_ID, STRANGER))
    found = {topic.topic_id: topic.partition_responses[0].error_code for topic in answer.responses}
    assert found == {TOPIC_ID: ErrorCode.NONE, STRANGER: ErrorCode.UNKNOWN_TOPIC_ID}
    assert node.house.log.log_end_offset == 1
    (refused,) = node.ask(produce.API, 13, to(13, TOPIC_ID, index=5)).responses[0].partition_responses
    assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_observer_of_produce_receives_topic_names_and_the_id_of_an_unknown_topic() -> None:
    frame = memoryview(encode_request(PRODUCE, 13, 1, to(13, TOPIC_ID, STRANGER)))[4:]
    call, _ = handled_call(produce.API, frame, Node(), details=True)
    assert call.partitions is not None
    assert [(facts[0], facts[-1]) for facts in call.partitions] == [
        ("orders", ErrorCode.NONE),
        ("AAAAAAAAAAAAAAAAAAAATQ", ErrorCode.UNKNOWN_TOPIC_ID),
    ]


def test_an_unknown_topic_id_with_acks_0_ends_the_connection() -> None:
    with pytest.raises(ProtocolError, match=r"topic id .* does not exist"):
        Node().ask(produce.API, 13, to(13, STRANGER, acks=0))


@pytest.mark.parametrize("version", range(9, 14))
@pytest.mark.parametrize(("leader", "fenced"), [(2, False), (2, True), (-1, False)])
def test_a_producers_answer_has_the_new_leader_from_version_10_on(version: int, leader: int, fenced: bool) -> None:
    node = Node()
    node.lose_to(leader, fenced=fenced)
    answer = node.ask(produce.API, version, to(version, TOPIC_ID))
    (part,) = answer.responses[0].partition_responses
    assert part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert part.error_message == "not here"
    if version >= 10:
        assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (leader, 9)
        check_endpoints(answer, leader, fenced)


def check_endpoints(answer: Any, leader: int, fenced: bool) -> None:
    endpoints = [(each.node_id, each.rack) for each in answer.node_endpoints]
    assert endpoints == ([(2, "far")] if leader == 2 and not fenced else [])


def test_a_waiting_producers_answer_has_the_new_leader() -> None:
    node = Node((1, 2))
    frame = memoryview(encode_request(PRODUCE, 13, 1, to(13, TOPIC_ID, acks=-1)))[4:]
    pending = handled(produce.API, frame, node)
    assert isinstance(pending, PendingReply)
    replies: list[Any] = []
    pending.on_complete(replies.append)
    node.lose_to(2)
    node.leader.update(Partition((1, 2), (1, 2), 1, EPOCH + 1, 5), {}, 1.0)
    answer = told(produce.API, 13, replies[0])
    (part,) = answer.responses[0].partition_responses
    assert part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert part.current_leader.leader_id == 2
    check_endpoints(answer, 2, fenced=False)


@pytest.mark.parametrize("version", [12, 13, 15, 16, 17, 18])
@pytest.mark.parametrize(("leader", "fenced"), [(2, False), (2, True), (-1, False)])
def test_a_consumers_answer_has_the_new_leader_from_version_16_on(version: int, leader: int, fenced: bool) -> None:
    node = Node()
    node.lose_to(leader, fenced=fenced)
    answer = node.ask(fetch.API, version, of(version, TOPIC_ID))
    (part,) = answer.responses[0].partitions
    assert part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    known = (part.current_leader.leader_id, part.current_leader.leader_epoch)
    assert known == ((leader, 9) if version >= 16 else (-1, -1))
    if version >= 16:
        check_endpoints(answer, leader, fenced)


def test_a_consumer_with_an_older_epoch_is_told_the_newer_one() -> None:
    node = Node()
    node.house.append(b"v")
    (part,) = node.ask(fetch.API, 17, of(17, TOPIC_ID, epoch=EPOCH - 1)).responses[0].partitions
    assert part.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (1, EPOCH)
    (part,) = node.ask(fetch.API, 17, of(17, TOPIC_ID, epoch=EPOCH + 1)).responses[0].partitions
    assert part.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert part.current_leader.leader_id == -1


def test_each_answer_about_many_partitions_has_the_new_leader() -> None:
    """The parts of such answers are kept from one to the next."""
    node = Node()
    node.house.append(b"v")
    asked = of(18, TOPIC_ID)
    (topic,) = asked["topics"]
    topic["partitions"] = [topic["partitions"][0] | {"partition": index} for index in range(40)]
    for leads in (True, False, False):
        if not leads:
            node.lose_to(2)
        answer = node.ask(fetch.API, 18, asked)
        (first,) = [part for part in answer.responses[0].partitions if part.partition_index == 0]
        assert first.current_leader.leader_id == (-1 if leads else 2)
        check_endpoints(answer, -1 if leads else 2, fenced=False)


@pytest.mark.parametrize("version", [13, 17, 18])
def test_a_session_knows_its_topic_when_its_name_is_anothers(version: int) -> None:
    node = Node()
    node.house.append(b"v")
    session = node.ask(fetch.API, version, of(version, TOPIC_ID, STRANGER, session=(0, 0)))
    codes = {topic.topic_id: topic.partitions[0].error_code for topic in session.responses}
    assert codes == {TOPIC_ID: ErrorCode.NONE, STRANGER: ErrorCode.UNKNOWN_TOPIC_ID}
    node.image.apply(RemoveTopic(TOPIC_ID), 2)
    node.image.apply(TopicRecord("orders", UUID(int=5)), 3)
    later = node.ask(fetch.API, version, of(version, session=(session.session_id, 1)))
    codes = {topic.topic_id: topic.partitions[0].error_code for topic in later.responses}
    assert codes == {TOPIC_ID: ErrorCode.INCONSISTENT_TOPIC_ID, STRANGER: ErrorCode.UNKNOWN_TOPIC_ID}
    node.image.apply(TopicRecord("found", STRANGER), 4)
    later = node.ask(fetch.API, version, of(version, session=(session.session_id, 2)))
    codes = {topic.topic_id: topic.partitions[0].error_code for topic in later.responses}
    assert codes[STRANGER] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "it was found by its id, and is not led here"


def test_a_session_by_name_does_not_go_on_by_id() -> None:
    node = Node()
    begun = node.ask(fetch.API, 12, of(12, TOPIC_ID, session=(0, 0)))
    answer = node.ask(fetch.API, 16, of(16, TOPIC_ID, session=(begun.session_id, 1)))
    assert answer.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_tagged_fields_of_other_followers_are_ignored() -> None:
    node = Node()
    node.house.append(b"v")
    asked = of(18, TOPIC_ID)
    part = asked["topics"][0]["partitions"][0]
    part |= {"replica_directory_id": UUID(int=8), "high_watermark": 0}
    answer = node.ask(fetch.API, 18, asked)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize(("version", "named"), [(12, {"name": "orders"}), (13, {"topic_id": TOPIC_ID})])
def test_observers_ask_for_a_topic_in_one_way(version: int, named: dict[str, Any]) -> None:
    fields = to(version) | {"topic_data": [named | {"partition_data": []}]}
    with sample_request(PRODUCE, version, fields, topics={TOPIC_ID: "orders"}) as struct:
        assert [topic.get_topic() for topic in struct.get_array("topic_data")] == ["orders"]
    with sample_request(PRODUCE, version, fields) as struct:
        assert struct.get_array("topic_data")[0].get_topic() == (None if version == 13 else "orders")
