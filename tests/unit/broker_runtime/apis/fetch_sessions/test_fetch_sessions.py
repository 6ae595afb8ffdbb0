"""Fetch sessions (KIP-227): partitions sent only once, and the session that is evicted when all slots are taken."""

from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Any

import pytest

from broker_runtime.apis.fetch import fetch
from broker_runtime.apis.fetch_sessions.fetch_partition import AskedPartition
from broker_runtime.apis.fetch_sessions.fetch_session import FetchSession
from broker_runtime.apis.fetch_sessions.fetch_sessions import FetchSessionCache
from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.topics import Partition
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.replication.wanted_isr import wanted_change
from broker_runtime.wire.messages import decode_response
from broker_runtime.wire.reply import FileRegion, PendingReply, Reply
from tests.support.logs.logs import LogHouse
from tests.support.logs.replicas import LeadingNode, brokers, lag_of, leading
from tests.support.requests.calls import handled
from tests.support.requests.request_frames import encode_request

FETCH = 1
VERSION = 12


class Node(LeadingNode):
    """Broker 1 leads three partitions of orders in epoch 4; broker 2 follows."""

    def __init__(self, *isr: int) -> None:
        self.houses = [LogHouse(TopicConfig(segment_bytes=10_000)) for _ in range(3)]
        self.leaders = [leading(house.log, 1, 2, epoch=4, isr=isr or (1,)) for house in self.houses]
        super().__init__(self.leaders[0], self.houses[0].clock)
        self.looked_at: list[int] = []

    def led(self, topic: str, partition: int) -> LeaderReplica:
        if topic != "orders" or partition > 2:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "not here")
        self.looked_at.append(partition)
        self.leader = self.leaders[partition]
        return super().led(topic, 0)

    def append(self, partition: int, value: bytes = b"v") -> None:
        self.houses[partition].append(value)


class Client:
    """A client of one session, or of several one after the other."""

    def __init__(self, node: Node, replica: int = -1, version: int = VERSION) -> None:
        self.node = node
        self.replica = replica
        self.version = version
        self.id = self.epoch = 0

    def send(self, asked: dict[int, int], *, forget: list[int] | None = None, wait_ms: int = 0) -> "Answer":
        parts = [
            {
                "partition": index,
                "fetch_offset": offset,
                "current_leader_epoch": 4,
                "log_start_offset": -1 if self.replica < 0 else 0,
                "partition_max_bytes": 1 << 20,
            }
            for index, offset in asked.items()
        ]
        forgotten = [{"topic": "orders", "partitions": forget}] if forget else []
        content = {
            "replica_id": self.replica,
            "max_wait": wait_ms,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "session_id": self.id,
            "session_epoch": self.epoch,
            "topics": [{"topic": "orders", "partitions": parts}] if parts else [],
            "forgotten_topics_data": forgotten,
        }
        frame = memoryview(encode_request(FETCH, self.version, 1, content))[4:]
        node: Any = self.node
        answer = Answer(self.version)
        reply = handled(fetch.API, frame, node)
        if isinstance(reply, PendingReply):
            answer.pending = reply
            reply.on_complete(answer.take)
        else:
            answer.take(reply)
        return answer

    def begin(self, asked: dict[int, int]) -> "Answer":
        self.epoch = 0
        answer = self.send(asked)
        self.id, self.epoch = answer.session_id, 1
        return answer

    def go_on(self, asked: dict[int, int] | None = None, **more: Any) -> "Answer":
        answer = self.send(asked or {}, **more)
        self.epoch += 1
        return answer


