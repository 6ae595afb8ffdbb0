"""Fetch and Produce: the handlers' own decisions, on a log in memory."""

import socket
from typing import Any

import pytest

from broker_runtime.apis.fetch import fetch
from broker_runtime.apis.produce import produce
from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode
from broker_runtime.network.connection.output import send
from broker_runtime.network.sockets.transport import PlainTransport
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.wire.messages import decode_response
from broker_runtime.wire.reply import FileRegion, PendingReply
from kafka_bytes.batches import encode_batch
from tests.support.logs.logs import LogHouse
from tests.support.logs.replicas import LeadingNode, leading
from tests.support.requests.calls import handled
from tests.support.requests.request_frames import encode_request

LEADER_EPOCH = 4
FETCH, PRODUCE = 1, 0


class OneLogNode(LeadingNode):
    def __init__(self, config: TopicConfig | None = None, *replicas: int) -> None:
        self.house = LogHouse(config)
        chosen = replicas or (1,)
        super().__init__(leading(self.house.log, *chosen, epoch=LEADER_EPOCH, isr=(1,)), self.house.clock)

    def ask(self, api_key: int, version: int, content: dict[str, Any]) -> Any:
        frame = memoryview(encode_request(api_key, version, 1, content))[4:]
        reply = handled(fetch.API if api_key == FETCH else produce.API, frame, self)
        if isinstance(reply, PendingReply):
            raise AssertionError("nothing here waits")
        whole = b"".join(part.read() if isinstance(part, FileRegion) else part for part in reply)
        flexible = version >= (12 if api_key == FETCH else 9)
        return decode_response(api_key, version, memoryview(whole)[9 if flexible else 8 :])


def question(offset: int, *, epoch: int = -1, isolation: int = 0, session_epoch: int = -1) -> dict[str, Any]:
    part = {"partition": 0, "current_leader_epoch": epoch, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    return {
        "max_wait": 0,
        "min_bytes": 0,
        "isolation_level": isolation,
        "session_epoch": session_epoch,
        "topics": [{"topic": "orders", "partitions": [part]}],
        "forgotten_topics_data": [],
    }


@pytest.mark.parametrize("version", [9, 12])
@pytest.mark.parametrize(
    ("known", "code"),
    [
        (-1, ErrorCode.NONE),
        (LEADER_EPOCH, ErrorCode.NONE),
        (LEADER_EPOCH - 1, ErrorCode.FENCED_LEADER_EPOCH),
        (LEADER_EPOCH + 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_client_with_another_view_of_the_leader_must_look_again(version: int, known: int, code: ErrorCode) -> None:
    answer = OneLogNode().ask(FETCH, version, question(0, epoch=known))
    assert answer.responses[0].partitions[0].error_code == code


def test_a_partition_that_failed_tells_no_offsets() -> None:
    node = OneLogNode()
    node.house.append(b"value")
    (part,) = node.ask(FETCH, 12, question(9)).responses[0].partitions
    assert (part.error_code, part.high_watermark, part.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1, -1)


class TwoLogsNode(OneLogNode):
    """Partition 1 is on a separate disk."""

    def __init__(self) -> None:
        small = TopicConfig(segment_bytes=2_000, index_interval_bytes=100)
        super().__init__(small)
        self.other = LogHouse(small)
        self._other_leader = leading(self.other.log, 1, epoch=LEADER_EPOCH)

    def led(self, topic: str, partition: int) -> LeaderReplica:
        return self._other_leader if (topic, partition) == ("orders", 1) else super().led(topic, partition)


def of_both(offset: int) -> dict[str, Any]:
    asked = question(offset)
    (part,) = asked["topics"][0]["partitions"]
    return asked | {"topics": [{"topic": "orders", "partitions": [part, part | {"partition": 1}]}]}


def damage(house: LogHouse, how: str) -> None:
    """Damage the oldest segment, which was sealed long ago."""
    oldest = house.log.segments[0]
    if how == "no descriptor left":
        for _ in range(2):
            oldest.indexes.release()
        house.fs.no_descriptors = True
    else:
        oldest.file.truncate(oldest.size // 2)


@pytest.mark.parametrize("how", ["no descriptor left", "cut on disk"])
def test_a_file_that_cannot_be_read_is_an_error_of_its_partition_only(how: str) -> None:
    node = TwoLogsNode()
    for house in (node.house, node.other):
        for _ in range(60):
            house.append(bytes(100))
    damage(node.house, how)
    offset = node.house.log.segments[0].next_offset - 2
    failed, healthy = node.ask(FETCH, 12, of_both(offset)).responses[0].partitions
    assert (failed.error_code, failed.records) == (ErrorCode.KAFKA_STORAGE_ERROR, b"")
    assert healthy.error_code == ErrorCode.NONE
    assert len(healthy.records) > 100
    # Requests that do not need that file are served.
    behind = node.house.log.segments[-1].base_offset
    assert {part.error_code for part in node.ask(FETCH, 12, of_both(behind)).responses[0].partitions} == {0}


def test_a_read_error_during_sendfile_is_a_partition_error_from_the_next_reply_on() -> None:
    """A reply that has begun can only end with its connection; the next reply reports the error."""
    node = TwoLogsNode()
    for house in (node.house, node.other):
        house.append(bytes(100), bytes(100))
    segment = node.house.log.segments[0]
    region = node.house.log.read(0, 1 << 20, min_one=True, up_to=2)
    assert region is not None
    whole = segment.file.pread(segment.size, 0)
    segment.file.truncate(segment.size - 1)
    with socket.socket() as unused, pytest.raises(OSError, match="shorter"):
        send(PlainTransport(unused), [region])

    failed, healthy = node.ask(FETCH, 12, of_both(0)).responses[0].partitions
    assert (failed.error_code, healthy.error_code) == (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE)
    told = [part.error_code for part in node.ask(FETCH, 12, of_both(0)).responses[0].partitions]
    assert told == [ErrorCode.CORRUPT_MESSAGE, ErrorCode.NONE]
    # The file is checked again from time to time.
    segment.file.write_at([whole], 0)
    node.house.clock.advance(601)
    for _ in range(2):
        told = [part.error_code for part in node.ask(FETCH, 12, of_both(0)).responses[0].partitions]
    assert told == [ErrorCode.NONE, ErrorCode.NONE]


def test_aborted_transactions_are_for_those_who_read_committed_records() -> None:
    node = OneLogNode()
    node.house.append(b"value")
    assert node.ask(FETCH, 12, question(0)).responses[0].partitions[0].aborted_transactions is None
    assert node.ask(FETCH, 12, question(0, isolation=1)).responses[0].partitions[0].aborted_transactions == ()


def test_a_session_that_is_not_there_is_not_found() -> None:
    answer = OneLogNode().ask(FETCH, 12, question(0, session_epoch=3))
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize(("replicas", "code"), [((1,), ErrorCode.NONE), ((1, 2), ErrorCode.NOT_ENOUGH_REPLICAS)])
def test_no_more_replicas_must_be_in_sync_than_there_are(replicas: tuple[int, ...], code: ErrorCode) -> None:
    node = OneLogNode(TopicConfig(min_insync_replicas=2), *replicas)
    records = encode_batch([(b"k", b"v")], node.house.clock.wall_ms())
    parts = [{"index": 0, "records": records}]
    content = {
        "transactional_id": None,
        "acks": -1,
        "timeout": 1000,
        "topic_data": [{"name": "orders", "partition_data": parts}],
    }
    (part,) = node.ask(PRODUCE, 9, content).responses[0].partition_responses
    assert part.error_code == code
