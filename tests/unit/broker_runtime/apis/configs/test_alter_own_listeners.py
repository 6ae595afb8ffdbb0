"""A broker's part in changing its own listeners: the changes that it refuses, stores and forwards."""

import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from broker_runtime.apis.configs import alter_configs, incremental_alter_configs
from broker_runtime.apis.request.context import ApiSpec, ReadRequest
from broker_runtime.apis.table import BROKER_APIS
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.wire.header import response_prefix
from broker_runtime.wire.messages import decode_request, decode_response, encode_request_body, encode_response_body
from broker_runtime.wire.reply import Parts, parts_of
from broker_runtime.wire.versions import API_VERSIONS
from tests.support.requests.calls import a_call, fields_later
from tests.support.worlds.controller import ControllerInMemory

INCREMENTAL, REPLACE = incremental_alter_configs.API, alter_configs.API
LISTENERS = "PLAINTEXT://127.0.0.1:9092,EXTERNAL://127.0.0.1:9094"
NOTHING_ELSE = {
    "resources": [{"resource_type": 4, "resource_name": "1", "configs": []}],
    "validate_only": False,
}
NONE, INVALID = ErrorCode.NONE, ErrorCode.INVALID_REQUEST


class Broker:
    """Broker 1 of a cluster with a sufficiently real controller and broker 2; port 9666 cannot be opened."""

    def __init__(self, node: ControllerInMemory) -> None:
        self.node = node
        self.settings, self.controller, self.listeners = node.settings, self, self
        self.slow_controller = self
        self.held: list[str] = []
        self.events: list[str] = []

    @property
    def image(self) -> MetadataImage:
        return self.node.image

    @asynccontextmanager
    async def opening(self, change: Callable[[], Mapping[str, str]]) -> AsyncIterator[Mapping[str, str]]:
        own = change()
        if "9666" in own.get("listeners", ""):
            raise KafkaError(INVALID, "cannot listen on 9666")
        self.events.append("opened")
        yield own
        self.events.append("released")

    async def in_force(self, own: Mapping[str, str], timeout_s: float) -> bool:
        self.events.append("in force")
        return dict(self.image.configs.of_broker(1)) == dict(own)

    async def forward(self, api_key: int, version: int, body: memoryview) -> Parts:
        if api_key == API_VERSIONS:
            # A release without envelopes.
            return (memoryview(encode_response_body(API_VERSIONS, 0, {"error_code": NONE, "api_keys": ()})),)
        self.events.append("forwarded")
        api = next(api for api in (INCREMENTAL, REPLACE) if api.key == api_key)
        answer = await api.handle(decode_request(api_key, version, body), a_call(api, version), self.node)  # type: ignore[misc,arg-type]
        return (memoryview(encode_response_body(api_key, version, answer)),)

    async def ask(
        self,
        api: ApiSpec[Any],
        *resources: tuple[str, Mapping[str, str]],
        validate: bool = False,
        kinds: Sequence[int] = (),
    ) -> Any:
        """The error codes by the names of resources, which are brokers unless `kinds` has others; values are set."""
        version = api.versions[1]
        content = {
            "resources": [
                {
                    "resource_type": kind,
                    "resource_name": name,
                    "configs": [
                        {"name": key, "value": value} | ({"config_operation": 0} if api is INCREMENTAL else {})
                        for key, value in configs.items()
                    ],
                }
                for (name, configs), kind in zip(resources, kinds or [4] * len(resources), strict=True)
            ],
            "validate_only": validate,
        }
        served = next(each for each in BROKER_APIS if each.key == api.key)
        body = encode_request_body(api.key, version, content)
        read = ReadRequest(decode_request(api.key, version, memoryview(body)), body)
        answer = await fields_later(served.handle(read, a_call(api, version), self))  # type: ignore[arg-type]
        if isinstance(answer, tuple):
            whole = memoryview(b"".join(parts_of(answer)))[len(response_prefix(api.key, version, 0, 0)) :]
            answer = {"responses": [_fields(r) for r in decode_response(api.key, version, whole).responses]}
        return [(r["resource_name"], r["error_code"]) for r in answer["responses"]]


