"""Broker processes come and go: fenced by the controller, fenced by themselves, replaced, stopped, restarted."""

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.processes.broker_process import BrokerGroup, BrokerProcess
from tests.support.processes.clients.broker_admin import until
from tests.support.processes.clients.wire_client import ConnectionEnded, WireClient

SESSION_S = 3.0
QUICK = {
    "broker.session.timeout.ms": str(int(SESSION_S * 1000)),
    "broker.heartbeat.interval.ms": "200",
    "sluicegate.controlled.shutdown.timeout.ms": "25000",
}
QUICKER_S = 20.0
"""Shorter than the deadline of a controlled shutdown, which the broker does not wait for."""


@pytest.fixture
def group() -> Iterator[BrokerGroup]:
    with BrokerGroup(brokers=2, properties=QUICK) as running:
        yield running


def state(group: BrokerGroup, broker_id: int) -> str:
    return str(group.controller.brokers().get(broker_id, {}).get("state"))


def serves(broker: BrokerProcess, listener: str = "PLAINTEXT") -> bool:
    """Return whether a client that connects gets an answer."""
    try:
        with WireClient((broker.host, broker.port(listener))) as client:
            client.ask("api_versions", 0)
    except (OSError, ConnectionEnded):
        return False
    return True


def ready(broker: BrokerProcess) -> bool:
    return broker.get("/readyz")[0] == 200


@contextmanager
def paused(broker: BrokerProcess) -> Iterator[None]:
    broker.pause()
    try:
        yield
    finally:
        broker.resume()


def test_a_hung_broker_is_fenced_and_serves_again_only_when_unfenced(group: BrokerGroup) -> None:
    hanging = group.brokers[1]
    before = group.controller.brokers()[1]
    assert before["state"] == "Online"
    with paused(hanging):
        until(lambda: state(group, 1) == "Offline", "the controller has fenced the silent broker")
        admin = AdminClient({"bootstrap.servers": group.brokers[0].bootstrap})
        until(lambda: sorted(admin.list_topics(timeout=10).brokers) == [0], "clients are not sent to it")
    until(lambda: state(group, 1) == "Online" and ready(hanging), "it is unfenced again")
    assert serves(hanging)
    assert group.controller.brokers()[1]["epoch"] == before["epoch"], "nobody took its id"
    log = hanging.log()
    assert log.count("serves no clients") == 1
    assert log.count("is unfenced with epoch") == 2


@pytest.mark.full
def test_without_a_controller_brokers_fence_themselves_and_serve_again_when_it_is_back(group: BrokerGroup) -> None:
    broker = group.brokers[0]
    with WireClient((broker.host, broker.port())) as client:
        client.ask("api_versions", 0)
        group.controller.kill()
        killed_s = time.monotonic()
        until(lambda: all(not serves(b) for b in group.brokers), "every broker fences itself")
        assert time.monotonic() - killed_s > SESSION_S - 1.5, "not before its session is over"
        with pytest.raises((OSError, ConnectionEnded)):
            client.ask("api_versions", 0)
    assert "fenced by this broker itself" in broker.get("/readyz")[1]
    figures = broker.metrics()
    assert figures["sluicegate_broker_self_fenced"] == figures["sluicegate_broker_fenced"] == 1
    assert figures["kafka_server_broker_state"] != 3
    group.controller.start()
    until(lambda: all(ready(b) and serves(b) for b in group.brokers), "they serve again")
    assert [state(group, number) for number in (0, 1)] == ["Online", "Online"]
    assert broker.metrics()["sluicegate_broker_self_fenced"] == 0


def test_a_fenced_brokers_own_inter_broker_listener_stays_open() -> None:
    with BrokerGroup(brokers=1, listeners=["EXTERNAL"], properties=QUICK) as group:
        broker = group.brokers[0]
        group.controller.kill()
        until(lambda: not serves(broker, "EXTERNAL"), "clients are refused")
        assert serves(broker, "PLAINTEXT")


