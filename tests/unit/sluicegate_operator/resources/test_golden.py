"""Every manifest that the operator makes, beside a reviewed file.

`PYTHONPATH=.:operator python tests/unit/sluicegate_operator/resources/test_golden.py` writes the files again; read the
difference before it is committed.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from sluicegate_operator.api import AuditPipeline, BrokerCluster, BrokerListener, parse_resource
from sluicegate_operator.planning.layout.children import cluster_children, listener_children, network_policies
from sluicegate_operator.planning.pipelines.pipelines import pipeline_children, plan_pipeline
from sluicegate_operator.resources.audit.audit_spark import spark_application
from tests.support.manifests import pipeline_manifests
from tests.support.manifests.bad_manifests import cluster, listener

GOLDEN = Path(__file__).parent / "golden"
UID = "6264ce5a-f913-40b0-85d0-94474e8cc1d2"

FULL = {
    "brokers": {
        "replicas": 5,
        "storage": {"size": "1Ti", "storageClassName": "fast"},
        "resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "2Gi"}},
        "rack": {"topologyKey": "topology.kubernetes.io/zone"},
    },
    "controllers": {
        "replicas": 3,
        "storage": {"size": "2Gi", "storageClassName": "safe"},
        "resources": {"requests": {"memory": "64Mi"}},
    },
    "image": "registry.example.org/sluicegate:0.2.0",
    "config": {"num.partitions": "3", "log.retention.ms": "86400000"},
    "audit": {
        "landing": {
            "uri": "s3://audit/shop?region=eu-west-1",
            "secretName": "audit-s3",
            "retentionDays": 90,
            "quota": "1Ti",
            "resources": {"limits": {"memory": "1Gi"}},
        }
    },
    "connectionQuota": {"strategy": "token-bucket", "ipAction": "drop", "windowNum": 5, "windowSizeSeconds": 2},
}


def stored(document: dict[str, Any]) -> dict[str, Any]:
    """The document as the API server has it."""
    return document | {"metadata": document["metadata"] | {"namespace": "retail", "uid": UID}}


def children(listeners: list[dict[str, Any]], **spec: Any) -> list[dict[str, Any]]:
    of = parse_resource(stored(cluster(**spec)))
    assert isinstance(of, BrokerCluster)
    parsed = [parse_resource(stored(document)) for document in listeners]
    own = [one for one in parsed if isinstance(one, BrokerListener)]
    services = [service for found in listener_children(of, own).values() for service in found]
    return cluster_children(of, own) + services + network_policies(of, own, "sluicegate-system")


PUBLIC = {"name": "PUBLIC_ACCESS_OF_PARTNERS", "port": 9095, "exposure": "LoadBalancer"}


def public_listener() -> dict[str, Any]:
    document = listener("shop-public")
    return document | {"spec": document["spec"] | PUBLIC}


CASES: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "least": ([], {}),
    "full": ([listener(), public_listener()], FULL),
}


TIME = datetime(2026, 11, 22, 12, tzinfo=UTC)
SPARK = pipeline_manifests.SPARK | {
    "executors": 4,
    "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "4", "memory": "4Gi"}},
}
PIPELINES: dict[str, dict[str, Any]] = {
    "job": pipeline_manifests.pipeline(),
    "scheduled": pipeline_manifests.FULL,
    "apache": pipeline_manifests.pipeline(**SPARK),
    "kubeflow": pipeline_manifests.pipeline(**SPARK | {"sparkOperator": "kubeflow"}),
}


def pipeline_manifest(case: str) -> dict[str, str]:
    """File name -> text of a pipeline's children, as for `manifests`."""
    pipeline = parse_resource(stored(PIPELINES[case]))
    of = parse_resource(stored(cluster(audit={"landing": {"claimName": "audit", "secretName": "audit-s3"}})))
    assert isinstance(pipeline, AuditPipeline)
    assert isinstance(of, BrokerCluster)
    places = plan_pipeline(pipeline, of, TIME).places
    assert places is not None
    made = pipeline_children(pipeline, places)
    if case == "apache":
        made.append(spark_application(pipeline, places, TIME))
    return {
        f"pipeline-{case}-{child['kind'].lower()}-{lasting_name(child)}.yaml": yaml.safe_dump(child, sort_keys=False)
        for child in made
    }


def manifests(case: str) -> dict[str, str]:
    """File name -> text; one file for each child."""
    listeners, spec = CASES[case]
    return {
        f"{case}-{child['kind'].lower()}-{lasting_name(child)}.yaml": yaml.safe_dump(child, sort_keys=False)
        for child in children(listeners, **spec)
    }


def lasting_name(child: dict[str, Any]) -> str:
    """The name, without the hash of a ConfigMap's content."""
    name = str(child["metadata"]["name"])
    return name.rpartition("-")[0] if child["kind"] == "ConfigMap" else name


@pytest.mark.parametrize("case", CASES)
def test_children_are_those_of_the_files(case: str) -> None:
    read = {path.name: path.read_text(encoding="utf-8") for path in GOLDEN.glob(f"{case}-*.yaml")}
    assert manifests(case) == read


@pytest.mark.parametrize("case", PIPELINES)
def test_what_runs_a_pipeline_is_that_of_the_files(case: str) -> None:
    read = {path.name: path.read_text(encoding="utf-8") for path in GOLDEN.glob(f"pipeline-{case}-*.yaml")}
    assert pipeline_manifest(case) == read


def write() -> None:
    made = [*(manifests(case) for case in CASES), *(pipeline_manifest(case) for case in PIPELINES)]
    for name, text in (item for files in made for item in files.items()):
        (GOLDEN / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