def _fields(response: Any) -> Mapping[str, object]:
    return {"resource_name": response.resource_name, "error_code": response.error_code}


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with ControllerInMemory() as node:
        for number in (1, 2):
            await node.broker(number, "PLAINTEXT")
        yield Broker(node)


ADDED = {"listeners": LISTENERS, "listener.security.protocol.map": "EXTERNAL:PLAINTEXT"}


async def test_listeners_open_before_they_are_stored_and_the_answer_follows_when_they_are_in_force(
    broker: Broker,
) -> None:
    assert await broker.ask(INCREMENTAL, ("1", ADDED)) == [("1", NONE)]
    assert broker.events == ["opened", "forwarded", "in force", "released"]
    assert broker.image.configs.of_broker(1) == ADDED


async def test_a_listener_and_its_limits_are_set_in_one_request(broker: Broker) -> None:
    key = "listener.name.external.max.connections"
    assert await broker.ask(INCREMENTAL, ("1", {key: "5"})) == [("1", INVALID)]
    assert await broker.ask(INCREMENTAL, ("1", ADDED | {key: "5"})) == [("1", NONE)]
    assert await broker.ask(INCREMENTAL, ("1", {key: "6"})) == [("1", NONE)]
    assert broker.image.configs.of_broker(1)[key] == "6"


async def test_a_listener_that_cannot_be_opened_is_rejected_and_other_changes_are_applied(broker: Broker) -> None:
    taken = {"listeners": LISTENERS.replace("9094", "9666")}
    found = await broker.ask(INCREMENTAL, ("2", {"max.connections": "9"}), ("1", taken), ("", {"num.partitions": "3"}))
    assert [(name, code) for name, code in found if name != ""] == [("2", NONE), ("1", INVALID)]
    assert broker.image.configs.of_broker(1) == {}
    assert broker.image.configs.of_broker(2) == {"max.connections": "9"}
    assert await broker.ask(INCREMENTAL, ("1", taken)) == [("1", INVALID)]
    assert broker.events == ["forwarded"], "nothing was left of the second"


async def test_another_brokers_listeners_are_refused_and_its_other_keys_are_not(broker: Broker) -> None:
    assert await broker.ask(INCREMENTAL, ("2", ADDED), ("1", {"max.connections": "5"})) == [("2", INVALID), ("1", NONE)]
    assert broker.image.configs.of_broker(2) == {}
    assert broker.image.configs.of_broker(1) == {"max.connections": "5"}
    assert await broker.ask(INCREMENTAL, ("2", {"max.connections": "9"})) == [("2", NONE)]


async def test_validating_opens_and_stores_nothing(broker: Broker) -> None:
    assert await broker.ask(INCREMENTAL, ("1", ADDED), validate=True) == [("1", NONE)]
    assert broker.events == ["opened", "forwarded", "released"]
    assert broker.image.configs.of_broker(1) == {}


async def test_replacing_a_configuration_takes_listeners_away_that_it_does_not_name(broker: Broker) -> None:
    await broker.ask(INCREMENTAL, ("1", ADDED))
    broker.events.clear()
    assert await broker.ask(REPLACE, ("1", {"max.connections": "5"})) == [("1", NONE)]
    assert broker.events == ["opened", "forwarded", "in force", "released"]
    assert broker.image.configs.of_broker(1) == {"max.connections": "5"}
    assert await broker.ask(REPLACE, ("1", {"max.connections": "6"})) == [("1", NONE)]
    assert broker.events[4:] == ["forwarded"], "no listener is concerned"


async def test_a_resource_that_is_named_twice_is_the_controllers_to_refuse(broker: Broker) -> None:
    assert await broker.ask(INCREMENTAL, ("1", ADDED), ("1", ADDED)) == [("1", INVALID), ("1", INVALID)]
    assert broker.events == ["forwarded"]
    found = await broker.ask(INCREMENTAL, ("1", ADDED), ("1", ADDED), ("2", ADDED))
    assert {code for _, code in found} == {INVALID}
    assert broker.image.configs.of_broker(2) == {}, "by naming one twice nobody changes the listeners of another"


