"""Observers in a real broker, loaded and removed while real clients use it: bad observers do not affect requests."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer

from sluicegate_operator.kafka_admin.errors import KafkaApiError
from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.clients.broker_admin import set_default_config, until
from tests.support.processes.clients.wire_client import WireClient

PLUGINS = "tests.support.requests.plugin_observers"
NAMES = "observer.class.names"
ALL_TOPICS = {"topics": None, "allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
BROKER = 4


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess(properties={"sluicegate.observer.load.timeout.ms": "3000"}) as process:
        yield process


@contextmanager
def observing(broker: BrokerProcess, class_name: str, **config: str) -> Iterator[str]:
    """Load this class of `plugin_observers` by the configuration of the cluster, and yield its name."""
    keys = {f"observer.{class_name}.{key.replace('_', '.')}": value for key, value in config.items()}
    for key, value in keys.items():
        set_default_config(broker, key, value)
    set_default_config(broker, NAMES, f"{PLUGINS}.{class_name}")
    try:
        yield class_name
    finally:
        set_default_config(broker, NAMES, None)
        for key in keys:
            set_default_config(broker, key, None)


def figure(broker: BrokerProcess, name: str, observer: str) -> float:
    return broker.metrics().get(f'sluicegate_observer_{name}{{observer="{observer}"}}', 0)


def state(broker: BrokerProcess, observer: str) -> str | None:
    found = broker.metrics()
    states = ("Loading", "Loaded", "Suspended", "Failed")
    return next(
        (one for one in states if found.get(f'sluicegate_observer_state{{observer="{observer}",state="{one}"}}')), None
    )


def documentation(broker: BrokerProcess, key: str) -> str:
    with WireClient((broker.host, broker.port())) as client:
        resource = {"resource_type": BROKER, "resource_name": str(broker.node_id), "configuration_keys": [key]}
        answer = client.ask(
            "describe_configs", 4, resources=[resource], include_synonyms=False, include_documentation=True
        )
    (entry,) = answer["results"][0]["configs"]
    return str(entry["documentation"])


def use(broker: BrokerProcess, requests: int = 50) -> list[float]:
    """Send requests, and return how long each took, in seconds: all are answered."""
    taken = []
    with WireClient((broker.host, broker.port())) as client:
        for _ in range(requests):
            began = time.monotonic()
            client.ask("metadata", 12, **ALL_TOPICS)
            taken.append(time.monotonic() - began)
    return taken


def notes(path: Path) -> list[list[Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def test_an_observer_is_loaded_configured_anew_and_removed_while_clients_are_served(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    path = tmp_path / "notes"
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, client_id="shop", acks=1)
    producer.send("orders", b"before anybody looks").get(30)
    with observing(broker, "Noting", path=str(path), word="first", filter_api_keys="Produce,Fetch"):
        until(lambda: state(broker, "Noting") == "Loaded", "the observer is loaded")
        sent = producer.send("orders", b"x" * 100).get(30)
        until(lambda: len(notes(path)) == 4, "the request and its response are noted")
        begun, produced, request, response = notes(path)
        assert begun == ["configured", "first"]
        assert produced == ["produce", "127.0.0.1", "User:ANONYMOUS", "orders", produced[4], 1, "first"]
        assert produced[4] > 100
        assert request[:3] == ["request", "Produce", "shop"]
        assert response == ["response", "Produce", 0, request[3], "first"], "of the same name"
        assert sent.offset == 1

        set_default_config(broker, "observer.Noting.word", "second")
        until(lambda: ["closed", 2.0, "first"] in notes(path), "the first one is closed")
        producer.send("orders", b"y").get(30)
        assert notes(path)[-1][-1] == "second"

        set_default_config(broker, "observer.Noting.filter.topic.prefixes", "pay")
        until(lambda: "filter.topic" not in str(notes(path)), "nothing of it is the observer's")
        before = len(notes(path))
        until(lambda: _produce_is_not_seen(producer, path, before), "what the filter leaves out is not seen")
        producer.send("payments", b"z").get(30)
        until(lambda: any("payments" in note for note in notes(path)), "what it lets through is")
        set_default_config(broker, "observer.Noting.filter.topic.prefixes", None)
    until(lambda: notes(path)[-1] == ["closed", 2.0, "second"], "the second one is closed")
    assert state(broker, "Noting") is None
    producer.send("orders", b"after").get(30)
    producer.close()
    assert notes(path)[-1][0] == "closed"


def _produce_is_not_seen(producer: KafkaProducer, path: Path, before: int) -> bool:
    count = len(notes(path))
    producer.send("orders", b"unseen?").get(30)
    return count >= before and len(notes(path)) == count


def test_connections_are_observed(broker: BrokerProcess, tmp_path: Path) -> None:
    path = tmp_path / "notes"
    with observing(broker, "Connections", path=str(path)):
        until(lambda: state(broker, "Connections") == "Loaded", "the observer is loaded")
        use(broker, 1)
        closed = ["closed", "PLAINTEXT", "closed by the client", ""]
        until(lambda: closed in notes(path), "the end of the connection is noted")
        assert ["accepted", "PLAINTEXT", None, ""] in notes(path)


@pytest.mark.parametrize("class_name", ["Raising", "Exiting", "Spoiling"])
def test_one_that_raises_harms_no_request(broker: BrokerProcess, class_name: str) -> None:
    with observing(broker, class_name):
        until(lambda: state(broker, class_name) == "Loaded", "the observer is loaded")
        use(broker)
        assert figure(broker, "errors_total", class_name) >= 50
        assert state(broker, class_name) == "Loaded"
        told = documentation(broker, NAMES)
        assert f"{class_name}: Loaded (" in told
        assert "errors, the last: " in told
    lines = [line for line in broker.log().splitlines() if f"observer {class_name} raised" in line]
    assert 1 <= len(lines) <= 3, "once a minute"


def test_one_that_sleeps_is_suspended(broker: BrokerProcess) -> None:
    with observing(broker, "Sleeping"):
        until(lambda: state(broker, "Sleeping") in ("Loaded", "Suspended"), "the observer is loaded")
        taken = use(broker, 300)
        assert figure(broker, "suspensions_total", "Sleeping") >= 1
        assert figure(broker, "skipped_total", "Sleeping") > 100
        assert sum(each > 0.15 for each in taken) <= 12, "it sleeps in two calls, then in one of each back-off"
        until(lambda: "Sleeping: Suspended (" in documentation(broker, NAMES), "its state is told")
    assert "observer Sleeping is suspended for" in broker.log()


def test_an_observer_with_a_full_queue_drops_messages_within_its_memory(broker: BrokerProcess) -> None:
    with observing(broker, "Flooding", queue_max="1000"):
        until(lambda: state(broker, "Flooding") == "Loaded", "the observer is loaded")
        before = broker.resident_bytes()
        use(broker, 500)
        assert figure(broker, "dropped_total", "Flooding") >= 500 * 100 - 1000 - 1000
        assert broker.resident_bytes() - before < 10_000_000, "fifty million bytes were put into it"
        assert state(broker, "Flooding") == "Loaded"
    until(lambda: state(broker, "Flooding") is None, "it is gone, though its thread never ends")


def test_one_that_does_not_close_is_left_behind(broker: BrokerProcess) -> None:
    with observing(broker, "NeverClosing"):
        until(lambda: state(broker, "NeverClosing") == "Loaded", "the observer is loaded")
    use(broker)
    until(lambda: broker.metrics()["sluicegate_observer_left_behind"] >= 1, "it is left behind")
    why = "observer NeverClosing has not closed within 2 s and is abandoned"
    until(lambda: why in broker.log(), "the log says so, also if another observer was abandoned before")


@pytest.mark.parametrize(
    ("class_name", "why"),
    [
        ("Missing", f"ObserverLoadError: {PLUGINS} has no class Missing"),
        ("Nothing", f"ObserverLoadError: {PLUGINS}.Nothing is not an observer: it needs configure and close"),
        ("Refusing", "ValueError: the word must be please, and is None"),
        ("NeverConfigured", "its import or `configure` has not returned within 3 s"),
    ],
)
def test_an_observer_that_cannot_be_loaded_is_reported_and_affects_no_client(
    broker: BrokerProcess, class_name: str, why: str
) -> None:
    with observing(broker, class_name):
        use(broker)
        until(lambda: state(broker, class_name) == "Failed", "it is told by the metrics")
        use(broker)
        assert f"{class_name}: Failed ({why}" in documentation(broker, NAMES)
        assert f"observer {class_name} cannot be loaded; retrying in 60 s: {why}" in broker.log()


def test_a_broken_change_leaves_the_observer_as_it_was(broker: BrokerProcess, tmp_path: Path) -> None:
    path = tmp_path / "notes"
    with observing(broker, "Noting", path=str(path)):
        until(lambda: state(broker, "Noting") == "Loaded", "the observer is loaded")
        set_default_config(broker, "observer.Noting.path", "/proc/none")
        until(lambda: state(broker, "Noting") == "Failed", "the change is refused by the observer")
        before = len(notes(path))
        use(broker, 1)
        assert len(notes(path)) > before
        set_default_config(broker, "observer.Noting.path", str(path))
        until(lambda: state(broker, "Noting") == "Loaded", "it is told no longer that the change was refused")


def test_a_built_in_observer_may_have_another_name(broker: BrokerProcess) -> None:
    set_default_config(broker, "observer.mine.class", "prometheus")
    set_default_config(broker, NAMES, "mine")
    try:
        until(lambda: state(broker, "mine") == "Loaded", "the observer is loaded")
        assert documentation(broker, "observer.mine.class").endswith("On this broker: mine: Loaded")
    finally:
        set_default_config(broker, NAMES, None)
        set_default_config(broker, "observer.mine.class", None)


def test_a_configuration_that_makes_no_sense_is_refused_with_a_sentence(broker: BrokerProcess) -> None:
    for key, value, why in (
        (NAMES, "not a name", "must be names or package.module.Class"),
        (NAMES, "a.B,c.B", "must have each name once; B occurs twice"),
        ("observer.x.budget.us", "0", "must be at least 1"),
        ("observer.x.class", "nope", "must be package.module.Class"),
    ):
        with pytest.raises(KafkaApiError, match=why):
            set_default_config(broker, key, value)


@pytest.mark.full
def test_a_starting_broker_admits_clients_after_its_configured_observers_are_loaded() -> None:
    with BrokerProcess() as broker, observing(broker, "SlowlyConfigured"):
        until(lambda: state(broker, "SlowlyConfigured") == "Loaded", "the observer is loaded")
        broker.stop()
        broker.start()
        assert state(broker, "SlowlyConfigured") == "Loaded", "it takes longer than all else at a start"


def test_a_broker_stops_in_time_whatever_its_observers_do(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    names = ",".join(f"{PLUGINS}.{name}" for name in ("NeverClosing", "Noting", "Missing"))
    properties = {NAMES: names, "observer.Noting.path": str(path), "sluicegate.observer.close.timeout.ms": "500"}
    with BrokerProcess(properties=properties) as broker:
        use(broker, 3)
        consumer = KafkaConsumer("orders", bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest")
        consumer.poll(500)
        consumer.close()
        assert state(broker, "Missing") == "Failed"
        assert any(note[:2] == ["request", "Metadata"] for note in notes(path)), "loaded before the first client"
        began = time.monotonic()
        assert broker.stop() == 0
        assert time.monotonic() - began < 20
    assert notes(path)[-1] == ["closed", 0.5, ""]


@pytest.mark.full
def test_a_call_that_outlasts_the_session_has_the_broker_fenced_which_then_serves_again() -> None:
    session = {"broker.session.timeout.ms": "1500", "broker.heartbeat.interval.ms": "300"}
    with BrokerProcess(properties=session) as broker, observing(broker, "Standing", seconds="4"):
        until(lambda: state(broker, "Standing") == "Loaded", "the observer is loaded")
        with WireClient((broker.host, broker.port())) as client:
            client.ask("metadata", 12, **ALL_TOPICS)
            # The answer was still sent. Then the broker notices that it sent no heartbeats for too long.
            assert client.receive() is None, "the connection is closed"
        assert "serves no clients" in broker.log()
        until(lambda: broker.metrics()["sluicegate_broker_fenced"] == 0, "the broker serves again")
        use(broker, 3)
