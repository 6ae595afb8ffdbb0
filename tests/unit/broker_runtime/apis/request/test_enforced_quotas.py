"""Client quotas on the requests of a broker that leads a partition, in virtual time."""

import asyncio
from typing import Any

import pytest

from broker_runtime.apis.cluster.api_versions import ApiVersionsAnswers
from broker_runtime.apis.fetch import fetch
from broker_runtime.apis.produce import produce
from broker_runtime.apis.request.answer_cache import AnswerCache
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec
from broker_runtime.apis.request.dispatching.dispatch import Dispatcher
from broker_runtime.apis.request.enforced_quotas import EnforcedQuotas
from broker_runtime.apis.topics import metadata
from broker_runtime.errors import ErrorCode
from broker_runtime.metadata.areas.quotas import ClientQuotaRecord
from broker_runtime.node.clients.client_quotas_on_demand import ClientQuotasOnDemand
from broker_runtime.security.acls.model import AclOperation, AclResource
from broker_runtime.security.principal import ANONYMOUS, UNAUTHENTICATED
from broker_runtime.slicing.steps import Steps
from broker_runtime.wire.header import response_prefix
from broker_runtime.wire.messages import CLIENT_ID, Fields, decode_response
from broker_runtime.wire.reply import FileRegion, PendingReply, Reply
from broker_runtime.wire.versions import API_VERSIONS, FETCH, FIND_COORDINATOR, METADATA, PRODUCE
from kafka_bytes.batches import encode_batch
from tests.support.logs.logs import LogHouse
from tests.support.logs.replicas import TOPIC, LeadingNode, leading
from tests.support.requests.access import allow, authorization_of
from tests.support.requests.calls import NotedConnection
from tests.support.requests.request_frames import encode_request

CLIENT = ("client-id", CLIENT_ID)


FOUND: Fields = {"error_code": ErrorCode.NONE, "error_message": None, "node_id": 1, "host": "h", "port": 1}


class Broker(LeadingNode):
    """Leads `orders-0`, with followers if wanted.

    A request for a coordinator takes as many seconds as its key says, or a second in steps, or waits for a minute.
    """

    def __init__(self, *replicas: int) -> None:
        self.house = LogHouse()
        super().__init__(leading(self.house.log, *(replicas or (1,)), isr=(1,)), self.house.clock)
        self.cluster_id = "cluster"
        self.all_topics = AnswerCache()
        self.peer = NotedConnection()
        self.ended: list[Call] = []
        find: ApiSpec[Any] = ApiSpec(FIND_COORDINATOR, "FindCoordinator", (0, 4), self._find)
        versions: ApiSpec[Any] = ApiSpec(
            API_VERSIONS, "ApiVersions", (0, 4), ApiVersionsAnswers([find]).handle, reads="frame", any_version=True
        )
        served: list[ApiSpec[Any]] = [find, versions, produce.API, fetch.API, metadata.API]
        self.dispatch: Dispatcher[Any] = Dispatcher(self, served, self.ended.append)
        self.quotas = ClientQuotasOnDemand(self.settings.config, self.image, self.dispatch, self.clock)

    def _find(self, request: Any, call: Call, context: object) -> Any:
        if request.key == "in steps":
            return self._work()
        if request.key == "later":
            return self._wait()
        self.house.clock.advance(float(request.key))
        return FOUND

    def _work(self) -> Steps[Fields]:
        for _ in range(1000):
            self.house.clock.advance(0.001)
            yield
        return FOUND

    async def _wait(self) -> Fields:
        await asyncio.sleep(0)
        self.house.clock.advance(60.0)
        return FOUND

    def limit(self, key: str, value: float | None, *entity: tuple[str, str | None]) -> None:
        record = ClientQuotaRecord(entity or (CLIENT,), key, value)
        changes = self.image.apply(record, self.image.next_offset)
        assert changes.client_quotas == {key}
        list(self.quotas.apply())

    def ask(self, key: int, version: int, content: dict[str, Any]) -> Any:
        """The decoded answer; None if there is none."""
        self.peer.throttle_s = 0.0
        reply = self.dispatch.handle(memoryview(encode_request(key, version, 3, content))[4:], self.peer)
        assert not isinstance(reply, PendingReply)
        whole = b"".join(part.read() if isinstance(part, FileRegion) else part for part in reply)
        return (
            decode_response(key, version, memoryview(whole)[len(response_prefix(key, version, 0, 0)) :])
            if whole
            else None
        )

    def find(self, seconds: float = 0.0) -> float:
        """Ask for a coordinator; return the throttle time of the answer in seconds."""
        answer = self.ask(FIND_COORDINATOR, 3, {"key": str(seconds), "key_type": 0})
        return float(answer.throttle_time.total_seconds())

    def produce(self, size: int, acks: int = 1) -> Any:
        records = encode_batch([(None, b"x" * size)], 1_700_000_000_000)
        data = {"name": TOPIC, "partition_data": [{"index": 0, "records": records}]}
        content = {"transactional_id": None, "acks": acks, "timeout": 0, "topic_data": [data]}
        return self.ask(PRODUCE, 9, content)

    def fetch(self, offset: int = 0, session: tuple[int, int] = (0, -1), replica: int = -1) -> Any:
        part = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
        names = session[1] <= 0
        content = {
            "replica_id": replica,
            "max_wait": 0,
            "min_bytes": 0,
            "session_id": session[0],
            "session_epoch": session[1],
            "topics": [{"topic": TOPIC, "partitions": [part]}] if names else [],
            "forgotten_topics_data": [],
        }
        return self.ask(FETCH, 12, content)