async def test_the_last_client_listener_is_removed_only_if_brokers_keep_room_for_connections(broker: Broker) -> None:
    await broker.ask(INCREMENTAL, ("1", ADDED))
    await broker.node.broker(1, "PLAINTEXT", "EXTERNAL")
    assert await broker.ask(INCREMENTAL, ("1", {"max.connections": "1"})) == [("1", NONE)]
    gone = {"listeners": "PLAINTEXT://127.0.0.1:9092"}
    assert await broker.ask(INCREMENTAL, ("1", gone)) == [("1", INVALID)]
    assert await broker.ask(INCREMENTAL, ("1", gone | {"max.connections": "2"})) == [("1", NONE)]


async def test_a_controller_asked_directly_rejects_listeners_without_the_inter_broker_listener(
    broker: Broker,
) -> None:
    for key in ("listeners", "advertised.listeners"):
        assert await broker.ask(INCREMENTAL, ("1", {key: "EXTERNAL://127.0.0.1:9094"})) == [("1", INVALID)]
    assert broker.events == ["forwarded", "forwarded"]


async def test_listeners_of_all_brokers_at_once_are_refused(broker: Broker) -> None:
    assert await broker.ask(INCREMENTAL, ("", ADDED)) == [("", INVALID)]


async def test_no_two_of_many_resources_are_compared(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparing each with the others would block the event loop: two minutes for 25,000 of them."""
    of_others = [("2", ADDED)] * 50 + [("1", ADDED)] * 50
    kind = type(decode_request(44, 1, memoryview(encode_request_body(44, 1, NOTHING_ELSE))).resources[0])
    compared: list[object] = []

    def compare(self: object, other: object) -> bool:
        compared.append(other)
        return self is other

    monkeypatch.setattr(kind, "__eq__", compare)
    assert {code for _, code in await broker.ask(INCREMENTAL, *of_others)} == {INVALID}
    assert compared == []


LOGGER = "broker_runtime.tests.of.listeners"
LOGGERS = 8


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger(LOGGER)
    yield logger
    logger.setLevel(logging.NOTSET)


async def test_levels_of_loggers_are_changed_here_and_the_rest_of_the_request_is_forwarded(
    broker: Broker, logger: logging.Logger
) -> None:
    limit = {"max.connections": "5"}
    found = await broker.ask(INCREMENTAL, ("2", limit), ("1", {LOGGER: "DEBUG"}), ("1", limit), kinds=(4, LOGGERS, 4))
    assert found == [("2", NONE), ("1", NONE), ("1", NONE)]
    assert logger.level == logging.DEBUG
    assert broker.image.configs.of_broker(1) == limit
    assert broker.events == ["forwarded"]
    assert await broker.ask(INCREMENTAL, ("1", {LOGGER: "INFO"}), kinds=(LOGGERS,)) == [("1", NONE)]
    assert (logger.level, broker.events) == (logging.INFO, ["forwarded"])


async def test_loggers_that_are_named_twice_or_only_checked_keep_their_levels(
    broker: Broker, logger: logging.Logger
) -> None:
    asked = ("1", {LOGGER: "DEBUG"})
    found = await broker.ask(INCREMENTAL, asked, asked, ("2", {LOGGER: "DEBUG"}), kinds=(LOGGERS,) * 3)
    assert found == [("1", INVALID), ("1", INVALID), ("2", INVALID)]
    assert await broker.ask(INCREMENTAL, asked, kinds=(LOGGERS,), validate=True) == [("1", NONE)]
    assert logger.level == logging.NOTSET


async def test_replacing_the_levels_of_loggers_is_left_to_the_controller_which_refuses_it(
    broker: Broker, logger: logging.Logger
) -> None:
    assert await broker.ask(REPLACE, ("1", {LOGGER: "DEBUG"}), kinds=(LOGGERS,)) == [("1", INVALID)]
    assert (logger.level, broker.events) == (logging.NOTSET, ["forwarded"])
