"""`sluicegate storm` against real brokers: it counts the connections that the limits admit."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from sluicegate_operator.quotas.observing.holding import BrokerReadings, holding, reading
from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.local_fleet import run_command
from tests.support.processes.ports import free_port


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    properties = {
        "connection.quota.strategy": "token-bucket",
        "listener.name.limited.max.connection.creation.rate": "20",
    }
    with BrokerProcess(listeners=("LIMITED",), properties=properties) as running:
        yield running


def storm(port: int, *options: str) -> dict[str, Any]:
    done = run_command("storm", "--to", f"127.0.0.1:{port}", "-o", "json", *options)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.mark.full
def test_without_a_limit_every_attempt_is_accepted_from_every_source(broker: BrokerProcess) -> None:
    report = storm(broker.port(), "--rate", "200", "--seconds", "2", "--sources", "127.0.1.1-127.0.1.4")

    assert 300 <= report["attempts"] <= 401
    assert report["accepted"] == report["attempts"]
    assert set(report["sources"]) == {"127.0.1.1", "127.0.1.2", "127.0.1.3", "127.0.1.4"}
    assert min(counts["accepted"] for counts in report["sources"].values()) >= report["attempts"] // 4
    assert 0 < report["latency_ms"]["p50"] <= report["latency_ms"]["p99"]


def test_a_listener_limit_is_what_storm_counts(broker: BrokerProcess) -> None:
    """The token bucket admits one second's worth, then its rate.

    A waiting acceptor admits one connection each second.
    """
    name = 'kafka_server_socket_server_connection_creation_total{listener="LIMITED"}'
    before = broker.metrics()[name]

    report = storm(broker.port("LIMITED"), "--rate", "100", "--seconds", "4", "--timeout", "10")

    allowed = 20 + 20 * (report["elapsed_s"] + 1) + report["elapsed_s"] + 1
    assert 60 <= report["accepted"] <= allowed
    assert report["unfinished"] > 0, "the others still wait for the acceptor"
    assert broker.metrics()[name] - before >= report["accepted"]
    status, body = broker.get("/connection-limits?held=true")
    assert status == 200
    look = BrokerReadings(reading(json.loads(body), 0.0))
    found = holding(("listeners", "LIMITED"), [look], None, 0.0, datetime.now(UTC))
    assert found is not None, "an operator sees in the broker's answer that the limit holds"
    assert found.blocked_percent is not None
    assert found.blocked_percent > 10
    assert holding(("broker", ""), [look], None, 0.0, datetime.now(UTC)) is None
    answers = [json.loads(broker.get(f"/connection-limits?after={after}")[1]) for after in ("", "10.0.0.1")]
    assert [answer["listeners"]["LIMITED"]["connection_creation_rate"] for answer in answers] == [20, 20]


@pytest.mark.full
def test_closed_loop_makes_as_many_attempts_as_are_answered(broker: BrokerProcess) -> None:
    report = storm(broker.port(), "--workers", "8", "--seconds", "1")
    assert report["accepted"] > 100
    assert report["attempts"] - report["accepted"] <= 8


def test_sockets_stay_bounded(broker: BrokerProcess) -> None:
    report = storm(broker.port("LIMITED"), "--rate", "1000", "--seconds", "1", "--max-open", "10", "--timeout", "5")
    assert report["skipped"] > 0
    assert report["unfinished"] <= 10


def test_a_storm_to_a_closed_port_counts_all_attempts_as_refused() -> None:
    done = run_command("storm", "--to", f"127.0.0.1:{free_port()}", "--seconds", "0.3", "-o", "json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["refused"] == json.loads(done.stdout)["attempts"] > 0
    assert "check that a broker listens there" in done.stderr


def test_other_peoples_brokers_are_refused() -> None:
    done = run_command("storm", "--to", "192.0.2.1:9092", "--seconds", "1")
    assert done.returncode == 2
    assert "--yes-i-own-this-target" in done.stderr


@pytest.mark.parametrize("rate", ["inf", "nan", "5e-324"])
def test_a_rate_that_cannot_be_kept_is_refused(rate: str) -> None:
    done = run_command("storm", "--to", "127.0.0.1:9", "--rate", rate)
    assert done.returncode == 2
    assert "Invalid value for '--rate'" in done.stderr