def size_of(answer: Any) -> int:
    return sum(len(part.records or b"") for topic in answer.responses for part in topic.partitions)


def test_without_quotas_no_call_is_charged() -> None:
    broker = Broker()
    list(broker.quotas.apply())
    assert broker.dispatch.completion.quotas is None
    assert broker.dispatch.gate is None
    broker.limit("producer_byte_rate", 1)
    assert broker.dispatch.completion.quotas is not None
    broker.limit("producer_byte_rate", None)
    assert broker.dispatch.completion.quotas is None
    assert broker.dispatch.gate is None


def test_a_client_that_has_not_authenticated_uses_up_no_bucket() -> None:
    broker = Broker()
    broker.limit("request_percentage", 0.01, ("client-id", None))
    broker.peer.principal = UNAUTHENTICATED
    assert [broker.find(1.0) for _ in range(3)] == [0.0] * 3
    quotas = broker.dispatch.completion.quotas
    assert isinstance(quotas, EnforcedQuotas)
    assert len(quotas.request.buckets) == 0
    broker.peer.principal = ANONYMOUS
    assert [broker.find(1.0) > 0 for _ in range(2)] == [False, True]


def test_produce_over_the_quota_is_appended_and_answered_with_the_throttle_time() -> None:
    broker = Broker()
    broker.limit("producer_byte_rate", 1000)
    answer = broker.produce(20_000)
    size = broker.ended[-1].request_bytes
    # Eleven windows: the request counts as spread over ten seconds.
    assert answer.throttle_time.total_seconds() * 1000 == round((size / 10 - 1000) / 1000 * 10_000)
    assert broker.peer.throttle_s == answer.throttle_time.total_seconds()
    assert broker.leader.log.log_end_offset == 1
    broker.house.clock.advance(broker.peer.throttle_s + 1)
    assert broker.produce(10).throttle_time.total_seconds() == 0


def test_a_throttle_time_that_no_answer_could_have_is_shortened() -> None:
    broker = Broker()
    broker.limit("producer_byte_rate", 0.001)
    assert broker.produce(20_000).throttle_time.total_seconds() == (2**31 - 1) / 1000
    assert broker.leader.log.log_end_offset == 1


def test_produce_without_an_answer_mutes_its_connection() -> None:
    broker = Broker()
    broker.limit("producer_byte_rate", 1000)
    assert broker.produce(20_000, acks=0) is None
    assert broker.peer.throttle_s > 10
    assert broker.ended[-1].is_exempt


