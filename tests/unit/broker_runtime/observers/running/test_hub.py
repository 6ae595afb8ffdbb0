"""A dispatcher with observers, in memory: the requests and responses that each receives, and isolated failures."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from broker_runtime.apis.cluster.api_versions import with_api_versions
from broker_runtime.apis.fetch import fetch
from broker_runtime.apis.produce import produce
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.dispatching.dispatch import Dispatcher
from broker_runtime.errors import ProtocolError
from broker_runtime.network.connection.connection_notices import ConnectionNotice, NoticeKind
from broker_runtime.observers.base import NoResponse
from broker_runtime.observers.filters import Filter
from broker_runtime.observers.running.budget import Budget, ThreadUsage
from broker_runtime.observers.running.hub import ObserverHub
from broker_runtime.observers.running.in_service import ObserverInService, Readings
from broker_runtime.observers.source import OutlivedError
from broker_runtime.wire.reply import FileRegion, PendingReply, Reply
from broker_runtime.wire.versions import API_VERSIONS, FETCH, PRODUCE
from kafka_bytes.batches import encode_batch
from tests.support.logs.logs import TOPIC_ID, LogHouse
from tests.support.logs.replicas import LeadingNode, leading
from tests.support.requests.calls import NotedConnection
from tests.support.requests.request_frames import encode_request

ALL, LEADER, NONE = -1, 1, 0
FETCH_PART = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": 0, "partition_max_bytes": 1 << 20}


class Noting:
    """An observer that notes its calls, in the words of this test."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.structs: list[Any] = []

    def configure(self, config: Mapping[str, str]) -> None: ...

    def close(self, timeout_s: float) -> None: ...

    def record_request(
        self, struct: Any, client_address: str, principal: str, api_key: int, api_version: int, correlation_id: str
    ) -> None:
        assert (client_address, principal) == ("127.0.0.1", "User:ANONYMOUS")
        self.structs.append(struct)
        self.told.append(("request", api_key, api_version, correlation_id))

    def record_response(self, struct: Any, api_version: int, correlation_id: str) -> None:
        self.structs.append(struct)
        self.told.append(("response", struct.context.api_name, api_version, correlation_id))

    def record_no_response(self, why: NoResponse, api_version: int, correlation_id: str) -> None:
        self.told.append((why.value, api_version, correlation_id))


class Scene:
    """A leader with an in-sync follower, whose requests are observed, on a manual clock."""

    def __init__(self) -> None:
        self.house = LogHouse()
        self.leader = leading(self.house.log, 1, 2)
        self.node = LeadingNode(self.leader, self.house.clock)
        self.peer = NotedConnection()
        self.dispatch: Dispatcher[Any] = Dispatcher(self.node, with_api_versions(produce.API, fetch.API))
        self.hub = ObserverHub(lambda topic_id: "orders" if topic_id == TOPIC_ID else None, self.house.clock.monotonic)
        self.dispatch.observe(self.hub)
        self.warnings: list[str] = []
        self.usage = ThreadUsage(0.0, 0)
        self.services: list[ObserverInService] = []

    def observe(self, instance: Any, **wanted: str) -> ObserverInService:
        config = {f"filter.{key.replace('_', '.')}": text for key, text in wanted.items()}
        service = ObserverInService(
            "noting",
            instance,
            Filter.of(config),
            Budget(0.001),
            Readings(self.house.clock.monotonic, lambda: self.usage),
            self.warnings.append,
        )
        self.services.append(service)
        self.hub.serve(self.services)
        return service

    def produce(self, acks: int, topic: str = "orders") -> Reply | PendingReply:
        records = encode_batch([(b"k", b"v")], self.house.clock.wall_ms())
        topics = [{"name": topic, "partition_data": [{"index": 0, "records": records}]}]
        return self.ask(PRODUCE, 9, {"transactional_id": None, "acks": acks, "timeout": 1000, "topic_data": topics})

    def fetch(self, topic: str = "orders", max_wait: int = 1000) -> Reply | PendingReply:
        content = {
            "max_wait": max_wait,
            "min_bytes": 1,
            "session_epoch": -1,
            "topics": [{"topic": topic, "partitions": [FETCH_PART]}],
            "forgotten_topics_data": [],
        }
        return self.ask(FETCH, 12, content)

    def ask(self, key: int, version: int, content: dict[str, Any]) -> Reply | PendingReply:
        return self.dispatch.handle(memoryview(encode_request(key, version, 3, content))[4:], self.peer)

    def replicate(self) -> None:
        self.leader.on_fetch(2, -1, self.house.log.log_end_offset, 0.0)


def observed(**wanted: str) -> tuple[Scene, Noting]:
    scene, noting = Scene(), Noting()
    scene.observe(noting, **wanted)
    return scene, noting


