"""Clients that push metrics (KIP-714), without a receiver: a broker answers which metrics to push, and drops them."""

from collections.abc import Mapping
from types import SimpleNamespace
from uuid import UUID

import pytest

from broker_runtime.apis.request import client_telemetry
from broker_runtime.apis.request.client_telemetry import ClientTelemetry, Pushed, PushedMetrics, TelemetryClient
from broker_runtime.apis.telemetry import get_telemetry_subscriptions, push_telemetry
from broker_runtime.config.keys.client_metrics import ClientMetricsSubscription, subscription
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.configs import ConfigRecord
from broker_runtime.wire.messages import decode_response
from tests.support.fakes.manual_clock import ManualClock
from tests.support.requests.calls import handled
from tests.support.requests.request_frames import encode_request
from tests.support.worlds.controller import ControllerInMemory, Metadata

ME = UUID(int=7)
CLIENT = TelemetryClient("shop-1", "librdkafka", "2.11.0", "10.0.0.1", 50_000)
THROTTLED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


class Broker:
    def __init__(self) -> None:
        self.metadata = Metadata()
        self.telemetry = ClientTelemetry(self.metadata.image)
        self.now_s = 1_000.0

    def subscribe(self, name: str, **keys: str) -> None:
        self.metadata.write(*(ConfigRecord(16, name, key.replace("_", "."), value) for key, value in keys.items()))

    def ask(self, client: TelemetryClient = CLIENT, instance_id: UUID = ME) -> tuple[int, PushedMetrics]:
        return self.telemetry.subscriptions(instance_id, client, self.now_s)

    def push(self, subscription: int, compression: int = 0, size: int = 10, terminating: bool = False) -> ErrorCode:
        try:
            self.telemetry.push(ME, CLIENT, Pushed(subscription, compression, size, terminating), self.now_s)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    def asked(self, client: TelemetryClient = CLIENT) -> ErrorCode:
        try:
            self.ask(client)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE


@pytest.fixture
def broker() -> Broker:
    return Broker()


def test_without_subscriptions_nothing_is_wanted(broker: Broker) -> None:
    assert broker.ask()[1] == PushedMetrics((), 300_000)


@pytest.mark.parametrize(
    ("match", "matches"),
    [
        ("", True),
        ("client_id=shop-.*", True),
        ("client_id=shop", False),
        ("client_id=shop-.*, client_software_name=librdkafka", True),
        ("client_id=shop-.*,client_software_version=1.*", False),
        ("client_source_address=10\\.0\\..*,client_source_port=5....", True),
        ("client_instance_id=AAAAAAAAAAAAAAAAAAAABw", True),
    ],
)
def test_a_subscription_is_for_the_clients_that_it_matches(broker: Broker, match: str, matches: bool) -> None:
    broker.subscribe("one", metrics="org.apache.kafka.producer.", interval_ms="500", match=match)
    expected = PushedMetrics(("org.apache.kafka.producer.",), 500) if matches else PushedMetrics((), 300_000)
    assert broker.ask()[1] == expected


def test_a_client_pushes_what_all_its_subscriptions_want_as_often_as_the_most_eager_does(broker: Broker) -> None:
    broker.subscribe("a", metrics="x,y", interval_ms="600")
    broker.subscribe("b", metrics="y,z", interval_ms="500")
    assert broker.ask()[1] == PushedMetrics(("x", "y", "z"), 500)
    broker.subscribe("c", metrics="*")
    assert broker.ask()[1] == PushedMetrics(("*",), 500)


def test_a_subscription_of_another_version_of_the_broker_is_left_out(broker: Broker) -> None:
    broker.subscribe("a", metrics="x", of_another_version="1")
    broker.subscribe("b", metrics="y", interval_ms="1")
    assert broker.ask()[1] == PushedMetrics((), 300_000)


def test_a_client_asks_and_pushes_once_in_an_interval(broker: Broker) -> None:
    broker.subscribe("a", metrics="x", interval_ms="500")
    subscription, _ = broker.ask()
    assert broker.push(subscription) == ErrorCode.NONE, "the first push may come at once"
    assert broker.push(subscription) == broker.asked() == THROTTLED
    broker.now_s += 0.5
    assert broker.push(subscription) == ErrorCode.NONE
    assert broker.asked() == THROTTLED
    broker.now_s += 0.5
    assert broker.ask()[0] == subscription


