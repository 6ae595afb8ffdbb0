"""Every way in which a call can end is reported to an observer exactly once, with all known details of the call."""

import gc
import struct
from collections.abc import Callable
from typing import Any

import pytest

from broker_runtime.apis.cluster.api_versions import with_api_versions
from broker_runtime.apis.fetch import fetch
from broker_runtime.apis.produce import produce
from broker_runtime.apis.request.call import Call, ClientSoftware, Ending
from broker_runtime.apis.request.context import ApiSpec
from broker_runtime.apis.request.dispatching.dispatch import Dispatcher
from broker_runtime.apis.request.observed import answer_bytes, client_software, error_code, principal
from broker_runtime.apis.request.request_metrics import RequestCount, RequestMetrics
from broker_runtime.errors import ErrorCode, ProtocolError
from broker_runtime.exposition import render
from broker_runtime.node.metrics import request_families
from broker_runtime.wire import versions
from broker_runtime.wire.reply import NO_REPLY, PendingReply, Reply
from broker_runtime.wire.versions import API_VERSIONS, FETCH, FIND_COORDINATOR, PRODUCE, ApiFormat
from kafka_bytes.batches import encode_batch
from tests.support.logs.logs import LogHouse
from tests.support.logs.replicas import LeadingNode, leading
from tests.support.requests.calls import NotedConnection
from tests.support.requests.request_frames import encode_request

ALL, LEADER, NONE = -1, 1, 0
FIND = memoryview(encode_request(FIND_COORDINATOR, 3, 7, {"key": "group", "key_type": 0}))[4:]
NOWHERE = {
    "error_code": ErrorCode.COORDINATOR_NOT_AVAILABLE,
    "error_message": None,
    "node_id": -1,
    "host": "",
    "port": -1,
}


class Scene:
    """A leader with an in-sync follower, and an observer of its calls."""

    def __init__(self, *more: ApiSpec[Any]) -> None:
        self.house = LogHouse()
        self.leader = leading(self.house.log, 1, 2)
        self.node = LeadingNode(self.leader, self.house.clock)
        self.peer = NotedConnection()
        self.ended: list[Call] = []
        served = with_api_versions(produce.API, fetch.API, *more)
        self.metrics = RequestMetrics(served)
        self.dispatch: Dispatcher[Any] = Dispatcher(self.node, served, self._note)

    def _note(self, call: Call) -> None:
        self.ended.append(call)
        self.metrics.on_call(call)

    def produce(self, acks: int, topic: str = "orders") -> Reply | PendingReply:
        records = encode_batch([(b"k", b"v")], self.house.clock.wall_ms())
        partitions = [{"index": 0, "records": records}]
        topics = [{"name": topic, "partition_data": partitions}]
        content = {"transactional_id": None, "acks": acks, "timeout": 1000, "topic_data": topics}
        return self.ask(PRODUCE, 9, content)

    def fetch(self) -> PendingReply:
        part = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        content = {
            "max_wait": 1000,
            "min_bytes": 1,
            "session_epoch": -1,
            "topics": [{"topic": "orders", "partitions": [part]}],
            "forgotten_topics_data": [],
        }
        pending = self.ask(FETCH, 12, content)
        assert isinstance(pending, PendingReply)
        return pending

    def ask(self, key: int, version: int, content: dict[str, Any]) -> Reply | PendingReply:
        return self.dispatch.handle(memoryview(encode_request(key, version, 3, content))[4:], self.peer)

    @property
    def last(self) -> Call:
        """The only call that has ended."""
        (call,) = self.ended
        return call


def answered_at_once(scene: Scene) -> Ending:
    reply = scene.produce(LEADER)
    assert answer_bytes(scene.last) == len(b"".join(bytes(chunk) for chunk in reply))  # type: ignore[union-attr, arg-type]
    return Ending.ANSWERED


def answered_without_a_word(scene: Scene) -> Ending:
    assert scene.produce(NONE) == NO_REPLY
    assert answer_bytes(scene.last) == 0
    return Ending.ANSWERED