def test_a_fetch_over_the_quota_is_empty_and_its_session_unchanged() -> None:
    broker = Broker()
    for _ in range(5):
        broker.produce(4000)
    broker.limit("consumer_byte_rate", 1000)
    first = broker.fetch(0, (0, 0))
    # As many batches as ten windows admit.
    assert 8000 < size_of(first) <= 10_000
    assert first.throttle_time.total_seconds() == 0
    second = broker.fetch(0, (first.session_id, 1))
    assert second.throttle_time.total_seconds() > 0
    assert (second.session_id, second.responses, second.error_code) == (first.session_id, (), ErrorCode.NONE)
    assert broker.peer.throttle_s == second.throttle_time.total_seconds()
    # The average of a new bucket is that of ten seconds at least, so one wait is not enough.
    broker.house.clock.advance(broker.peer.throttle_s)
    third = broker.fetch(0, (first.session_id, 2))
    assert (third.throttle_time.total_seconds() > 0, size_of(third)) == (True, 0)
    broker.house.clock.advance(broker.peer.throttle_s)
    last = broker.fetch(0, (first.session_id, 3))
    assert (last.throttle_time.total_seconds(), size_of(last)) == (0, size_of(first))


def test_a_fetch_is_charged_for_its_answer_without_the_header() -> None:
    broker = Broker()
    broker.produce(4000)
    broker.limit("consumer_byte_rate", 1000)
    broker.fetch()
    quotas = broker.dispatch.completion.quotas
    assert isinstance(quotas, EnforcedQuotas)
    meter = quotas.fetch.buckets.get(("", CLIENT_ID))
    assert meter is not None
    # Over ten seconds. The header is a correlation id and no tagged fields.
    charged = 10 * meter.per_second(int(broker.clock.monotonic() * 1000))
    assert charged == sum(map(len, broker.ended[-1].reply)) - 5


def test_bytes_that_were_not_sent_are_not_charged() -> None:
    broker = Broker()
    for _ in range(5):
        broker.produce(4000)
    broker.limit("consumer_byte_rate", 1000)
    broker.fetch()
    waits = [broker.fetch().throttle_time.total_seconds() for _ in range(3)]
    assert waits == [waits[0]] * 3


def test_a_fetch_without_a_session_keeps_none_while_it_is_throttled() -> None:
    broker = Broker()
    broker.produce(9000)
    broker.limit("consumer_byte_rate", 1000)
    broker.fetch()
    throttled = broker.fetch(0, (0, 0))
    assert throttled.throttle_time.total_seconds() > 0
    assert (throttled.session_id, throttled.responses) == (0, ())


@pytest.mark.parametrize("is_broker", [False, True])
def test_a_consumer_does_not_escape_its_quota_as_a_follower(is_broker: bool) -> None:
    """The session is a consumer's, and only the following requests name a replica."""
    broker = Broker()
    broker.produce(50_000)
    rules = [allow(AclResource.TOPIC, AclOperation.READ, TOPIC)]
    rules += [allow(AclResource.CLUSTER, AclOperation.CLUSTER_ACTION)] * is_broker
    broker.dispatch.completion.authorization = authorization_of(*rules)
    session = broker.fetch(session=(0, 0)).session_id
    assert session > 0
    broker.limit("consumer_byte_rate", 1000)
    answer = broker.fetch(session=(session, 1), replica=5)
    assert (answer.throttle_time.total_seconds() > 0, size_of(answer) == 0) == (not is_broker, not is_broker)
    assert broker.ended[-1].is_exempt is is_broker


def test_a_follower_has_no_quota() -> None:
    broker = Broker(1, 2)
    for _ in range(5):
        broker.produce(4000)
    broker.limit("consumer_byte_rate", 1)
    broker.limit("request_percentage", 0.001)
    for _ in range(3):
        answer = broker.fetch(replica=2)
        assert (answer.throttle_time.total_seconds(), size_of(answer) > 15_000) == (0, True)
    assert broker.ended[-1].is_exempt