def test_a_request_and_its_response_are_told_by_the_same_name() -> None:
    scene, noting = observed()
    scene.produce(LEADER)
    assert noting.told == [("request", PRODUCE, 9, "1-3"), ("response", "Produce", 9, "1-3")]


def test_a_delayed_response_is_reported_when_it_is_sent() -> None:
    scene, noting = observed()
    assert isinstance(scene.produce(ALL), PendingReply)
    assert len(noting.told) == 1
    scene.replicate()
    assert noting.told[1:] == [("response", "Produce", 9, "1-3")]


def test_neither_struct_outlives_its_call() -> None:
    scene, noting = observed()
    scene.produce(LEADER)
    for struct in noting.structs:
        with pytest.raises(OutlivedError):
            struct.context  # noqa: B018


def unwanted(scene: Scene) -> str:
    scene.produce(NONE)
    return "not wanted"


def refused(scene: Scene) -> str:
    with pytest.raises(ProtocolError):
        scene.produce(NONE, topic="unknown")
    return "refused"


def cancelled(scene: Scene) -> str:
    pending = scene.fetch()
    assert isinstance(pending, PendingReply)
    pending.cancel()
    return "cancelled"


def hung_up(scene: Scene) -> str:
    scene.fetch()
    scene.node.led = lambda *_: 1 // 0  # type: ignore[method-assign, assignment]
    scene.house.append(b"v")
    scene.replicate()
    return "hung up"


@pytest.mark.parametrize("end", [unwanted, refused, cancelled, hung_up])
def test_a_request_without_a_response_is_told_with_why(end: Callable[[Scene], str]) -> None:
    scene, noting = observed()
    why = end(scene)
    assert [told[0] for told in noting.told] == ["request", why]
    assert noting.told[1][-1] == "1-3"


def test_an_unreadable_request_is_not_reported() -> None:
    scene, noting = observed()
    scene.dispatch.handle(memoryview(encode_request(API_VERSIONS, 3, 3, SOFTWARE))[4:], scene.peer)
    assert len(noting.told) == 2
    noting.told.clear()
    with pytest.raises(ProtocolError):
        scene.dispatch.handle(memoryview(b"\x00\x00\x00\x63\x00\x00\x00\x03\xff\xff"), scene.peer)
    scene.dispatch.handle(memoryview(b"\x00\x12\x00\x63\x00\x00\x00\x03\xff\xff\x00"), scene.peer)
    assert noting.told == []


SOFTWARE = {"client_software_name": "test", "client_software_version": "1"}


@pytest.mark.parametrize(
    ("wanted", "sees"),
    [
        ({"api_keys": "Produce"}, True),
        ({"api_keys": "0, LIST_OFFSETS"}, True),
        ({"api_keys": "Fetch"}, False),
        ({"listeners": "plaintext"}, True),
        ({"listeners": "EXTERNAL"}, False),
        ({"principals": "User:ANONYMOUS"}, True),
        ({"principals": "User:alice"}, False),
        ({"topic_prefixes": "pay,ord"}, True),
        ({"topic_prefixes": "pay"}, False),
        ({"topic_prefixes": "orders-"}, False),
    ],
)
def test_a_filter_selects_the_messages_of_an_observer(wanted: dict[str, str], sees: bool) -> None:
    scene, noting = observed(**wanted)
    scene.produce(LEADER)
    assert [told[0] for told in noting.told] == (["request", "response"] if sees else [])


def test_an_unwanted_message_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, noting = observed(topic_prefixes="pay")
    monkeypatch.setattr("broker_runtime.observers.running.hub.layout_of", lambda _: pytest.fail("made for nobody"))
    scene.produce(LEADER)
    assert noting.told == []


def test_a_fetch_that_names_no_topic_is_judged_by_its_answer() -> None:
    """An incremental fetch names none: its answer may still contain a wanted topic."""
    scene, noting = observed(topic_prefixes="ord")
    scene.house.append(b"v")
    scene.replicate()
    parts = {"topics": [{"topic": "orders", "partitions": [FETCH_PART]}], "forgotten_topics_data": []}
    head = {"max_wait": 0, "min_bytes": 0}
    scene.ask(FETCH, 12, head | parts | {"session_epoch": 0})
    assert [told[0] for told in noting.told] == ["request", "response"]
    session = [struct for struct in noting.structs if struct][1:]
    assert len(session) == 1
    noting.told.clear()
    scene.house.append(b"w")
    scene.replicate()
    (session_id,) = scene.node.fetch_sessions._sessions
    scene.ask(
        FETCH, 12, head | {"topics": [], "forgotten_topics_data": [], "session_id": session_id, "session_epoch": 1}
    )
    assert [told[0] for told in noting.told] == ["response"]