def answered_with_an_error(scene: Scene) -> Ending:
    scene.produce(LEADER, topic="unknown")
    assert error_code(scene.last) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return Ending.ANSWERED


def answered_when_replicated(scene: Scene) -> Ending:
    assert isinstance(scene.produce(ALL), PendingReply)
    assert not scene.ended
    scene.leader.on_fetch(2, -1, 1, 0.0)
    return Ending.ANSWERED


def answered_when_time_is_over(scene: Scene) -> Ending:
    pending = scene.produce(ALL)
    scene.node.timers[0]()
    scene.leader.on_fetch(2, -1, 1, 0.0)
    assert isinstance(pending, PendingReply)
    assert error_code(scene.last) == ErrorCode.REQUEST_TIMED_OUT
    return Ending.ANSWERED


def refused_with_acks_0(scene: Scene) -> Ending:
    with pytest.raises(ProtocolError):
        scene.produce(NONE, topic="unknown")
    assert scene.last.refusal == "acks-0-failed"
    return Ending.REFUSED


def refused_for_its_version(scene: Scene) -> Ending:
    with pytest.raises(ProtocolError):
        scene.dispatch.handle(memoryview(struct.pack(">hhihx", PRODUCE, 99, 1, -1)), scene.peer)
    return Ending.REFUSED


def refused_for_a_mistake_of_ours(scene: Scene) -> Ending:
    scene.node.led = lambda *_: 1 // 0  # type: ignore[method-assign, assignment]
    with pytest.raises(ZeroDivisionError):
        scene.produce(LEADER)
    assert scene.last.refusal == "handler-failed"
    return Ending.REFUSED


def hung_up_by_a_step_that_failed(scene: Scene) -> Ending:
    pending = scene.fetch()
    heard: list[Reply | None] = []
    pending.on_complete(heard.append)
    scene.node.led = lambda *_: 1 // 0  # type: ignore[method-assign, assignment]
    scene.house.append(b"v")
    scene.leader.on_fetch(2, -1, 1, 0.0)
    assert heard == [None]
    return Ending.HUNG_UP


def cancelled_as_the_client_has_gone(scene: Scene) -> Ending:
    pending = scene.fetch()
    pending.cancel()
    pending.cancel()
    scene.house.append(b"v")
    return Ending.CANCELLED