def test_request_time_throttles_the_following_requests() -> None:
    broker = Broker()
    broker.limit("request_percentage", 10)
    # A second of ten is the quota.
    assert broker.find(1.0) == 0
    assert broker.find(0.05) == 0
    # 50 ms too many at 10 percent take 500 ms, less the time that has passed since.
    assert 0 < broker.find() <= 0.5
    for _ in range(3):
        broker.find(1.0)
    assert broker.find() == 1.0, "at most one window"
    assert broker.produce(10).throttle_time.total_seconds() == 1.0
    throttled = broker.fetch()
    assert (throttled.throttle_time.total_seconds(), size_of(throttled)) == (1.0, 0)
    broker.produce(10, acks=0)
    assert broker.peer.throttle_s == 0


@pytest.mark.parametrize(("key", "throttle_s"), [("in steps", 0.5), ("later", 0.0)])
async def test_the_time_in_slices_counts_and_waiting_does_not(key: str, throttle_s: float) -> None:
    broker = Broker()
    broker.limit("request_percentage", 9.5)
    frame = encode_request(FIND_COORDINATOR, 3, 3, {"key": key, "key_type": 0})
    answer = broker.dispatch.handle(memoryview(frame)[4:], broker.peer)
    assert isinstance(answer, PendingReply)
    arrived: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()
    answer.on_complete(arrived.set_result)
    assert await arrived is not None
    # A second of ten is 10 percent: (10 - 9.5) / 9.5 of ten seconds.
    assert broker.find() == pytest.approx(throttle_s, abs=0.05)
    assert (broker.peer.heavy_s > 0) is (throttle_s > 0)


@pytest.mark.parametrize("version", range(5))
def test_answers_of_api_versions_have_the_throttle_time(version: int) -> None:
    broker = Broker()
    broker.limit("request_percentage", 0.001)
    broker.find(1.0)
    content = {"client_software_name": "a", "client_software_version": "1"} if version >= 3 else {}
    answer = broker.ask(API_VERSIONS, version, content)
    assert [api.api_key for api in answer.api_keys] == [FIND_COORDINATOR, API_VERSIONS]
    assert broker.peer.throttle_s == 1.0
    if version >= 1:
        assert answer.throttle_time.total_seconds() == 1.0


@pytest.mark.parametrize("version", [0, 1, 3, 8, 9, 12])
@pytest.mark.parametrize("everything", [False, True])
def test_answers_about_topics_have_the_throttle_time_of_their_own_call(version: int, everything: bool) -> None:
    broker = Broker()
    none = () if version == 0 else None
    wanted: Any = none if everything else ({"name": TOPIC, "topic_id": None} if version >= 10 else {"name": TOPIC},)
    content: dict[str, Any] = {"topics": wanted}
    if version >= 4:
        content["allow_auto_topic_creation"] = False
    if version >= 8:
        content["include_topic_authorized_operations"] = False
    if 8 <= version <= 10:
        content["include_cluster_authorized_operations"] = False
    broker.ask(METADATA, version, content)
    broker.limit("request_percentage", 0.001)
    broker.find(1.0)
    throttled = broker.ask(METADATA, version, content)
    broker.limit("request_percentage", None)
    free = broker.ask(METADATA, version, content)
    assert [topic.name for topic in throttled.topics] == [topic.name for topic in free.topics] == [TOPIC]
    if version >= 3:
        assert throttled.throttle_time.total_seconds() == 1.0
        assert free.throttle_time.total_seconds() == 0


def test_metrics_name_the_throttled_clients() -> None:
    broker = Broker()
    assert list(broker.quotas.collect()) == []
    broker.limit("producer_byte_rate", 1000, ("user", None))
    broker.produce(20_000)
    found = {family.name: family.series for family in broker.quotas.collect()}
    (rate,) = found["kafka_server_produce_byte_rate"]
    assert rate.labels == {"user": "ANONYMOUS", "client_id": ""}
    assert rate.value == pytest.approx(2000, rel=0.02)
    throttled = {each.labels["quota"]: each.value for each in found["sluicegate_client_quota_throttled_requests_total"]}
    assert throttled == {"produce": 1, "fetch": 0, "request": 0}