def test_a_client_with_changed_subscriptions_must_request_them_again(broker: Broker) -> None:
    broker.subscribe("a", metrics="x")
    subscription, _ = broker.ask()
    broker.subscribe("a", metrics="y")
    assert broker.push(subscription) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert broker.asked() == THROTTLED, "it has pushed just now"
    broker.now_s += 300
    found, _ = broker.ask()
    assert found != subscription
    assert broker.push(found) == ErrorCode.NONE


def test_a_client_that_ends_pushes_once_more_whenever_it_likes(broker: Broker) -> None:
    subscription, _ = broker.ask()
    assert broker.push(subscription) == ErrorCode.NONE
    assert broker.push(subscription, terminating=True) == ErrorCode.NONE
    assert broker.push(subscription, terminating=True) == ErrorCode.INVALID_REQUEST


def test_what_is_pushed_is_checked(broker: Broker) -> None:
    subscription, _ = broker.ask()
    assert broker.push(subscription, compression=9) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    broker.now_s += 300
    assert broker.push(subscription, size=1_048_577) == ErrorCode.TELEMETRY_TOO_LARGE
    with pytest.raises(KafkaError, match="reserved"):
        broker.telemetry.push(UUID(int=1), CLIENT, Pushed(subscription, 0, 0, False), broker.now_s)


def test_clients_that_were_not_heard_of_for_long_are_new(broker: Broker) -> None:
    subscription, _ = broker.ask()
    assert broker.push(subscription, terminating=True) == ErrorCode.NONE
    broker.now_s += 3 * 300
    assert broker.push(subscription) == ErrorCode.INVALID_REQUEST
    broker.now_s += 3 * 300 + 1
    assert broker.push(subscription) == ErrorCode.NONE


def test_no_more_clients_are_remembered_than_so_many(broker: Broker) -> None:
    for number in range(16_390):
        broker.ask(instance_id=UUID(int=100 + number))
    assert len(broker.telemetry._instances) == 16_384
    broker.ask(instance_id=UUID(int=100))
    with pytest.raises(KafkaError):
        broker.ask(instance_id=UUID(int=100 + 16_389))


def test_clients_share_the_metrics_of_their_subscriptions_which_are_parsed_once(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Previously each client kept 256 KB for a subscription of 32 KB, and each request parsed all subscriptions."""
    parsed: list[Mapping[str, str]] = []

    def parse(own: Mapping[str, str]) -> ClientMetricsSubscription | None:
        parsed.append(own)
        return subscription(own)

    monkeypatch.setattr(client_telemetry, "subscription", parse)
    broker.subscribe("a", metrics=",".join(f"m{number}" for number in range(4_000)))
    broker.subscribe("b", metrics="y", match="client_id=none")
    found = {id(broker.ask(instance_id=UUID(int=100 + number))[1]) for number in range(3)}
    assert len(found) == 1
    assert len(parsed) == 2
    broker.subscribe("b", match="client_id=shop.*")
    assert "y" in broker.ask(instance_id=UUID(int=200))[1].metrics
    assert len(parsed) == 3, "the other subscription has not changed"


async def test_the_requests_of_a_client() -> None:
    async with ControllerInMemory() as node:
        context = SimpleNamespace(telemetry=ClientTelemetry(node.image), clock=ManualClock())
        asked = {"client_instance_id": UUID(int=0)}
        told = await node.ask(get_telemetry_subscriptions.API, 0, asked, context)
        assert told["client_instance_id"] != UUID(int=0)
        assert (told["requested_metrics"], told["push_interval"], told["telemetry_max_bytes"]) == ((), 300_000, 1 << 20)
        assert (told["accepted_compression_types"], told["delta_temporality"]) == ((4, 3, 1, 2), True)
        pushed = {
            "client_instance_id": told["client_instance_id"],
            "subscription_id": told["subscription_id"],
            "terminating": False,
            "compression_type": 0,
            "metrics": b"anything",
        }
        codes = []
        for _ in range(2):
            frame = memoryview(encode_request(push_telemetry.API.key, 0, 7, pushed))[4:]
            reply = handled(push_telemetry.API, frame, context)
            assert isinstance(reply, tuple)
            body = memoryview(b"".join(bytes(part) for part in reply if isinstance(part, bytes)))
            codes.append(decode_response(push_telemetry.API.key, 0, body[9:]).error_code)
        assert codes == [ErrorCode.NONE, THROTTLED]
        again = await node.ask(
            get_telemetry_subscriptions.API, 0, {"client_instance_id": told["client_instance_id"]}, context
        )
        assert again["error_code"] == THROTTLED
