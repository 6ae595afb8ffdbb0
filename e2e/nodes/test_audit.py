"""The audit log on a node: landed by a sidecar on a volume, and queried by a Job in the image with Spark."""

import json
from typing import Any

import yaml
from confluent_kafka import Producer

from e2e.cluster.waiting import wait_for
from e2e.nodes.site.figures import Figures
from e2e.nodes.site.kube import Kube
from e2e.nodes.site.own_namespace import OwnNamespace, own_namespace
from e2e.nodes.site.shop import NodeShop
from e2e.world.operator_process import REPOSITORY
from e2e.world.shop import EXTERNAL_PORT, READY_TIMEOUT_S, Json

EXAMPLE = REPOSITORY / "examples" / "audited"
CLUSTER, PIPELINE = "ledger", "ledger-answers"
SEGMENTS = f"/var/lib/sluicegate-audit/{CLUSTER}"
RECORDS = 50
PRODUCED = "SELECT coalesce(sum(records), 0) AS produced FROM partition WHERE api_key = 0"
RUN_TIMEOUT_S = 600.0
"""A run takes 45 s, and three times that on a loaded machine."""


def example(name: str, **spec: Any) -> Json:
    found: Json = yaml.safe_load((EXAMPLE / name).read_text(encoding="utf-8"))
    found["spec"] |= spec
    return found


def claim(name: str) -> Json:
    """Return a claim for pods of one node, because volumes of this cluster's class belong to a node."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def produce(ledger: OwnNamespace) -> None:
    [pod] = ledger.items("pods", "-l", "app.kubernetes.io/component=broker")
    producer = Producer({"bootstrap.servers": f"{pod['status']['podIP']}:{EXTERNAL_PORT}", "message.timeout.ms": 60000})
    errors: list[object] = []
    for _ in range(RECORDS):
        producer.produce("orders", b"audited", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert errors == [None] * RECORDS


def await_landed(ledger: OwnNamespace) -> None:
    """Wait until all produced records are in files. The query runs in the sidecar, as documented for users."""
    ask = ["python", "-m", "audit_pipeline", "query", PRODUCED, "--target", SEGMENTS, "--json"]

    def look() -> bool:
        said = ledger.kubectl("exec", f"{CLUSTER}-brokers-0", "-c", "lander", "--", *ask)
        produced = json.loads(said)["produced"]
        assert produced == RECORDS, f"landed {produced}"
        return True

    wait_for("what was produced is landed", look, timeout_s=READY_TIMEOUT_S, interval_s=1)


def run(ledger: OwnNamespace, name: str) -> Json:
    """Run the pipeline by hand, and return its status after the end."""
    ledger.kubectl("create", "job", f"--from=cronjob/{PIPELINE}", name)

    def ended() -> Json:
        [pipeline] = ledger.items("auditpipeline")
        status: Json = pipeline.get("status", {})
        last = status.get("lastRun", {})
        assert (last.get("name"), last.get("state")) in ((name, "Succeeded"), (name, "Failed")), f"status {status}"
        return status

    return wait_for(f"{name} has ended", ended, timeout_s=RUN_TIMEOUT_S, interval_s=1)


def restarts(ledger: OwnNamespace) -> dict[str, list[int]]:
    """Return the restarts by container, one number for each pod; a retried run is another pod."""
    found: dict[str, list[int]] = {}
    for pod in ledger.items("pods"):
        for one in (*pod["status"].get("initContainerStatuses", []), *pod["status"]["containerStatuses"]):
            found.setdefault(one["name"], []).append(one["restartCount"])
    return found


def test_what_clients_did_is_answered_by_a_job_on_a_node(shop: NodeShop, kube: Kube, figures: Figures) -> None:
    log, brokers = example("audit-log.yaml"), {"replicas": 1, "storage": {"size": "1Gi"}}
    log["spec"]["config"] |= {"segment.ms": "1000"}
    resources = {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
    # The schedule is far away, because a scheduled run would be an additional one.
    pipeline = example("audit-pipeline.yaml", schedule="0 0 1 1 *", resources=resources)
    with own_namespace(kube, "audited") as ledger:
        ledger.apply(claim("ledger-audit"), claim("ledger-answers"))
        ledger.apply(example("cluster.yaml", brokers=brokers), example("listener.yaml"), pipeline)
        ledger.await_ready("bc,bl,ap")
        status = run(ledger, "too-early")
        assert status["lastRun"]["state"] == "Failed", str(status)
        assert SEGMENTS in status["lastError"]
        assert ledger.condition("ap", PIPELINE, "Stalled")["reason"] == "RunFailed"

        ledger.apply(log)
        ledger.await_ready("op")
        produce(ledger)
        await_landed(ledger)
        status = run(ledger, "by-hand")
        assert (status["lastRun"]["state"], status.get("lastError")) == ("Succeeded", None)
        assert status["events"] > 0
        assert status["rows"]["usage"] > 0
        assert status["complete"] == "True", str(status)
        assert status["reportLocation"] == f"claim ledger-answers: {PIPELINE}.results/report.html"
        assert ledger.condition("ap", PIPELINE, "Ready")["reason"] == "RunSucceeded"
        figures.note("a run of an AuditPipeline, s", status["tookSeconds"])
        # Two of the pipeline's pods belong to the first run.
        assert restarts(ledger) == {"broker": [0], "controller": [0], "lander": [0], "pipeline": [0, 0, 0]}