WAYS: list[Callable[[Scene], Ending]] = [
    answered_at_once,
    answered_without_a_word,
    answered_with_an_error,
    answered_when_replicated,
    answered_when_time_is_over,
    refused_with_acks_0,
    refused_for_its_version,
    refused_for_a_mistake_of_ours,
    hung_up_by_a_step_that_failed,
    cancelled_as_the_client_has_gone,
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_each_way_to_end_is_told_once(way: Callable[[Scene], Ending]) -> None:
    scene = Scene()
    ending = way(scene)
    assert scene.last.ending is ending
    assert (scene.last.connection, principal(scene.last)) == (scene.peer, "User:ANONYMOUS")
    count = next(count for count in scene.metrics.collect() if count.total)
    assert (count.total, count.failed) == (1, ending in (Ending.REFUSED, Ending.HUNG_UP))


def answered_with_records(scene: Scene) -> Ending:
    scene.fetch()
    scene.house.append(b"v")
    scene.leader.on_fetch(2, -1, 1, 0.0)
    return Ending.ANSWERED


KINDS = ("Call", "FetchRequest", "SessionFetch", "FetchSession", "FetchPartition", "LongPoll", "_Wait", "_Waiting")


WITHOUT_LOG_LINES = [way for way in WAYS if way is not hung_up_by_a_step_that_failed]
"""The log handler of pytest keeps errors with their tracebacks."""


@pytest.mark.full
@pytest.mark.parametrize("way", [*WITHOUT_LOG_LINES, answered_with_records], ids=lambda way: way.__name__)
def test_nothing_of_a_call_that_has_ended_is_left_to_the_garbage_collector(way: Callable[[Scene], Ending]) -> None:
    """The collector never scans what waited while replicas were made, so thousands of fetches would stay for ever."""
    scene = Scene()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        of_other_tests = _of_calls()
        way(scene)
        for kept in (scene.ended, scene.node.timers, scene.peer.refusals):
            kept.clear()
        assert [type(left) for left in _of_calls() if not any(left is known for known in of_other_tests)] == []
    finally:
        gc.enable()
        gc.unfreeze()


def _of_calls() -> list[object]:
    return [known for known in gc.get_objects() if type(known).__name__ in KINDS]


def test_a_call_records_its_arrival_wait_and_end_times() -> None:
    scene = Scene()
    began_s = scene.house.clock.monotonic()
    scene.produce(ALL)
    scene.house.clock.advance(0.25)
    scene.leader.on_fetch(2, -1, 1, 0.0)
    call = scene.last
    assert (call.received_s, call.handled_s, call.completed_s) == (began_s, began_s, began_s + 0.25)
    assert RequestCount("Produce", 1, 0, 0.25) in list(scene.metrics.collect())
    shown = render(request_families(scene.metrics.collect()))
    assert b'kafka_network_request_time_seconds_total{request="Produce"} 0.25\n' in shown
    assert call.request is None, "the bytes of the request are gone"


def test_a_client_library_is_known_once_it_has_sent_its_name() -> None:
    scene = Scene()
    scene.produce(LEADER)
    assert client_software(scene.last) is None
    for name in ("librdkafka", "no name!"):
        scene.ask(API_VERSIONS, 3, {"client_software_name": name, "client_software_version": "2.11.1"})
    scene.produce(LEADER)
    assert client_software(scene.ended[-1]) == ClientSoftware("librdkafka", "2.11.1")
    assert [error_code(call) for call in scene.ended] == [0, 0, ErrorCode.INVALID_REQUEST, 0]


def test_an_error_in_an_answer_of_fields_is_found_wherever_it_is() -> None:
    nested = {**NOWHERE, "error_code": ErrorCode.NONE, "coordinators": [{"key": "k", **NOWHERE}]}
    scene = Scene(ApiSpec(FIND_COORDINATOR, "FindCoordinator", (0, 4), lambda *_: nested))
    scene.dispatch.handle(FIND, scene.peer)
    assert error_code(scene.last) == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_keys_outside_of_kafkas_range_are_counted_as_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(versions.FORMATS, 1001, ApiFormat("fetch", 12))
    own: ApiSpec[Any] = ApiSpec(1001, "Own", (0, 0), lambda reader, call, context: call.packed(b""), reads="frame")
    scene = Scene(own)
    scene.dispatch.handle(memoryview(struct.pack(">hhih", 1001, 0, 1, -1)), scene.peer)
    assert [count[:3] for count in scene.metrics.collect() if count.total] == [("Own", 1, 0)]


def test_nothing_is_measured_without_an_observer() -> None:
    scene = Scene()
    dispatch: Dispatcher[Any] = Dispatcher(scene.node, [produce.API])
    scene.dispatch = dispatch
    assert scene.produce(LEADER)
    pending = scene.produce(ALL)
    assert isinstance(pending, PendingReply)
    pending.cancel()
    assert not scene.ended


def test_a_handler_may_push_frames_and_is_notified_of_the_connections_end() -> None:
    """Like a coordinator, which calls its members and forgets those that have gone."""
    members: list[str] = []

    def join(request: Any, call: Call, context: object) -> Any:
        members.append(request.key)
        call.connection.closed.add(lambda: members.remove(request.key))
        call.connection.push(b"\0\0\0\0")
        return NOWHERE

    scene = Scene(ApiSpec(FIND_COORDINATOR, "FindCoordinator", (0, 4), join))
    scene.dispatch.handle(FIND, scene.peer)
    assert (members, scene.peer.pushed) == (["group"], [b"\0\0\0\0"])
    scene.peer.end()
    assert not members