@pytest.mark.full
def test_a_clean_stop_frees_the_id_at_once(group: BrokerGroup) -> None:
    stopping = group.brokers[1]
    assert stopping.stop() == 0
    assert state(group, 1) == "Offline"
    stopping.start()
    assert "another process is registered" not in stopping.log()
    assert state(group, 1) == "Online"


@pytest.mark.full
def test_a_killed_broker_is_back_soon_after_its_session() -> None:
    """The next process starts during the old session, even if processes start slowly."""
    session_s = 9.0
    with BrokerGroup(brokers=2, properties=QUICK | {"broker.session.timeout.ms": str(int(session_s * 1000))}) as group:
        killed = group.brokers[1]
        killed.kill()
        killed.start()
        assert killed.started_in_s < session_s + 15
        assert killed.log().count("another process is registered with broker id 1") == 1, "said once, not at each try"


@pytest.mark.full
def test_a_second_process_with_a_live_id_does_not_get_in(tmp_path: Path) -> None:
    with BrokerGroup(brokers=2, properties=QUICK | {"broker.session.timeout.ms": "20000"}) as group:
        properties = twin_properties(group) | {"initial.broker.registration.timeout.ms": "1500"}
        twin = BrokerProcess(node_id=1, folder=tmp_path, properties=properties)
        twin.start(wait=False)
        try:
            assert twin.ended() == 1
        finally:
            twin.kill()
        assert "another process is registered with broker id 1" in twin.log()
        assert "Traceback" not in twin.log()
        assert serves(group.brokers[1])
        assert state(group, 1) == "Online"


@pytest.mark.full
def test_a_broker_whose_id_was_taken_while_it_hung_ends_with_a_sentence(group: BrokerGroup, tmp_path: Path) -> None:
    replaced = group.brokers[1]
    twin = BrokerProcess(node_id=1, folder=tmp_path, properties=twin_properties(group))
    try:
        with paused(replaced):
            until(lambda: state(group, 1) == "Offline", "the controller has fenced the silent broker")
            twin.start()
        assert replaced.ended() == 1
        assert "another process registered with broker id 1 while this one had no session" in replaced.log()
        assert serves(twin)
    finally:
        twin.kill()


@pytest.mark.full
def test_a_broker_of_another_cluster_is_refused_with_a_sentence(group: BrokerGroup, tmp_path: Path) -> None:
    stranger = BrokerProcess(
        node_id=5, folder=tmp_path, properties=twin_properties(group) | {"cluster.id": "YW5vdGhlci1jbHVzdGVyLQ"}
    )
    stranger.start(wait=False)
    try:
        assert stranger.ended() == 1
        assert "belongs to another cluster" in stranger.log()
    finally:
        stranger.kill()
    assert 5 not in group.controller.brokers()


def test_a_requested_shutdown_moves_leaderships_and_sigterm_continues_from_there(
    group: BrokerGroup,
) -> None:
    admin = AdminClient({"bootstrap.servers": group.bootstrap})
    for future in admin.create_topics([NewTopic("moved", 4, 2)]).values():
        future.result(60)
    leaving = group.brokers[1]
    until(lambda: group.controller.brokers()[1]["leaders"] == 2, "leaders are spread")
    status, said = leaving.post("/controlled-shutdown")
    assert (status, said) == (200, "the controller has released this broker\n")
    seen = group.controller.brokers()
    assert (seen[1]["state"], seen[1]["leaders"], seen[0]["leaders"]) == ("Offline", 0, 4)
    assert leaving.get("/readyz") == (503, "stopping\n")
    assert leaving.post("/controlled-shutdown")[0] == 200, "asking twice does no harm"
    began_s = time.monotonic()
    assert leaving.stop() == 0
    assert time.monotonic() - began_s < QUICKER_S


