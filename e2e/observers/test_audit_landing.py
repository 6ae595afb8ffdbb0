"""The audit log of a cluster: a sidecar of each broker's pod writes Parquet files, and never blocks the broker."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Producer

from audit_pipeline.reading.query import Events
from audit_pipeline.spool.targets import FolderTarget
from audit_pipeline.upkeep.check import check
from e2e.cluster.waiting import wait_for
from e2e.world.operator_process import REPOSITORY
from e2e.world.shop import EXTERNAL_PORT, NAMESPACE, READY_TIMEOUT_S, BrokerPod, Json, Shop, condition_of

CLUSTER, CLAIM, PLUGIN = "ledger", "ledger-audit", "ledger-audit"
EXAMPLE = REPOSITORY / "examples" / "audited"
LANDED_TIMEOUT_S = 90.0
PRODUCED = "SELECT coalesce(sum(records), 0) FROM partition WHERE api_key = 0"


def example(name: str) -> Json:
    found: Json = yaml.safe_load((EXAMPLE / name).read_text())
    return found


def cluster() -> Json:
    """A cluster of one broker, with a missing Secret: it does not prevent a pod from starting."""
    made = example("cluster.yaml")
    made["spec"] |= {"resyncSeconds": 5, "brokers": made["spec"]["brokers"] | {"replicas": 1}}
    made["spec"]["audit"]["landing"] |= {"secretName": "missing"}
    return made


def plugin() -> Json:
    made = example("audit-log.yaml")
    made["spec"]["config"] |= {"segment.ms": "1000"}
    return made


@pytest.fixture
def segments(standing_shop: Shop) -> Iterator[Path]:
    """The folder on the claim's volume."""
    shop = standing_shop
    claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    shop.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": CLAIM}, "spec": claim})
    uid = shop.plane.get("persistentvolumeclaim", CLAIM)["metadata"]["uid"]
    yield shop.kubelet.claim_folder(NAMESPACE, CLAIM, uid) / CLUSTER
    shop.delete("observerplugin", PLUGIN)
    shop.delete("brokerlistener", "ledger-external")
    delete_cluster(shop)
    shop.delete("persistentvolumeclaim", CLAIM, "--wait=false")


def delete_cluster(shop: Shop) -> None:
    shop.delete("brokercluster", CLUSTER)
    wait_for("no broker is left", lambda: not shop.broker_pods(CLUSTER, deleting=True), timeout_s=READY_TIMEOUT_S)


def produce(pod: BrokerPod, count: int) -> None:
    producer = Producer({"bootstrap.servers": f"{pod.address}:{EXTERNAL_PORT}", "message.timeout.ms": 60000})
    errors: list[object] = []
    for _ in range(count):
        producer.produce("orders", b"audited", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert errors == [None] * count


def landed(segments: Path) -> int:
    if not segments.is_dir() or not list(segments.rglob("*.parquet")):
        return 0
    found: int = Events(FolderTarget(segments)).ask(PRODUCED)[1][0][0]
    return found


def test_requests_of_clients_are_in_files_and_a_failing_lander_keeps_brokers_in_service(
    standing_shop: Shop, segments: Path
) -> None:
    shop = standing_shop
    shop.apply(cluster(), example("listener.yaml"), plugin())
    shop.await_condition("observerplugin", PLUGIN, "Ready", "True", timeout_s=READY_TIMEOUT_S)
    (pod,) = shop.broker_pods(CLUSTER)
    produce(pod, 10)
    wait_for("events in the files", lambda: landed(segments) == 10, timeout_s=LANDED_TIMEOUT_S)

    whole = segments.with_name("elsewhere")
    segments.rename(whole)
    segments.write_text("no folder")
    produce(pod, 10)
    said = wait_for("the plugin says that spools wait", lambda: remark(shop, "wait to be landed"), timeout_s=120.0)
    assert said.startswith("loaded by all 1 brokers")
    assert shop.metric(pod, "sluicegate_audit_waiting_spools") > 5
    (still,) = shop.broker_pods(CLUSTER)
    assert (still.ready, still.restarts, still.uid) == (True, 0, pod.uid)
    segments.unlink()
    whole.rename(segments)
    wait_for("what was written meanwhile", lambda: landed(segments) == 20, timeout_s=LANDED_TIMEOUT_S)
    wait_for("the plugin says nothing of it", lambda: not remark(shop, "wait to be landed"), timeout_s=LANDED_TIMEOUT_S)

    produce(pod, 10)
    delete_cluster(shop)
    # The lander is stopped after its broker, and has landed the broker's last events.
    assert landed(segments) == 30
    assert check(FolderTarget(segments)).findings == []


def remark(shop: Shop, what: str) -> str:
    message: str = condition_of(shop.plane.get("observerplugin", PLUGIN), "Ready")["message"]
    return message if what in message else ""