class Sizes(Noting):
    def record_response(self, struct: Any, api_version: int, correlation_id: str) -> None:
        for topic in struct.responses:
            name = topic.topic if api_version < 13 else struct.context.topic_name(topic.topic_id)
            for partition in topic.partitions:
                records = partition.records
                self.told.append((name, partition.partition_index, records.size, records.count, records.from_file))


@pytest.mark.parametrize("version", [12, 15])
def test_a_fetch_that_is_sent_from_a_file_is_described_without_being_read(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, sizes = Scene(), Sizes()
    scene.observe(sizes, api_keys="Fetch", topic_prefixes="orders")
    scene.house.append(b"v")
    scene.replicate()
    monkeypatch.setattr(FileRegion, "read", lambda _: pytest.fail("it was read"))
    topic = {"topic": "orders"} if version < 13 else {"topic_id": TOPIC_ID}
    content = {"max_wait": 0, "min_bytes": 0, "session_epoch": -1, "forgotten_topics_data": []}
    reply = scene.ask(FETCH, version, content | {"topics": [{**topic, "partitions": [FETCH_PART]}]})
    assert isinstance(reply, tuple)
    (region,) = [chunk for chunk in reply if isinstance(chunk, FileRegion)]
    assert sizes.told[1:] == [("orders", 0, region.length, None, True)]


class Raising(Noting):
    def record_request(self, *_: object) -> None:
        raise SystemExit("I had enough")

    def record_response(self, *_: object) -> None:
        raise SystemExit("I had enough")


def test_an_observer_that_raises_affects_neither_the_request_nor_other_observers() -> None:
    scene, noting = Scene(), Noting()
    bad = scene.observe(Raising())
    scene.observe(noting)
    assert isinstance(scene.produce(LEADER), tuple)
    assert [told[0] for told in noting.told] == ["request", "response"]
    assert bad.figures.errors == 2
    assert scene.warnings == ["raised: observer noting raised SystemExit: I had enough"]
    scene.house.clock.advance(61)
    scene.produce(LEADER)
    assert scene.warnings[1:] == [
        "raised: observer noting raised SystemExit: I had enough (1 more like this since the last line)"
    ]


class WordlessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Wordless(Noting):
    def record_request(self, *_: object) -> None:
        raise WordlessError


def test_not_even_one_whose_exception_raises_harms_a_request() -> None:
    scene = Scene()
    service = scene.observe(Wordless())
    assert isinstance(scene.produce(LEADER), tuple)
    assert service.figures.last_error == "WordlessError: its message raises RuntimeError"


class Unspeakable(Noting):
    @property
    def dropped(self) -> int:
        raise SystemExit

    @property
    def remark(self) -> str:
        raise SystemExit


def test_an_observer_whose_statistics_raise_is_counted_as_an_error() -> None:
    service = Scene().observe(Unspeakable())
    assert (service.dropped, service.remark) == (None, "")
    assert service.figures.errors == 2


class Slow(Noting):
    def __init__(self, scene: Scene, *, sleeps: bool) -> None:
        super().__init__()
        self._scene, self._sleeps = scene, sleeps

    def record_request(self, *_: object) -> None:
        self.told.append("request")
        self._scene.house.clock.advance(0.2)
        if self._sleeps:
            used = self._scene.usage
            self._scene.usage = used._replace(waits=used.waits + 1)


def test_a_slow_observer_is_suspended_and_resumed() -> None:
    scene = Scene()
    slow = Slow(scene, sleeps=True)
    service = scene.observe(slow)
    for _ in range(10):
        scene.produce(LEADER)
    assert slow.told.count("request") == 2, "the first late one makes the next one be looked at closely"
    assert slow.told[-1] == "request", "not even its response"
    assert (service.figures.suspensions, service.figures.over_budget) == (1, 2)
    assert service.figures.skipped > 0
    assert (
        "is suspended for 1 s: its calls keep taking longer than 1000 us, the last one 200000 us" in scene.warnings[0]
    )
    scene.house.clock.advance(1.0)
    scene.produce(LEADER)
    assert service.figures.suspensions == 2, "at once, and for longer"
    assert service.budget.resumes_s - scene.house.clock.monotonic() == pytest.approx(2.0)


def test_one_that_waits_for_a_busy_machine_is_not_suspended() -> None:
    scene = Scene()
    late = Slow(scene, sleeps=False)
    service = scene.observe(late)
    for _ in range(10):
        scene.produce(LEADER)
    assert late.told.count("request") == 10
    assert (service.figures.suspensions, service.figures.over_budget) == (0, 10)


class Account(Noting):
    """An observer like the audit log: all facts in one call."""

    record_request = record_response = record_no_response = None  # type: ignore[assignment]

    def record_call(self, call: Call) -> None:
        self.told.append((call.api.name, call.ending.value, call.partitions is not None))


def test_an_account_gets_each_call_once() -> None:
    scene, account = Scene(), Account()
    service = scene.observe(account)
    assert service.record_call == account.record_call
    scene.produce(LEADER)
    scene.produce(ALL)
    scene.replicate()
    with pytest.raises(ProtocolError):
        scene.dispatch.handle(memoryview(b"\x00\x00\x00\x63\x00\x00\x00\x03\xff\xff"), scene.peer)
    assert account.told == [
        ("Produce", "answered", True),
        ("Produce", "answered", True),
        ("Produce", "refused", False),
    ]


class BrokenAccount(Noting):
    record_request = record_response = record_no_response = None  # type: ignore[assignment]

    def record_call(self, call: Call) -> None:
        raise RuntimeError(call.api.name)

    def record_connection(self, notice: ConnectionNotice) -> None:
        raise RuntimeError(notice.kind)


def test_an_account_that_raises_affects_neither_requests_nor_other_accounts() -> None:
    scene, account = Scene(), Account()
    broken = scene.observe(BrokenAccount(), listeners="EXTERNAL")
    scene.observe(account)
    assert isinstance(scene.produce(LEADER), tuple)
    scene.hub.connection_notice(ConnectionNotice(NoticeKind.ACCEPTED, "PLAINTEXT", "127.0.0.1", 5, 1))
    assert len(account.told) == 1
    assert (broken.figures.errors, broken.figures.last_error) == (2, "RuntimeError: accepted")


def test_a_malformed_request_is_rejected_by_its_handler_and_not_reported() -> None:
    scene, noting = observed(topic_prefixes="ord")
    frame = encode_request(PRODUCE, 9, 3, {"transactional_id": None, "acks": 1, "timeout": 1, "topic_data": []})
    with pytest.raises(ProtocolError):
        scene.dispatch.handle(memoryview(frame)[4:-2], scene.peer)
    assert noting.told == []


class Note(Account):
    """An account that notes requests of one API before they are handled."""

    noted_apis = frozenset({PRODUCE})

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[tuple[int, bytes]] = []

    def note(self, call: Call, frame: memoryview, body_at: int) -> None:
        self.noted.append((call.api.key, bytes(frame[body_at : body_at + 2])))
        if len(self.noted) > 1:
            raise ValueError("it fails")


def test_an_account_notes_only_requests_of_its_apis_and_its_errors_stay_its_own() -> None:
    scene, note = Scene(), Note()
    service = scene.observe(note)
    scene.produce(LEADER)
    scene.ask(API_VERSIONS, 0, {})
    scene.produce(LEADER)
    assert [key for key, _ in note.noted] == [PRODUCE, PRODUCE]
    assert [name for name, *_ in note.told] == ["Produce", "ApiVersions", "Produce"]
    assert (service.figures.errors, service.figures.last_error) == (1, "ValueError: it fails")


class Strict(Account):
    rejects = True

    def refuses(self, call: Call) -> bool:
        return call.api.key == PRODUCE


def test_an_account_may_have_a_request_refused_that_it_cannot_keep() -> None:
    scene, strict = Scene(), Strict()
    scene.observe(strict)
    with pytest.raises(ProtocolError, match="requests must be recorded"):
        scene.produce(LEADER)
    assert isinstance(scene.fetch(max_wait=0), tuple)
    assert strict.told == [("Produce", "refused", True), ("Fetch", "answered", True)]
    assert scene.house.log.log_end_offset == 0


def test_connections_are_reported_to_subscribed_observers() -> None:
    scene = Scene()

    class Connections(Noting):
        def record_connection(self, notice: ConnectionNotice) -> None:
            self.told.append(notice.listener)

    some, every = Connections(), Connections()
    scene.observe(some, listeners="external")
    scene.observe(every)
    scene.observe(Noting())
    assert scene.hub.wants_connections
    for listener in ("EXTERNAL", "PLAINTEXT"):
        scene.hub.connection_notice(ConnectionNotice(NoticeKind.ACCEPTED, listener, "127.0.0.1", 5, 1))
    assert (some.told, every.told) == (["EXTERNAL"], ["EXTERNAL", "PLAINTEXT"])


def test_a_removed_observer_receives_no_response() -> None:
    scene, noting = observed()
    pending = scene.produce(ALL)
    scene.hub.serve([])
    scene.dispatch.observe(None)
    assert not scene.hub.wants_requests
    scene.replicate()
    assert isinstance(pending, PendingReply)
    assert pending.done
    assert [told[0] for told in noting.told] == ["request"]
