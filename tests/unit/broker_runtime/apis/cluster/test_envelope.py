"""Envelope: a controller serves a forwarded request under its client's name."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from broker_runtime.apis.cluster.api_versions import with_api_versions
from broker_runtime.apis.cluster.envelope import API
from broker_runtime.apis.request.call import Call, ForwardedClient
from broker_runtime.apis.request.context import ApiSpec
from broker_runtime.apis.request.dispatching.dispatch import Dispatcher
from broker_runtime.apis.request.forwarding import active_only, forwarded
from broker_runtime.apis.table import BROKER_APIS, CONTROLLER_APIS
from broker_runtime.apis.topics import create_partitions, create_topics, delete_topics
from broker_runtime.apis.topics.auto_topic_creation import AutoTopicCreation
from broker_runtime.errors import ErrorCode, ProtocolError
from broker_runtime.metadata.areas.quotas import ClientQuotaRecord
from broker_runtime.security.principal import ANONYMOUS, Principal
from broker_runtime.wire.envelope import VERSION, Envelope, client_frame, pack_envelope, read_enveloped
from broker_runtime.wire.handler import ServedConnection
from broker_runtime.wire.header import response_prefix
from broker_runtime.wire.messages import decode_response, encode_request_body, frame_request
from broker_runtime.wire.reply import Parts, PendingReply, Reply, parts_of, section
from broker_runtime.wire.versions import API_VERSIONS, CREATE_TOPICS, ENVELOPE, FORWARDED, METADATA
from tests.support.fakes.manual_clock import ManualClock
from tests.support.requests.access import authorization_by
from tests.support.requests.calls import NotedConnection
from tests.support.worlds.controller import ControllerInMemory

ALICE = Principal("User", "alice")


class ForwardingController(ControllerInMemory):
    """A controller in memory with a dispatcher, and the brokers' link to it."""

    def __init__(self, *, knows_envelopes: bool = True) -> None:
        super().__init__(properties={"controller.quota.window.num": "10"})
        self.link = NotedConnection()
        served: list[ApiSpec[Any]] = [create_topics.API, delete_topics.API, create_partitions.API]
        if knows_envelopes:
            served.append(API)
        apis: Any = with_api_versions(*(active_only(api) for api in served))
        self.dispatch: Dispatcher[Any] = Dispatcher(self, apis, lambda call: None)

    async def __aenter__(self) -> "ForwardingController":
        await super().__aenter__()
        return self

    def serve(self, frame: memoryview, connection: ServedConnection) -> Reply | PendingReply:
        return self.dispatch.handle(frame, connection)

    async def forward(self, api_key: int, version: int, body: memoryview) -> Parts:
        frame = memoryview(frame_request(api_key, version, 0, body))[4:]
        reply = await finished(self.dispatch.handle(frame, self.link))
        assert reply is not None
        parts = parts_of(reply)
        return section(parts, len(response_prefix(api_key, version, 0, 0)), sum(map(len, parts)))


async def finished(answer: Reply | PendingReply) -> Reply | None:
    if not isinstance(answer, PendingReply):
        return answer
    arrived: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()
    answer.on_complete(arrived.set_result)
    return await arrived


class ForwardingBroker:
    """A broker that forwards the requests of one client."""

    def __init__(self, controller: ForwardingController, principal: Principal = ALICE) -> None:
        self.clock: ManualClock = controller.clock
        self.controller = controller
        self.slow_controller = controller
        self.peer = NotedConnection()
        self.peer.principal = principal
        served = [forwarded(api) for api in (create_topics.API, delete_topics.API, create_partitions.API)]
        self.dispatch: Dispatcher[Any] = Dispatcher(self, served, lambda call: None)

    async def ask(self, api: ApiSpec[Any], version: int, content: dict[str, Any]) -> Any:
        self.peer.throttle_s = 0.0
        frame = client_frame(api.key, version, "app", memoryview(encode_request_body(api.key, version, content)))
        reply = await finished(self.dispatch.handle(memoryview(frame), self.peer))
        assert reply is not None
        whole = b"".join(bytes(chunk) for chunk in reply)  # type: ignore[arg-type]
        return decode_response(api.key, version, memoryview(whole)[len(response_prefix(api.key, version, 0, 0)) :])


