"""Storms of a real broker, recorded, landed and computed by Spark: without a limit, and with one that came later."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from pyspark.sql import DataFrame, SparkSession

from audit_pipeline.ingest.land import land
from audit_pipeline.results.frames import event_schema
from audit_pipeline.results.settings import StormLimits
from audit_pipeline.results.storms.storm_bins import storm_bins, stormy_seconds
from audit_pipeline.results.storms.storm_episodes import with_episode
from audit_pipeline.results.storms.storm_requests import storm_requests
from audit_pipeline.results.storms.storms import storm_sources, storms
from audit_pipeline.spool.targets import FolderTarget
from sluicegate_operator.cli.storms.storm_load import CLIENT_ID, Storm, StormPlan
from sluicegate_operator.cli.storms.storm_report import AttemptOutcome
from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.clients.broker_admin import until

pytestmark = pytest.mark.full

KEY = "max.connection.creation.rate"
LIMIT, RATE, SECONDS, SOURCE = 20, 90, 5.0, "127.0.6.1"
"""Of the storms, in connections a second."""


def storm(broker: BrokerProcess) -> int:
    """Connect again and again; return how many connections the client has seen accepted."""
    report = Storm(StormPlan("127.0.0.1", broker.port(), SECONDS, RATE, sources=(SOURCE,))).run()
    return sum(counts[AttemptOutcome.ACCEPTED] for counts in report.sources.values())


def limit(broker: BrokerProcess, rate: int) -> None:
    entry = ConfigEntry(KEY, str(rate), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, str(broker.node_id), incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(30)


@contextmanager
def producing(broker: BrokerProcess) -> Iterator[None]:
    """Produce one message after the other meanwhile, on a connection that is there before."""
    producer, is_over = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0}), threading.Event()

    def produce() -> None:
        while not is_over.is_set():
            producer.produce("orders", b"x")
            producer.flush(30)

    producer.produce("orders", b"x")
    assert producer.flush(30) == 0
    thread = threading.Thread(target=produce)
    thread.start()
    yield
    is_over.set()
    thread.join(60)


def landed(spark: SparkSession, folder: Path, table: str) -> DataFrame:
    reader = spark.read.option("recursiveFileLookup", "true").schema(event_schema(table))
    return reader.parquet(str(folder / table))


@pytest.fixture(scope="module")
def told(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[int], list[Any], list[Any]]:
    """What the client counted in each storm, the storms, and their sources, in the order of time."""
    folder = tmp_path_factory.mktemp("storms")
    properties = {
        "observer.class.names": "audit-log",
        "observer.audit-log.spool.dir": str(folder / "spools"),
        "connection.quota.strategy": "token-bucket",
    }
    with BrokerProcess(properties=properties) as broker:
        with producing(broker):
            counted = [storm(broker)]
        second = int(time.time())
        until(
            lambda: int(time.time()) > second, "no request of another client is in the first second of the next storm"
        )
        limit(broker, LIMIT)
        counted.append(storm(broker))
        broker.stop()
    land(folder / "spools", FolderTarget(folder / "segments"))
    connection, request = (landed(spark, folder / "segments", name) for name in ("connection", "request"))
    bins = storm_bins(stormy_seconds(connection, StormLimits()), connection, request).localCheckpoint()
    rows = with_episode(bins).persist()
    requests = storm_requests(bins, request)
    found = storms(rows, requests).orderBy("started").collect()
    return counted, found, storm_sources(rows).where(f"client_id = '{CLIENT_ID}'").orderBy("started").collect()


def test_each_storm_is_a_row_although_no_calm_is_between_them(told: tuple[list[int], list[Any], list[Any]]) -> None:
    counted, found, sources = told
    assert len(found) == 2
    assert [row.source_ip for row in found] == [SOURCE, SOURCE]
    assert [row.source_client_id for row in found] == [CLIENT_ID, CLIENT_ID]
    for count, row, source in zip(counted, found, sources, strict=True):
        # Brokers also accept clients that have given up meanwhile.
        assert source.accepted >= count
        assert row.source_attempts == source.accepted + source.refused
        assert (row.ended - row.started).total_seconds() > SECONDS - 1


def test_the_limit_is_that_of_its_time(told: tuple[list[int], list[Any], list[Any]]) -> None:
    _, (free, held), _ = told
    assert (free.limit_key, free.limit_value, free.listener_rate, free.held_accepted) == (None, None, None, None)
    assert (held.limit_key, held.limit_value, held.listener_rate) == (KEY, LIMIT, LIMIT)
    assert free.peak_attempts > 2 * LIMIT >= held.held_accepted > 0


def test_others_are_asked_about_at_the_time_of_the_storm(told: tuple[list[int], list[Any], list[Any]]) -> None:
    _, (free, held), _ = told
    assert free.others_requests_during > 0
    assert free.others_p99_during_us > 0
    assert held.others_requests_before >= free.others_requests_during
    assert (held.others_requests_during, held.others_p99_during_us) == (0, None)
