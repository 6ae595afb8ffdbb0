"""A Prometheus for the cluster `shop`, configured by the chart's own monitors, and traffic for it to scrape."""

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka import Consumer, Producer

from e2e.cluster.waiting import wait_for
from e2e.world.scraping import scrape_config_of_operator, scrape_config_of_pods, write_targets
from e2e.world.shop import BROKERS, CLUSTER, ENFORCED_TIMEOUT_S, EXTERNAL_PORT, READY_TIMEOUT_S, Shop, quota_document
from tests.support.obtain.helm import render
from tests.support.processes.prometheus import Prometheus, running_prometheus

Json = dict[str, Any]

ADAPTIVE = Path(__file__).parents[2] / "examples" / "quotas" / "adaptive.yaml"
OF_CLUSTER = ADAPTIVE.with_name("cluster.yaml")
OBSERVERS = Path(__file__).parents[2] / "examples" / "observers"
SCRAPE_S = 1.0
TARGETS = "targets.json"
NODES = BROKERS + 1
TOPIC, PARTITIONS, RECORDS = "orders", 6, 500
NOISY = "127.0.1.7"
"""An address with a separate limit, see examples/laptop."""


@dataclass(frozen=True, slots=True)
class MonitoredRun:
    """A run between two moments, in seconds since the epoch."""

    prometheus: Prometheus
    start_s: float
    end_s: float


def rendered(*switches: str) -> list[Json]:
    """Return the chart's manifests of monitoring, with these parts enabled."""
    values = [f"monitoring.{switch}.enabled=true" for switch in switches]
    return [found for found in yaml.safe_load_all(render(*values)) if found and _is_of_monitoring(found)]


def _is_of_monitoring(manifest: Json) -> bool:
    return manifest["apiVersion"].startswith("monitoring.coreos.com") or "-dashboard-" in manifest["metadata"]["name"]


@contextmanager
def prometheus_over(shop: Shop, folder: Path) -> Iterator[Prometheus]:
    """Run a Prometheus. The block starts after it has scraped every node and the operator."""
    [pods] = rendered("podMonitor")
    [operator] = rendered("serviceMonitor")
    folder.mkdir(parents=True, exist_ok=True)
    write_targets(shop.plane, folder / TARGETS)
    configs = [
        scrape_config_of_pods(pods, folder / TARGETS),
        scrape_config_of_operator(operator, shop.operator),
    ]
    with running_prometheus(folder, configs, scrape_s=SCRAPE_S) as prometheus:
        wait_for("every node and the operator scraped", lambda: len(prometheus.query("up == 1")) == NODES + 1)
        yield prometheus


@contextmanager
def observed(shop: Shop) -> Iterator[None]:
    """Load the observers of the examples inside the block."""
    documents = [yaml.safe_load(path.read_text()) for path in sorted(OBSERVERS.glob("*.yaml"))]
    for document in documents:
        if document["spec"]["builtIn"] == "prometheus":
            document["spec"]["config"] = {"labels": "api,topic"}
    shop.apply(*documents)
    names = [document["metadata"]["name"] for document in documents]
    try:
        for name in names:
            shop.await_condition("observerplugin", name, "Ready", "True", timeout_s=READY_TIMEOUT_S)
        yield
    finally:
        for name in names:
            shop.delete("observerplugin", name)


@contextmanager
def adapting(shop: Shop) -> Iterator[None]:
    """Give each broker a rate that adapts and throttles nothing inside the block, so that its metrics have series.

    A rate of the cluster for addresses that no client has gives other metrics theirs.
    """
    adapts, shares = yaml.safe_load(ADAPTIVE.read_text()), yaml.safe_load(OF_CLUSTER.read_text())
    adapts["spec"]["adaptive"] = {"minRate": 1, "maxRate": 100_000, "objective": {"requestP99": "9999ms"}}
    shares["spec"] |= {"target": {"cidr": "203.0.113.0/24"}, "limitIs": "Shared"}
    documents = (adapts, shares)
    shop.apply(*documents)
    names = [document["metadata"]["name"] for document in documents]
    try:
        for name in names:
            shop.await_enforced(name, timeout_s=ENFORCED_TIMEOUT_S)
        yield
    finally:
        for name in names:
            shop.delete("connectionquota", name)


def make_a_storm(shop: Shop, seconds: float) -> None:
    """Make a storm from an address with a limit and one without, and change a limit.

    A further client sends bytes that are not Kafka's.
    """
    with ThreadPoolExecutor(3) as threads:
        storms = [
            threads.submit(shop.storm, shop.pod(1), rate=300, seconds=seconds),
            threads.submit(shop.storm, shop.pod(2), rate=40, seconds=seconds, source=NOISY),
        ]
        traffic = threads.submit(produce_and_consume, shop, seconds)
        threading.Event().wait(seconds * 0.6)
        shop.apply(quota_document("shop-external-rate", {"listener": "EXTERNAL"}, maxConnectionCreationRate=40))
        shop.await_enforced("shop-external-rate", timeout_s=ENFORCED_TIMEOUT_S)
        say_nonsense(shop)
        traffic.result()
        for storm in storms:
            storm.result()


def say_nonsense(shop: Shop) -> None:
    """Send a request of another protocol, and wait until the broker closes the connection."""
    with socket.create_connection((shop.pod(0).address, EXTERNAL_PORT), timeout=ENFORCED_TIMEOUT_S) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with suppress(ConnectionResetError):
            while client.recv(1000):
                pass


def produce_and_consume(shop: Shop, seconds: float) -> None:
    """Produce and consume records of a topic for that long, and until the consumer has some."""
    producer = Producer({"bootstrap.servers": shop.bootstrap(), "message.timeout.ms": 60000})
    consumer = Consumer({"bootstrap.servers": shop.bootstrap(), "group.id": "billing"})
    consumer.subscribe([TOPIC])
    end_s = time.monotonic() + seconds
    consumed = 0
    try:
        while time.monotonic() < end_s or not consumed:
            assert time.monotonic() < end_s + READY_TIMEOUT_S, "the consumer has received nothing"
            for number in range(RECORDS):
                producer.produce(TOPIC, b"x" * 100, partition=number % PARTITIONS)
            assert producer.flush(60) == 0
            consumed += len(consumer.consume(RECORDS, timeout=0.5))
    finally:
        consumer.close()


def next_scrape(prometheus: Prometheus) -> None:
    """Wait until all current targets were scraped again."""
    begun_s = time.time()
    wait_for(
        "the next scrape of everything",
        lambda: all(found["value"][1] == "1" for found in prometheus.query(f"min(timestamp(up)) > bool {begun_s}")),
    )


@contextmanager
def monitored_run(shop: Shop, folder: Path, storm_seconds: float) -> Iterator[MonitoredRun]:
    with observed(shop), adapting(shop), prometheus_over(shop, folder) as prometheus:
        start_s = time.time()
        make_a_storm(shop, storm_seconds)
        wait_for("the lag of a group", lambda: prometheus.query("kafka_consumergroup_lag_sum"))
        next_scrape(prometheus)
        yield MonitoredRun(prometheus, start_s, time.time())


def cluster_labels() -> Json:
    return {"namespace": "default", "broker_cluster": CLUSTER}