def topics(*names: str, partitions: int = 30) -> dict[str, Any]:
    wanted = [
        {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": (), "configs": ()}
        for name in names
    ]
    return {"topics": wanted, "timeout": 1000, "validate_only": False}


def quota(value: float, *entity: tuple[str, str | None]) -> ClientQuotaRecord:
    return ClientQuotaRecord(entity, "controller_mutation_rate", value)


def codes(results: Any) -> dict[str, int]:
    return {each.name: int(each.error_code) for each in results}


def seconds(answer: Any) -> float:
    return float(answer.throttle_time.total_seconds())


@pytest.mark.parametrize(
    ("strict", "entity"),
    [
        (True, [("user", "alice")]),
        (False, [("user", "alice")]),
        (True, [("client-id", "app"), ("user", "alice")]),
        (True, [("client-id", "app")]),
    ],
)
async def test_the_quota_of_the_client_applies_to_forwarded_requests(
    strict: bool, entity: list[tuple[str, str | None]]
) -> None:
    async with ForwardingController() as controller:
        await controller.broker()
        await controller.write(quota(2, *entity))
        broker = ForwardingBroker(controller)
        answer = await broker.ask(create_topics.API, 6 if strict else 5, topics("a", "b"))
        exceeded = ErrorCode.THROTTLING_QUOTA_EXCEEDED if strict else ErrorCode.NONE
        assert codes(answer.topics) == {"a": ErrorCode.NONE, "b": exceeded}
        assert seconds(answer) == (5 if strict else 20)
        assert broker.peer.throttle_s == seconds(answer)
        controller.clock.advance(seconds(answer))
        answer = await broker.ask(create_topics.API, 6, topics("c"))
        assert (codes(answer.topics), seconds(answer)) == ({"c": ErrorCode.NONE}, 0)
        assert broker.peer.throttle_s == 0


async def test_deleting_and_growing_topics_is_charged() -> None:
    async with ForwardingController() as controller:
        await controller.broker()
        broker = ForwardingBroker(controller)
        await broker.ask(create_topics.API, 6, topics("a", "b", "c", "d", partitions=5))
        await controller.write(quota(2, ("user", "alice")))
        grown = [{"name": name, "count": 35, "assignments": None} for name in ("a", "b")]
        answer = await broker.ask(create_partitions.API, 3, {"topics": grown, "timeout": 1000, "validate_only": False})
        assert codes(answer.results) == {"a": ErrorCode.NONE, "b": ErrorCode.THROTTLING_QUOTA_EXCEEDED}
        assert seconds(answer) == 5
        controller.clock.advance(5)
        answer = await broker.ask(delete_topics.API, 5, {"topic_names": ["a", "c"], "timeout": 1000})
        assert codes(answer.responses) == {"a": ErrorCode.NONE, "c": ErrorCode.THROTTLING_QUOTA_EXCEEDED}
        assert seconds(answer) == 17.5
        answer = await broker.ask(delete_topics.API, 4, {"topic_names": ["c"], "timeout": 1000})
        assert (codes(answer.responses), seconds(answer)) == ({"c": ErrorCode.NONE}, 20)


async def test_topics_that_a_broker_creates_for_a_client_are_charged_to_it_and_not_refused() -> None:
    async with ForwardingController() as controller:
        await controller.broker()
        await controller.write(quota(2, ("user", "alice")))
        link: Any = controller
        creation = AutoTopicCreation(link, controller.clock, 1000, 10, lambda name: topics(name)["topics"][0])
        client = ForwardedClient(ALICE, "app", "10.0.0.9")
        for name in ("a", "b"):
            creation.ask_for([name], client)
        for _ in range(100):
            await asyncio.sleep(0)
        assert sorted(controller.image.topics) == ["a", "b"]
        await creation.close()
        answer = await ForwardingBroker(controller).ask(create_topics.API, 6, topics("c"))
        assert codes(answer.topics) == {"c": ErrorCode.THROTTLING_QUOTA_EXCEEDED}
        assert seconds(answer) == 20


async def test_topics_that_fail_before_cost_nothing_and_validation_costs_as_much() -> None:
    async with ForwardingController() as controller:
        await controller.broker()
        await controller.write(quota(2, ("user", "alice")))
        broker = ForwardingBroker(controller)
        for _ in range(3):
            answer = await broker.ask(create_topics.API, 6, topics("bad name", "worse name"))
            assert seconds(answer) == 0
        for exceeded in (False, True):
            answer = await broker.ask(create_topics.API, 6, topics("a") | {"validate_only": True})
            assert codes(answer.topics) == {"a": ErrorCode.THROTTLING_QUOTA_EXCEEDED if exceeded else ErrorCode.NONE}
        assert "a" not in controller.image.topics


async def test_a_controller_judges_the_client_of_a_broker_without_an_authorizer() -> None:
    """The controller has an authorizer. The broker's principal may create topics, and its anonymous client may not."""
    async with ForwardingController() as controller:
        await controller.broker()
        controller.link.principal = Principal("User", "broker")
        authorization = authorization_by(lambda: controller.image, frozenset({"User:broker"}))
        controller.dispatch.completion.authorization = authorization
        answer = await ForwardingBroker(controller, ANONYMOUS).ask(create_topics.API, 6, topics("a"))
        assert codes(answer.topics) == {"a": ErrorCode.TOPIC_AUTHORIZATION_FAILED}


async def test_each_client_travels_in_an_envelope() -> None:
    async with ForwardingController() as controller:
        await controller.broker()
        keys: list[int] = []
        forward = controller.forward

        async def noted(api_key: int, version: int, body: memoryview) -> Parts:
            keys.append(api_key)
            return await forward(api_key, version, body)

        controller.forward = noted  # type: ignore[method-assign]
        for principal in (ANONYMOUS, ALICE):
            await ForwardingBroker(controller, principal).ask(create_topics.API, 6, topics("a"))
    assert keys == [API_VERSIONS, ENVELOPE] * 2


async def test_an_older_controller_gets_the_request_without_an_envelope() -> None:
    async with ForwardingController(knows_envelopes=False) as controller:
        await controller.broker()
        answer = await ForwardingBroker(controller).ask(create_topics.API, 6, topics("a"))
        assert codes(answer.topics) == {"a": ErrorCode.NONE}


async def test_a_request_that_brokers_do_not_forward_is_refused() -> None:
    async with ForwardingController() as controller:
        frame = client_frame(METADATA, 1, "app", memoryview(b""))
        body = pack_envelope(Envelope(memoryview(frame), ALICE, "127.0.0.1"))
        answer = await controller.forward(ENVELOPE, VERSION, memoryview(body))
        assert read_enveloped(answer, METADATA, 1) == (None, ErrorCode.INVALID_REQUEST)


async def test_a_bad_request_in_an_envelope_ends_the_brokers_link() -> None:
    async with ForwardingController() as controller:
        frame = client_frame(CREATE_TOPICS, 7, "app", memoryview(b"x"))
        body = pack_envelope(Envelope(memoryview(frame), ALICE, "127.0.0.1"))
        with pytest.raises(ProtocolError):
            await controller.forward(ENVELOPE, VERSION, memoryview(body))


async def test_a_client_that_disconnects_cancels_its_request() -> None:
    async with ForwardingController() as controller:
        ended: list[str] = []

        def later(call: Call) -> Call:
            return call.later(lambda: ended.append(str(call.connection.principal)))

        waiting: ApiSpec[Any] = ApiSpec(CREATE_TOPICS, "CreateTopics", (2, 7), _handler(later))
        controller.dispatch = Dispatcher(controller, [API, waiting], lambda call: None)
        frame = client_frame(CREATE_TOPICS, 7, "app", memoryview(encode_request_body(CREATE_TOPICS, 7, topics("a"))))
        body = pack_envelope(Envelope(memoryview(frame), ALICE, "127.0.0.1"))
        request = memoryview(frame_request(ENVELOPE, VERSION, 0, body))[4:]
        answer = controller.dispatch.handle(request, controller.link)
        assert isinstance(answer, PendingReply)
        answer.cancel()
    assert ended == ["User:alice"]


def _handler(answer: Callable[[Call], Call]) -> Callable[[Any, Call, Any], Call]:
    return lambda request, call, context: answer(call)


def test_the_apis_that_may_come_in_an_envelope_are_those_that_brokers_forward() -> None:
    of_brokers = {api.key for api in BROKER_APIS if api.reads == "entity and body"}
    assert of_brokers == FORWARDED
    assert {api.key for api in CONTROLLER_APIS} >= FORWARDED