class Answer:
    def __init__(self, version: int) -> None:
        self._version = version
        self._whole: Any = None
        self.pending: PendingReply | None = None

    def take(self, reply: Reply | None) -> None:
        assert reply is not None
        whole = b"".join(chunk.read() if isinstance(chunk, FileRegion) else bytes(chunk) for chunk in reply)
        self._whole = decode_response(FETCH, self._version, memoryview(whole)[9 if self._version >= 12 else 8 :])

    @property
    def is_there(self) -> bool:
        return self._whole is not None

    @property
    def session_id(self) -> int:
        return int(self._whole.session_id)

    @property
    def error(self) -> ErrorCode:
        return ErrorCode(int(self._whole.error_code))

    @property
    def parts(self) -> dict[int, Any]:
        return {part.partition_index: part for topic in self._whole.responses for part in topic.partitions}

    @property
    def with_records(self) -> list[int]:
        return [index for index, part in self.parts.items() if part.records]


ALL = {0: 0, 1: 0, 2: 0}


def test_the_first_answer_names_all_and_the_next_only_what_has_changed() -> None:
    node = Node()
    client = Client(node)
    assert list(client.begin(ALL).parts) == [0, 1, 2]
    assert client.id > 0
    assert client.go_on().parts == {}
    node.append(1)
    answer = client.go_on()
    assert (answer.session_id, answer.with_records, list(answer.parts)) == (client.id, [1], [1])


def test_unchanged_partitions_are_not_read() -> None:
    node = Node()
    client = Client(node)
    client.begin(ALL)
    client.go_on()
    node.append(2)
    node.looked_at.clear()
    client.go_on()
    assert node.looked_at == [2]


def test_records_come_again_until_the_position_moves() -> None:
    node = Node()
    node.append(0)
    client = Client(node)
    assert client.begin(ALL).with_records == [0]
    assert client.go_on().with_records == [0]
    assert client.go_on({0: 1}).with_records == []
    assert client.go_on().parts == {}


def test_a_forgotten_partition_is_not_sent_any_more_and_an_added_one_is() -> None:
    node = Node()
    client = Client(node)
    client.begin({0: 0, 1: 0})
    assert list(client.go_on({2: 0}, forget=[0]).parts) == [2]
    for partition in range(3):
        node.append(partition)
    assert client.go_on().with_records == [1, 2]
    assert not node.houses[0].log.readers.members, "nothing watches it"


def test_a_log_start_that_has_moved_is_told_but_not_waited_for() -> None:
    node = Node()
    for _ in range(3):
        node.append(0)
    client = Client(node)
    client.begin({0: 3})
    waiting = client.go_on(wait_ms=60_000)
    node.houses[0].log.delete_records(2)
    assert not waiting.is_there
    node.timers[-1]()
    assert waiting.parts[0].log_start_offset == 2
    assert client.go_on().parts == {}


