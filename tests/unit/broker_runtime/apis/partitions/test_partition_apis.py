"""ListOffsets, DeleteRecords and FindCoordinator on every version, over a log in memory."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from broker_runtime.apis.fetch import list_offsets
from broker_runtime.apis.request.context import ApiSpec
from broker_runtime.apis.topics import delete_records
from broker_runtime.config import TopicConfig, broker_settings
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.storage.log.log import Log
from broker_runtime.wire.messages import decode_request, encode_request_body, encode_response
from tests.support.logs.logs import LogHouse
from tests.support.logs.packed_batches import timed
from tests.support.logs.replicas import leading
from tests.support.requests.calls import a_call, fields_later

EPOCH = 3
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL = -1, -2, -3, -4


class Leader:
    """Leads orders-0, whose three records were written at 1000, 3000 and 2000 ms."""

    def __init__(self, config: TopicConfig | None = None) -> None:
        self.house = LogHouse(config)
        for at_ms in (1000, 3000, 2000):
            self.house.append(b"v", timestamp_ms=at_ms)

        self.leader = leading(self.house.log, epoch=EPOCH)
        self.logs = self.house.logs
        self.settings = broker_settings({"node.id": "1"})
        self.asides = 0
        self.is_busy = False
        self.meanwhile: Callable[[], None] = lambda: None

    def offload(self, work: Callable[[], None]) -> "asyncio.Future[None]":
        if self.is_busy:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "too much waits")
        self.asides += 1
        self.meanwhile()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        work()
        done.set_result(None)
        return done

    def led(self, topic: str, partition: int) -> LeaderReplica:
        if (topic, partition) != ("orders", 0):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self.leader

    def led_log(self, topic: str, partition: int) -> tuple[Log, int]:
        leader = self.led(topic, partition)
        return leader.log, leader.leader_epoch


def ask(api: ApiSpec[Any], version: int, content: dict[str, Any], node: Leader) -> Any:
    body = memoryview(encode_request_body(api.key, version, content))
    handled = api.handle(decode_request(api.key, version, body), a_call(api, version), cast("Any", node))
    answer = asyncio.run(fields_later(handled))
    assert encode_response(api.key, version, 0, answer)
    return answer


def offsets(version: int, *timestamps: int, topic: str = "orders", epoch: int = -1, node: Leader | None = None) -> Any:
    partitions = [
        {"partition_index": index, "timestamp": timestamp, "current_leader_epoch": epoch}
        for index, timestamp in enumerate(timestamps)
    ]
    topics = [{"name": topic, "partitions": partitions}]
    content = {"replica_id": -1, "isolation_level": 0, "topics": topics, "timeout": 1000}
    return ask(list_offsets.API, version, content, node or Leader())["topics"][0]["partitions"][0]


@pytest.mark.parametrize("version", range(list_offsets.API.versions[0], list_offsets.API.versions[1] + 1))
def test_offsets_of_a_partition(version: int) -> None:
    latest = offsets(version, LATEST)
    assert (latest["error_code"], latest["offset"], latest["timestamp"]) == (ErrorCode.NONE, 3, -1)
    assert latest["leader_epoch"] == EPOCH
    assert offsets(version, EARLIEST)["offset"] == 0
    by_time = offsets(version, 1500)
    assert (by_time["offset"], by_time["timestamp"]) == (1, 3000)
    later = offsets(version, 2**62)
    assert (later["error_code"], later["offset"], later["leader_epoch"]) == (ErrorCode.NONE, -1, -1)
    assert offsets(version, LATEST, topic="nope")["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("timestamp", "since", "offset"),
    [(MAX_TIMESTAMP, 7, 1), (EARLIEST_LOCAL, 8, 0), (-5, 9, -1), (-6, 11, -1), (-(2**63), 99, -1)],
)
def test_a_timestamp_with_a_meaning_has_it_from_some_version_on(timestamp: int, since: int, offset: int) -> None:
    for version in range(1, 12):
        found = offsets(version, timestamp)
        known = version >= since
        assert found["error_code"] == (ErrorCode.NONE if known else ErrorCode.UNSUPPORTED_VERSION)
        assert found["offset"] == (offset if known else -1)


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (-1, ErrorCode.NONE),
        (EPOCH, ErrorCode.NONE),
        (EPOCH - 1, ErrorCode.FENCED_LEADER_EPOCH),
        (EPOCH + 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_client_with_another_leader_epoch_must_look_again(epoch: int, code: ErrorCode) -> None:
    assert offsets(4, LATEST, epoch=epoch)["error_code"] == code
    assert offsets(3, LATEST, epoch=epoch)["error_code"] == ErrorCode.NONE, "older versions cannot say theirs"


@pytest.mark.parametrize("wanted", [EARLIEST, EARLIEST_LOCAL, -5, -6, LATEST, MAX_TIMESTAMP, 1500])
def test_a_leader_just_elected_answers_what_does_not_depend_on_how_far_records_are_replicated(wanted: int) -> None:
    node = Leader()
    node.leader.start_offset = 4
    unknown = wanted in (LATEST, MAX_TIMESTAMP, 1500)
    for version in (4, 11):
        if version == 11 or wanted in (EARLIEST, LATEST, 1500):
            code = ErrorCode.OFFSET_NOT_AVAILABLE if version >= 5 else ErrorCode.LEADER_NOT_AVAILABLE
            found = offsets(version, wanted, node=node)
            assert found["error_code"] == (code if unknown else ErrorCode.NONE)


def test_a_partition_that_is_named_twice_is_refused_each_time() -> None:
    twice = [{"partition_index": 0, "timestamp": 1500}] * 2
    topics = [{"name": "orders", "partitions": twice}]
    answer = ask(list_offsets.API, 1, {"replica_id": -1, "topics": topics}, Leader())
    codes = [part["error_code"] for part in answer["topics"][0]["partitions"]]
    assert codes == [ErrorCode.INVALID_REQUEST] * 2


@pytest.mark.parametrize("codec", range(5))
def test_the_very_record_of_a_time_is_answered_whatever_its_batch_is_packed_with(codec: int) -> None:
    node = Leader()
    node.house.log.append(memoryview(timed([4000, 7000, 5000], codec=codec)), leader_epoch=2)
    found = offsets(8, 4500, node=node)
    assert (found["offset"], found["timestamp"], found["leader_epoch"]) == (4, 7000, 2)
    found = offsets(8, MAX_TIMESTAMP, node=node)
    assert (found["offset"], found["timestamp"]) == (4, 7000)


def _with_a_packed_batch() -> Leader:
    """A leader whose record of 5000 ms is searched in another thread."""
    node = Leader()
    node.house.log.append(memoryview(timed([5000, 6000], codec=1)), leader_epoch=2)
    return node


@pytest.mark.parametrize(("wanted", "asides"), [(LATEST, 0), (1500, 0), (5000, 1)])
def test_only_long_searches_are_offloaded_to_a_thread(wanted: int, asides: int) -> None:
    node = _with_a_packed_batch()
    offsets(8, wanted, node=node)
    assert node.asides == asides


def test_list_offsets_never_returns_an_unreplicated_record_or_one_of_a_deposed_leader() -> None:
    node = _with_a_packed_batch()
    node.house.log.sole_replica = False
    node.house.append(b"v", timestamp_ms=9000)
    assert offsets(8, 8000, node=node)["offset"] == offsets(8, MAX_TIMESTAMP, node=node)["offset"] == -1
    node.meanwhile = lambda: setattr(node.leader, "leader_epoch", EPOCH + 1)
    assert offsets(8, 5000, node=node)["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    again = leading(LogHouse().log, epoch=EPOCH + 1)
    node.meanwhile = lambda: setattr(node, "leader", again)
    assert offsets(8, 5000, node=node)["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_too_many_look_ups_are_sent_away_with_an_error_of_their_partition() -> None:
    node = _with_a_packed_batch()
    node.is_busy = True
    assert offsets(8, 5000, node=node)["error_code"] == ErrorCode.REQUEST_TIMED_OUT


def test_a_time_in_a_file_that_cannot_be_read_is_an_error_of_its_partition() -> None:
    node = Leader()
    node.house.log.segments[0].file.truncate(80)
    assert offsets(8, 3000, node=node)["error_code"] == ErrorCode.KAFKA_STORAGE_ERROR


def delete(version: int, before: int, node: Leader, partition: int = 0) -> Any:
    partitions = [{"partition_index": partition, "offset": before}]
    content = {"topics": [{"name": "orders", "partitions": partitions}], "timeout": 0}
    return ask(delete_records.API, version, content, node)["topics"][0]["partitions"][0]


@pytest.mark.parametrize("version", range(delete_records.API.versions[0], delete_records.API.versions[1] + 1))
def test_records_before_an_offset_are_gone(version: int) -> None:
    leader = Leader()
    assert delete(version, 2, leader)["low_watermark"] == 2
    assert offsets(1, EARLIEST, node=leader)["offset"] == 2
    assert delete(version, 1, leader)["low_watermark"] == 2, "never back"
    assert delete(version, -1, leader)["low_watermark"] == 3, "up to the high watermark"
    for before in (4, -2, 2**63 - 1):
        refused = delete(version, before, leader)
        assert (refused["error_code"], refused["low_watermark"]) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete(version, 0, leader, partition=-1)["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_records_of_a_compacted_topic_stay() -> None:
    leader = Leader(TopicConfig(cleanup_policy=("compact",)))
    assert delete(2, 1, leader)["error_code"] == ErrorCode.POLICY_VIOLATION