@pytest.mark.full
def test_a_controller_that_does_not_answer_is_waited_for_until_the_deadline_only(group: BrokerGroup) -> None:
    """The broker notices after its session that no controller answers, which is before the deadline."""
    leaving = group.brokers[1]
    with paused(group.controller):
        began_s = time.monotonic()
        assert leaving.post("/controlled-shutdown")[0] == 504
        assert time.monotonic() - began_s < QUICKER_S
        assert leaving.stop() == 0


def test_a_controlled_shutdown_is_for_the_same_host_and_for_post_only(group: BrokerGroup) -> None:
    broker = group.brokers[0]
    assert broker.get("/controlled-shutdown")[0] == 405
    assert broker.get("/brokers")[0] == 404, "only a controller knows"
    assert group.controller.post("/controlled-shutdown")[0] == 405
    assert state(group, 0) == "Online"


def test_a_long_poll_for_a_newer_version_is_answered_when_a_change_occurs(group: BrokerGroup) -> None:
    controller = group.controller

    def version(query: str = "") -> str:
        return str(json.loads(controller.get(f"/brokers{query}")[1])["version"])

    known = ""

    def nothing_new() -> bool:
        """A loaded machine occasionally delays heartbeats, which changes the state of a broker."""
        nonlocal known
        known, began_s = version(), time.monotonic()
        return version(f"?after={known}&wait=0.5") == known and time.monotonic() - began_s >= 0.4

    until(nothing_new, "nothing is new for as long as was asked for")
    with ThreadPoolExecutor(1) as waiting:
        asked = waiting.submit(version, f"?after={known}&wait=4")
        assert group.brokers[1].post("/controlled-shutdown")[0] == 200
        assert asked.result() != known
    assert controller.get("/brokers?wait=soon")[0] == 400
    assert controller.get("/brokers?wait=3600")[0] == 400


def test_a_second_sigterm_does_not_wait_for_the_controller() -> None:
    slow = QUICK | {"broker.session.timeout.ms": "60000"}
    with BrokerGroup(brokers=1, properties=slow) as group, paused(group.controller):
        began_s = time.monotonic()
        assert group.brokers[0].stop(signals=2) == 0
        assert time.monotonic() - began_s < QUICKER_S


def test_a_process_that_is_controller_and_broker_leaves_its_own_cluster_cleanly() -> None:
    with BrokerProcess(properties=QUICK) as broker:
        assert broker.brokers()[1]["state"] == "Online"
        began_s = time.monotonic()
        assert broker.stop() == 0
        assert time.monotonic() - began_s < QUICKER_S
        assert "has not released" not in broker.log()
        broker.start()
        assert "another process is registered" not in broker.log()


def test_the_controllers_figures_follow_its_brokers(group: BrokerGroup) -> None:
    def counts() -> tuple[float, float, float]:
        figures = group.controller.metrics()
        return (
            figures["kafka_controller_active_controller_count"],
            figures["kafka_controller_active_broker_count"],
            figures["kafka_controller_fenced_broker_count"],
        )

    assert counts() == (1, 2, 0)
    group.brokers[0].stop()
    assert counts() == (1, 1, 1)


def test_nothing_but_a_head_of_bounded_size_is_read_of_an_http_request(group: BrokerGroup) -> None:
    with socket.create_connection((group.controller.host, group.controller.http_port), timeout=5) as client:
        client.sendall(b"GET /brokers HTTP/1.1\r\nX: " + b"x" * 20_000)
        with suppress(ConnectionResetError):
            assert client.recv(100) == b""
    assert state(group, 0) == "Online"


def twin_properties(group: BrokerGroup) -> dict[str, str]:
    """Return the properties of another process in the group's cluster, with a separate data folder."""
    keep = ("cluster.id", "process.roles", "controller.listener.names", "controller.quorum.bootstrap.servers", *QUICK)
    return {key: value for key, value in group.brokers[1].server_properties().items() if key in keep}