def test_a_partition_error_is_repeated_until_it_ends_and_then_the_offsets_are_sent() -> None:
    node = Node()
    client = Client(node)
    client.begin(ALL)
    assert client.go_on({0: 7}).parts[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert client.go_on().parts[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert client.go_on({0: 0}).parts[0].high_watermark == 0
    assert client.go_on().parts == {}


@pytest.mark.parametrize("replica", [-1, 2], ids=["a consumer", "a follower"])
def test_a_request_that_waits_is_answered_by_a_record_of_any_partition(replica: int) -> None:
    node = Node()
    client = Client(node, replica)
    client.begin(ALL)
    for partition in (1, 0):
        waiting = client.go_on(wait_ms=60_000)
        assert not waiting.is_there
        node.append(partition)
        assert waiting.with_records == [partition]
        client.go_on({partition: 1})


def test_another_request_of_the_session_ends_the_one_that_waits() -> None:
    client = Client(Node())
    client.begin(ALL)
    waiting = client.go_on(wait_ms=60_000)
    assert client.go_on().error == ErrorCode.NONE
    assert waiting.error == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_session_continues_after_its_waiting_client_disconnected() -> None:
    node = Node()
    client = Client(node)
    client.begin(ALL)
    waiting = client.go_on(wait_ms=60_000)
    assert waiting.pending is not None
    waiting.pending.cancel()
    node.append(0)
    assert client.go_on().with_records == [0]


def test_a_fetch_without_a_session_leaves_nothing_behind() -> None:
    node = Node()
    client = Client(node)
    client.epoch = -1
    waiting = client.send(ALL, wait_ms=60_000)
    node.append(1)
    assert (waiting.session_id, list(waiting.parts), waiting.with_records) == (0, [0, 1, 2], [1])
    assert not any(house.log.readers.members for house in node.houses)


@pytest.mark.parametrize(
    ("session_id", "epoch", "version", "error"),
    [
        (1, 0, VERSION, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (0, 1, VERSION, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (0, -1, VERSION, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (0, 0, 13, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ],
    ids=["another session", "an epoch too far", "an epoch that was", "names and ids"],
)
def test_a_request_that_does_not_fit_its_session_is_refused(
    session_id: int, epoch: int, version: int, error: ErrorCode
) -> None:
    client = Client(Node())
    client.begin(ALL)
    client.go_on()
    client.id += session_id
    client.epoch += epoch
    client.version = version
    answer = client.send({})
    assert (answer.error, answer.session_id, answer.parts) == (error, 0, {})


def test_a_full_request_that_names_a_session_ends_it() -> None:
    node = Node()
    client = Client(node)
    client.begin(ALL)
    before = client.id
    client.begin(ALL)
    assert client.id != before
    assert node.fetch_sessions.get(before) is None
    client.epoch = -1
    assert client.send(ALL).session_id == 0
    assert node.fetch_sessions.get(client.id) is None


def test_a_session_without_partitions_is_over() -> None:
    node = Node()
    client = Client(node)
    client.begin({0: 0})
    assert client.go_on(forget=[0]).session_id == 0
    assert node.fetch_sessions.get(client.id) is None


# Followers


def test_a_follower_in_a_session_moves_the_high_watermark_and_hears_of_it() -> None:
    node = Node(1, 2)
    follower = Client(node, replica=2)
    follower.begin(ALL)
    node.append(1)
    assert follower.go_on().with_records == [1]
    assert node.houses[1].log.high_watermark == 0
    answer = follower.go_on({1: 1})
    assert (node.houses[1].log.high_watermark, answer.parts[1].high_watermark) == (1, 1)
    assert follower.go_on().parts == {}


def test_a_waiting_follower_gets_a_new_high_watermark_with_its_next_answer_only() -> None:
    node = Node(1, 2)
    leader = node.leaders[1]
    leader.update(Partition((1, 2, 3), (1, 2, 3), 1, 4, 1), brokers(1, 2, 3), 0.0)
    follower = Client(node, replica=2)
    follower.begin(ALL)
    node.append(1)
    waiting = follower.go_on({1: 1}, wait_ms=60_000)
    node.looked_at.clear()
    leader.on_fetch(3, -1, 1, 0.0)
    assert leader.log.high_watermark == 1
    assert (node.looked_at, waiting.is_there) == ([], False)
    node.append(0)
    assert {index: part.high_watermark for index, part in waiting.parts.items()} == {0: 0, 1: 1}
    node.append(1)
    assert follower.go_on().with_records == [0, 1], "the log is still watched"


def test_a_follower_of_an_idle_partition_is_in_sync_when_a_record_comes() -> None:
    node = Node(1, 2)
    leader = node.leaders[0]
    follower = Client(node, replica=2)
    follower.begin(ALL)
    for _ in range(100):
        node.clock.advance(1)  # type: ignore[attr-defined]
        follower.go_on()
    node.append(0)
    assert wanted_change(leader, brokers(1, 2), node.clock.monotonic(), 5.0, 11) is None
    node.clock.advance(6)  # type: ignore[attr-defined]
    change = wanted_change(leader, brokers(1, 2), node.clock.monotonic(), 5.0, 11)
    assert change is not None
    assert change.isr == (1,), "it has not asked since"


def test_a_follower_that_asks_no_more_leaves_with_the_next_record() -> None:
    node = Node(1, 2)
    Client(node, replica=2).begin(ALL)
    node.clock.advance(100)  # type: ignore[attr-defined]
    node.append(0)
    change = wanted_change(node.leaders[0], brokers(1, 2), node.clock.monotonic(), 5.0, 11)
    assert change is not None
    assert change.isr == (1,)


def test_the_end_of_a_followers_session_is_no_reason_to_leave() -> None:
    node = Node(1, 2)
    follower = Client(node, replica=2)
    follower.begin(ALL)
    node.clock.advance(100)  # type: ignore[attr-defined]
    follower.go_on()
    node.fetch_sessions.remove(follower.id)
    node.append(0)
    assert wanted_change(node.leaders[0], brokers(1, 2), node.clock.monotonic(), 5.0, 11) is None


def test_a_follower_that_forgets_a_partition_with_records_for_it_is_not_caught_up() -> None:
    node = Node(1, 2)
    follower = Client(node, replica=2)
    follower.begin(ALL)
    node.append(0)
    node.clock.advance(100)  # type: ignore[attr-defined]
    follower.go_on(forget=[0])
    change = wanted_change(node.leaders[0], brokers(1, 2), node.clock.monotonic(), 5.0, 11)
    assert change is not None
    assert change.isr == (1,)


def test_a_followers_position_is_recorded_again_after_the_leader_forgot_it() -> None:
    node = Node(1, 2)
    follower = Client(node, replica=2)
    follower.begin(ALL)
    leader = node.leaders[0]
    leader.update(Partition((1,), (1,), 1, 4, 1), brokers(1, 2), 0.0)
    leader.update(Partition((1, 2), (1,), 1, 4, 2), brokers(1, 2), 0.0)
    assert lag_of(leader, 2) is None
    follower.go_on()
    assert lag_of(leader, 2) == 0


# The cache


@dataclass
class Limits:
    max_incremental_fetch_session_cache_slots: int
    sluicegate_fetch_session_partitions_max: int


class Cache:
    def __init__(self, slots: int, partitions_max: int = 1_000, of_followers: dict[int, int] | None = None) -> None:
        ids = count(1)

        class Ids:
            def randrange(self, start: int, stop: int) -> int:
                del start, stop
                return next(ids)

        limits = Limits(slots, partitions_max)
        if of_followers is None:
            self.cache = FetchSessionCache(limits, Ids())
        else:
            self.cache = FetchSessionCache(limits, Ids(), room_of=lambda broker_id: of_followers.get(broker_id, 0))

    def keep(self, partitions: int, now_s: float, replica: int = -1) -> FetchSession | None:
        parts = [_asked(index) for index in range(partitions)]
        session = FetchSession(parts, now_s, replica=replica, broker_epoch=-1, uses_topic_ids=False)
        return session if self.cache.keep(session, now_s) else None

    def holds(self, session: FetchSession | None) -> bool:
        assert session is not None
        return self.cache.get(session.id) is session


def test_without_slots_no_session_is_kept() -> None:
    assert Cache(0).keep(1, 0.0) is None


def test_a_young_session_stays_however_small_it_is() -> None:
    cache = Cache(1)
    small = cache.keep(1, 0.0)
    assert cache.keep(100, 119.0) is None
    assert cache.holds(small)


def test_a_session_unused_for_two_minutes_is_evicted() -> None:
    cache = Cache(2)
    unused, used = cache.keep(100, 0.0), cache.keep(1, 0.0)
    assert used is not None
    used.asked_s = 100.0
    cache.cache.touch(used)
    assert cache.keep(1, 121.0) is not None
    assert not cache.holds(unused)
    assert cache.holds(used)


def test_an_old_active_session_is_evicted_for_one_that_is_at_least_as_large() -> None:
    cache = Cache(1)
    small = cache.keep(2, 0.0)
    assert small is not None
    small.asked_s = 200.0
    assert cache.keep(1, 200.0) is None
    assert cache.holds(small)
    assert cache.keep(3, 202.0) is not None
    assert not cache.holds(small)


def test_a_follower_takes_a_consumers_place_at_once_and_never_the_other_way_round() -> None:
    cache = Cache(1)
    consumer = cache.keep(100, 0.0)
    follower = cache.keep(1, 1.0, replica=2)
    assert follower is not None
    assert not cache.holds(consumer)
    follower.asked_s = 200.0
    assert cache.keep(100, 200.0) is None
    assert cache.keep(100, 201.0, replica=3) is not None


def test_the_partitions_of_consumers_sessions_are_limited() -> None:
    cache = Cache(10, partitions_max=100)
    first = cache.keep(60, 0.0)
    assert cache.keep(41, 0.0) is None
    assert cache.keep(40, 0.0) is not None
    assert first is not None
    cache.cache.remove(first.id)
    assert cache.keep(60, 0.0) is not None
    assert cache.keep(10_000, 0.0, replica=2) is not None, "followers name what this broker leads"


def test_a_client_that_claims_to_be_a_follower_gets_limited_room_for_partitions() -> None:
    cache = Cache(10, partitions_max=0, of_followers={2: 100, 3: 100})
    assert cache.keep(1, 0.0, replica=77) is None, "no broker of the cluster"
    first = cache.keep(60, 0.0, replica=2)
    assert cache.keep(100, 0.0, replica=3) is not None, "the room is each broker's own"
    assert cache.keep(101, 0.0, replica=2) is None
    assert cache.holds(first)
    second = cache.keep(60, 0.0, replica=2)
    assert (cache.holds(first), cache.holds(second)) == (False, True), "a follower has one session"
    assert second is not None
    second.add([_asked(index) for index in range(60, 101)])
    cache.cache.touch(second)
    assert second.id == 0, "it has grown beyond the room"
    assert cache.keep(100, 0.0, replica=2) is not None


def test_a_session_refused_for_its_partitions_takes_no_slot_and_no_room() -> None:
    cache = Cache(1, partitions_max=100)
    old = cache.keep(60, 0.0)
    assert old is not None
    old.asked_s = 100.0
    assert cache.keep(90, 200.0) is None
    assert cache.holds(old)
    young = Cache(1, partitions_max=100)
    assert young.keep(60, 0.0) is not None
    assert young.keep(40, 1.0) is None, "no slot"
    assert young.keep(40, 121.0) is not None


def test_a_session_that_grows_beyond_the_limit_ends_with_its_next_answer() -> None:
    cache = Cache(10, partitions_max=100)
    session = cache.keep(60, 0.0)
    assert session is not None
    session.add([_asked(index) for index in range(60, 101)])
    kept_as = session.id
    cache.cache.touch(session)
    assert session.id == 0
    assert cache.cache.get(kept_as) is None
    assert cache.keep(100, 0.0) is not None


def test_the_last_answer_of_a_session_has_all_partitions_and_ends_the_session() -> None:
    node = Node()
    node.fetch_sessions = FetchSessionCache(Limits(10, 2), Random(1))
    client = Client(node)
    client.begin({0: 0, 1: 0})
    assert client.id > 0
    node.append(2)
    answer = client.go_on({2: 0})
    assert (answer.session_id, answer.with_records, list(answer.parts)) == (0, [2], [0, 1, 2])
    assert client.go_on().error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def _asked(index: int) -> AskedPartition:
    return "orders", index, 0, 1, -1, -1, -1


def asked(*indexes: int) -> list[AskedPartition]:
    return [("orders", index, 0, 1, -1, -1, -1) for index in indexes]


def test_the_partition_that_got_records_last_is_read_last() -> None:
    session = FetchSession(asked(0, 1, 2), 0.0)
    session.advance(1.0, -1)
    session.add(asked(0))
    assert [part.index for part in session.to_look] == [1, 2, 0]


def test_all_of_a_follower_that_was_started_again_is_looked_at() -> None:
    """Fetches of an earlier incarnation do not show what the follower has."""
    session = FetchSession(asked(0, 1), 0.0, replica=2, broker_epoch=5)
    session.has_nothing(list(session.to_look))
    session.advance(1.0, 5)
    assert not session.to_look
    session.advance(2.0, 6)
    assert [part.index for part in session.to_look] == [0, 1]
